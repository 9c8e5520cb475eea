"""Compare what ran in a kernel with its notebook's file, where that is known.

JupyterLab and VS Code name the file. It is what a learner hands in.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attn.exercises.answers import digest
from attn.exercises.bindings import binds
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

    def binds(self, name: str) -> bool:
        """Return whether a cell of it may give a name its value."""
        return any(binds(name, x) for x in self.texts.values())


def read(namespace: Mapping[str, Any]) -> Saved:
    """Read the file of a notebook, by the notebook's namespace."""
    known = namespace.get("__vsc_ipynb_file__")
    path = Path(known or os.environ.get("JPY_SESSION_NAME", ""))
    with suppress(OSError, ValueError, LookupError, TypeError):
        at = path.stat().st_mtime
        cells = json.loads(path.read_text("utf-8"))["cells"]
        code = [x for x in cells if x["cell_type"] == "code"]
        texts = ["".join(x["source"]) for x in code]
        return Saved(at, {digest(x): x for x in texts})
    return Saved()
