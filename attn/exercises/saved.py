"""Compare what ran in a kernel with its notebook's file, where that is known.

JupyterLab and VS Code name the file. It is what a learner hands in.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attn.exercises.answers import digest
from attn.exercises.bindings import binds
from attn.exercises.place import key_of
from attn.exercises.standing import Run


@dataclass(frozen=True)
class Saved:
    """A notebook as it was saved last.

    Args:
        at: seconds since 1970.
        texts: of its code cells, by their digests; none if it is not known.
    """

    at: float = 0.0
    texts: dict[str, str] = field(default_factory=dict)

    def lacks(self, run: Run) -> bool:
        """Return whether it is known, and no cell of it is what ran."""
        return bool(self.texts) and digest(run.text) not in self.texts

    def has_lost(self, run: Run) -> bool:
        """Return whether a cell was changed or deleted after its run."""
        return self.lacks(run) and 0 < run.ended < self.at

    def binding(self, name: str) -> list[str]:
        """Return the texts of its cells that may give a name its value."""
        return [x for x in self.texts.values() if binds(name, x)]


def read(namespace: Mapping[str, Any]) -> Saved:
    """Read the file of a notebook, by the notebook's namespace."""
    return of(_file(namespace))


def of(path: Path) -> Saved:
    """Read a notebook's file."""
    with suppress(OSError, ValueError, LookupError, TypeError):
        at = path.stat().st_mtime
        cells = json.loads(path.read_text("utf-8"))["cells"]
        code = [x for x in cells if x["cell_type"] == "code"]
        texts = ["".join(x["source"]) for x in code]
        return Saved(at, {digest(x): x for x in texts})
    return Saved()


def chapter_here() -> str:
    """Return the chapter of the notebook that runs; empty if it has none."""
    ipython = sys.modules.get("IPython")  # which a notebook has imported
    names = getattr(ipython and ipython.get_ipython(), "user_ns", {})
    with suppress(OSError, ValueError, LookupError, TypeError):
        return key_of(json.loads(_file(names).read_text("utf-8")))
    return ""


def _file(namespace: Mapping[str, Any]) -> Path:
    known = namespace.get("__vsc_ipynb_file__")
    return Path(known or os.environ.get("JPY_SESSION_NAME", ""))
