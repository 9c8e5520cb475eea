"""The download button gives a notebook without ticks.

A chapter is stored with the outputs of its solved run, ticks included. Who
downloads it has solved nothing yet, so the copy that the button gives has
the checks' outputs cleared.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from attn_book.exercises import is_check

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def setup(app: Sphinx) -> None:
    app.connect("build-finished", clear_ticks)


def clear_ticks(app: Sphinx, failure: Exception | None) -> None:
    """Clear the checks in every notebook under ``_sources``."""
    if failure is None and app.builder.format == "html":
        for path in Path(app.outdir, "_sources").rglob("*.ipynb"):
            path.write_text(without_ticks(path.read_text("utf-8")), "utf-8")


def without_ticks(text: str) -> str:
    """The text of a notebook with the outputs of its checks cleared."""
    notebook = json.loads(text)
    for cell in notebook["cells"]:
        if is_check(cell):
            cell["outputs"] = []
            cell["execution_count"] = None
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
