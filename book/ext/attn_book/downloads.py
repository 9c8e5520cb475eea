"""Clear the check outputs in the notebooks that the pages offer.

A chapter is stored with the outputs of its solved run. A learner who
downloads it has solved nothing yet, so the outputs of the checks are cleared
in the copy.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from attn.exercises.cells import without_check_outputs

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def setup(app: Sphinx) -> None:
    app.connect("build-finished", clear_checks)


def clear_checks(app: Sphinx, failure: Exception | None) -> None:
    """Clear the checks in every notebook under ``_sources``."""
    if failure is None and app.builder.format == "html":
        for path in Path(app.outdir, "_sources").rglob("*.ipynb"):
            notebook = without_check_outputs(
                json.loads(path.read_text("utf-8"))
            )
            text = json.dumps(notebook, indent=1, ensure_ascii=False)
            path.write_text(text + "\n", "utf-8")
