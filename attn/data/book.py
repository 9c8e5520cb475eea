"""Find the files of the book, in a checkout or in the installed package."""

from __future__ import annotations

from pathlib import Path

__all__ = ["root"]

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
