"""Sign the notebooks that we write, as ``jupyter trust`` does.

JupyterLab shows stored HTML as it is only in a notebook with a signature; in
another one, no figure moves before its cell has run. Only what attn itself
wrote is signed here.
"""

from __future__ import annotations

import contextlib
import sqlite3
from functools import cache
from pathlib import Path
from typing import Any

from nbformat.sign import NotebookNotary

from attn.grading.learner import progress_store
from attn.publishing import notebooks


def sign(path: Path) -> None:
    """Sign a notebook; a folder without room for signatures is no error."""
    if progress_store.is_enabled():  # nothing is kept of a test
        with contextlib.suppress(OSError, sqlite3.Error):
            _notary().sign(notebooks.read(path))


def is_signed(notebook: Any) -> bool:
    """Return whether JupyterLab shows the HTML of a notebook as it is."""
    if not progress_store.is_enabled():
        return False
    with contextlib.suppress(OSError, sqlite3.Error):
        return bool(_notary().check_signature(notebook))
    return False


@cache
def _notary() -> NotebookNotary:
    return NotebookNotary()
