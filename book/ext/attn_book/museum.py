"""Show the museum as a gallery: a page a room, and pairs side by side.

The rooms are parts of one notebook, which Sphinx reads again for each. An
exhibit becomes a grid, in which the lines that its repair changes are marked.
Labels come first among the ids of headings: permalinks that stay.
"""

from itertools import pairwise
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

from attn.exercises.changes import changed_lines
from attn.publishing.myst_to_markdown.museum import rooms
from attn.publishing.myst_to_markdown.targets import notebook

PAGE = "notebooks/museum"
PARTS = ("says", "fails", "why", "mends", "repaired")
EARLY = 400  # Sphinx lists headings, and the theme makes buttons, at 500


def setup(app: Sphinx) -> None:
    app.connect("env-get-outdated", add_rooms)
    app.connect("doctree-read", arrange, EARLY)
    app.connect("html-page-context", offer_the_notebook, EARLY)


def add_rooms(app: Sphinx, env: Any, *_: Any) -> list[str]:
    """Have the notebook read once more for each room."""
    paths = env.project._docname_to_path
    pages = [f"notebooks/{room}" for room in rooms(notebook("museum"))]
    paths.update(dict.fromkeys(pages, paths[PAGE]))
    env.project.docnames.update(pages)
    return pages


def offer_the_notebook(app: Sphinx, page: str, *about: Any) -> None:
    """Have a room's button give the one notebook."""
    if page.startswith(PAGE):
        about[1]["sourcename"] = f"{PAGE}.ipynb"


def arrange(app: Sphinx, doctree: nodes.document) -> None:
    """Put what fails and its repair beside each other."""
    for section in doctree.findall(nodes.section):
        label = section["ids"][-1]
        if label.startswith(("museum-", "bug-")):
            section["ids"].reverse()
        if not label.startswith("bug-"):
            continue
        rest = section[1:]
        cells = [i for i, x in enumerate(rest) if "cell" in x["classes"]]
        text = [x.astext().startswith("Repaired.") for x in rest].index(True)
        ends = (0, cells[0], cells[0] + 1, text, cells[-1], None)
        section["classes"].append("exhibit")
        section[1:] = [
            nodes.container("", *rest[start:end], classes=[part])
            for part, (start, end) in zip(PARTS, pairwise(ends), strict=True)
        ]
        *before, after = (
            next(rest[i].findall(nodes.literal_block)) for i in cells
        )
        for code in before:
            lines = changed_lines(code.astext(), after.astext())
            for block, numbers in zip((code, after), lines, strict=True):
                about = block.setdefault("highlight_args", {"hl_lines": []})
                about["hl_lines"] += numbers
