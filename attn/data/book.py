"""Find the files of the book, in a checkout or in the installed package."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

__all__ = ["ADDRESS", "PACKAGE", "install", "origin", "root", "state_package"]

#: What pip is given for attn: the file of ``make wheel``. No release is on a
#: package index; for the first one, set ``"attn"``, which ``make refresh``
#: writes into README.md.
PACKAGE = "_build/attn-1.0.0-py3-none-any.whl"
#: Where the book is published, for ``git clone``: nowhere yet. The front page
#: says so, and ``make refresh`` writes it into README.md.
ADDRESS = ""
_PACKAGE = Path(__file__).resolve().parents[1]


def root() -> Path:
    """Return the folder that holds ``notebooks/`` and ``solutions/``."""
    for folder in (_PACKAGE.parent, _PACKAGE / "_book"):
        if (folder / "solutions").is_dir():
            return folder
    raise FileNotFoundError(
        "the book's notebooks and solutions are neither beside the attn "
        "package nor inside it: install it from a checkout of the book"
    )


def install(extras: str) -> str:
    """Return the command that adds extras, from where attn was installed."""
    if (root() / "pyproject.toml").exists():
        return f"pip install -e {shlex.quote(f'{root()}[{extras}]')}"
    # Only for an error: its import takes longer than all else of a command's.
    from importlib.metadata import distribution

    origin = distribution("attn").read_text("direct_url.json")  # PEP 610
    if origin is None:
        return f"pip install '{PACKAGE}[{extras}]'"
    about = json.loads(origin)
    vcs = f"{about['vcs_info']['vcs']}+" if "vcs_info" in about else ""
    return f"pip install 'attn[{extras}] @ {vcs}{about['url']}'"


def origin(address: str = ADDRESS) -> str:
    """Return a sentence that says where to get the book, as Markdown."""
    whole = "The book is one repository: pages, chapters, checks and library."
    if address:
        return f"{whole} `git clone {address}` brings it."
    return (
        f"{whole} It has no public address yet; take it from where you found "
        "this page."
    )


def state_package(readme: Path) -> None:
    """Write into the README what pip is given, and where the book is."""
    old, new = r'(?m)^pip install "[^"[]*', f'pip install "{PACKAGE}'
    text = re.sub(old, new, readme.read_text("utf-8"))
    text = re.sub(r"(?m)^(\*\*Get it\.\*\*) .*", rf"\1 {origin()}", text)
    readme.write_text(text, "utf-8")
