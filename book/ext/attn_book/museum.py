"""Show the museum as a gallery: an index to filter, and pairs side by side.

Each exhibit becomes a grid, in which the lines that its repair changes are
marked. Labels come first among the ids of headings: permalinks that stay.
"""

from itertools import pairwise

from docutils import nodes
from sphinx.application import Sphinx

from attn.exercises.changes import changed_lines

PARTS = ("says", "fails", "why", "mends", "repaired")
BEFORE_CONTENTS = 400  # Sphinx lists a page's headings at 500


def setup(app: Sphinx) -> None:
    app.connect("doctree-read", arrange, BEFORE_CONTENTS)


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
