"""Show the museum as a gallery: an index to filter, and pairs side by side.

Each exhibit becomes a grid, in which the lines that its repair changes are
marked. Labels come first among the ids of headings: permalinks that stay.
"""

import json
import re
from difflib import SequenceMatcher
from itertools import pairwise

from docutils import nodes
from sphinx.application import Sphinx

from attn.grading.plain.museum import with_index

PAGE = "notebooks/museum"
PARTS = ("says", "fails", "why", "mends", "repaired")
BEFORE_CONTENTS = 400  # Sphinx lists a page's headings at 500


def setup(app: Sphinx) -> None:
    app.connect("source-read", add_index)
    app.connect("doctree-read", arrange, BEFORE_CONTENTS)


def add_index(app: Sphinx, docname: str, source: list[str]) -> None:
    if docname == PAGE:
        source[0] = json.dumps(with_index(json.loads(source[0])))


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
        ends = (cells[0], cells[0] + 1, text, cells[-1], cells[-1] + 1)
        parts = [
            nodes.container("", *rest[start:end], classes=[part])
            for part, (start, end) in zip(
                PARTS, pairwise((0, *ends)), strict=True
            )
        ]
        section["classes"].append("exhibit")
        section[1:] = [*parts, *rest[ends[-1] :]]
        *before, after = (
            next(rest[i].findall(nodes.literal_block)) for i in cells
        )
        for code in before:
            lines = changed(code.astext(), after.astext())
            for block, numbers in zip((code, after), lines, strict=True):
                marked = block.setdefault("highlight_args", {})
                marked.setdefault("hl_lines", []).extend(numbers)


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
    edited = len(come) < len(new) / 2
    return left, list(come) if edited else right


def likeness(*lines: str) -> float:
    """Return how much is common; more if both lines set the same name."""
    words = [re.findall(r"\w+|[^\w\s]", line) for line in lines]
    set_by = r"(return|[\w, ]+(?= [-+*]?= ))|"
    names = [re.findall(set_by, line)[0] for line in lines]
    a, b = (set(re.findall(r"[a-zA-Z]\w*", name)) for name in names)
    matcher = SequenceMatcher(None, words[0], words[1])
    return matcher.ratio() + 0.3 * bool(a & b)
