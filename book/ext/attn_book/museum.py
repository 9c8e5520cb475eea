"""Show the museum as a gallery: an index to filter, and pairs side by side.

Each exhibit becomes a grid, in which the lines that its repair changes are
marked. Labels come first among the ids of headings: permalinks that stay.
"""

import re
from difflib import SequenceMatcher
from itertools import pairwise

from docutils import nodes
from sphinx.application import Sphinx

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
            lines = changed(code.astext(), after.astext())
            for block, numbers in zip((code, after), lines, strict=True):
                about = block.setdefault("highlight_args", {"hl_lines": []})
                about["hl_lines"] += numbers


def changed(before: str, after: str) -> tuple[list[int], list[int]]:
    """Return the lines of two versions that say nearly the same, in order.

    Where most of a version is from the one before, its new lines as well.
    """
    old, new = (
        {i: x.strip() for i, x in enumerate(code.splitlines(), 1) if x}
        for code in (before, after)
    )
    gone = {i: x for i, x in old.items() if x not in new.values()}
    come = {j: x for j, x in new.items() if x not in old.values()}
    score = {(i, j): likeness(gone[i], come[j]) for i in gone for j in come}
    pairs: list[tuple[int, int]] = []
    for i, j in sorted(score, key=score.__getitem__, reverse=True):
        best = max(score[x, y] for x, y in score if x == i or y == j)
        in_order = all((i - x) * (j - y) > 0 for x, y in pairs)
        if score[i, j] == best > 0.62 and in_order:
            pairs.append((i, j))
    left, right = ([pair[side] for pair in pairs] for side in (0, 1))
    return left, list(come) if len(come) < len(new) / 2 else right


def likeness(*lines: str) -> float:
    """Return how much is common; more if both set a name, or return."""
    a, b = (re.findall(r"\w+|\S", line) for line in lines)
    c, d = (set(re.findall(r"return|\w+(?= = )", line)) for line in lines)
    return SequenceMatcher(None, a, b).ratio() + 0.3 * bool(c & d)
