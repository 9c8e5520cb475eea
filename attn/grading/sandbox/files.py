"""Name the files in the sandbox: none of them holds a right answer.

And keep the machine's folders out of what a notebook's process says: an error
of PyTorch's may name the file that raised it. That keeps messages plain, and
alike in two runs; it is no boundary.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from functools import cache
from pathlib import Path

from attn.grading.sandbox.isolation import packages, pythons
from attn.grading.sandbox.server import HOME

PREFIX = "attn-sandbox-"
"""Of a sandbox's folder."""

_ATTN = Path(__file__).resolve().parents[2]

FILES = str.split(
    """
    arguments.py
    exercises/__init__.py exercises/case.py exercises/guard.py
    exercises/kernel.py exercises/kernel_errors.py exercises/launches.py
    exercises/triton_compat.py
    grading/__init__.py grading/checks/__init__.py grading/checks/clock.py
    grading/checks/effects.py grading/checks/forbidden.py
    grading/checks/inputs.py grading/checks/objects.py
    grading/checks/result.py grading/checks/run.py
    grading/sandbox/__init__.py grading/sandbox/limits.py
    grading/sandbox/missing.py grading/sandbox/notebook.py
    grading/sandbox/requests.py grading/sandbox/server.py
    grading/sandbox/wire.py grading/sandbox/worker.py
    profiling/__init__.py profiling/calls.py profiling/compat.py
    profiling/kernel_traffic.py
    profiling/live_memory.py
    """
)


def populate(folder: Path) -> Path:
    """Copy the sandbox's files into a folder; return the server's."""
    for name in FILES:
        target = folder / "attn" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(_ATTN / name, target)
    about = (
        '"""The part of attn that is beside a notebook when it is graded."""\n'
    )
    (folder / "attn" / "__init__.py").write_text(about, "utf-8")
    (folder / HOME).mkdir()
    return folder / "attn" / "grading" / "sandbox" / "server.py"


def answers() -> list[Path]:
    """Return the folders that hold right answers, or what checks them."""
    root = _ATTN.parent
    names = ("attn", "solutions", "notebooks", "tests", "book", "_build")
    places = [root / name for name in (*names, ".git")]
    places += [x / name for x in packages() for name in ("attn", "solutions")]
    return [x for x in places if x.is_dir()]


def neutral(text: str) -> str:
    """Replace folders in a text, or in a JSON's text."""
    pattern, names = _places()
    return pattern.sub(lambda found: names.get(found[0], "<sandbox>"), text)


@cache
def _places() -> tuple[re.Pattern[str], dict[str, str]]:
    names = {Path(os.path.expanduser("~")): "<home>", _ATTN.parent: "<book>"}
    names |= dict.fromkeys([*packages(), *pythons()], "<python>")
    texts = {
        spelled: name
        for path, name in names.items()
        if len(path.parts) > 1 and path not in _EVERYWHERE
        for spelled in (str(path), json.dumps(str(path))[1:-1])
    }
    longest_first = sorted(texts, key=len, reverse=True)
    own = re.escape(str(Path(tempfile.gettempdir(), PREFIX))) + r"\w+"
    return re.compile("|".join([own, *map(re.escape, longest_first)])), texts


_EVERYWHERE = {Path("/usr"), Path("/usr/local"), Path("/tmp"), Path("/home")}
