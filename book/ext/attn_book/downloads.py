"""Offer plain copies of the chapters for download.

The pages are made from notebooks in MyST, with the outputs of the solved run.
Elsewhere MyST is shown as it is written, and a learner has solved nothing
yet: the notebooks under ``_sources`` are translated, and their checks
cleared. The workflow ``pages`` publishes the same copies for Colab.
"""

import json
from pathlib import Path

from sphinx.application import Sphinx

from attn.grading import plain
from attn_book import repository


def setup(app: Sphinx) -> None:
    app.connect("html-collect-pages", make_plain)


def make_plain(app: Sphinx) -> list[str]:
    """Translate every notebook under ``_sources``, and add the glossary."""
    address = repository.address(app.srcdir)
    folder = Path(app.outdir, "_sources", "notebooks")
    copies = {folder / "glossary.ipynb": plain.glossary()}
    for path in folder.glob("*.ipynb"):
        notebook = json.loads(path.read_text("utf-8"))
        copies[path] = plain.copy_of(notebook, set_up=True, repository=address)
    for path, copy in copies.items():
        text = json.dumps(copy, indent=1, ensure_ascii=False)
        path.write_text(text + "\n", "utf-8")
    return []  # no page more
