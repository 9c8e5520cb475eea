"""Tell which text is the answer of an exercise, in a session and in a file.

The answer is the text of the cell that defined the exercise's name last, in
the order in which cells ran. A session has that order (``standing``). A file
has what its last check noted in its card; without that, the last cell counts.
"""

from __future__ import annotations

import ast
import hashlib
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from attn.exercises import cells, sources
from attn.exercises.bindings import binds, bound, deleted, used

#: What is said of a stub as it was handed out, and of one that has changed.
NOT_STARTED, UNFINISHED = "not started", "not finished"
#: What a file says of an answer that its last check refused unjudged.
REFUSED = "its last check did not judge it: run its cell, and check it again"
_MOST_USED = 100


def digest(source: str) -> str:
    """Hash a source, without its trailing blanks and a folded cell's title."""
    source = re.sub(r"\A# @title .*\n", "", source)
    text = "\n".join(line.rstrip() for line in source.strip().splitlines())
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:16]


def defines(name: str, text: str, raised: Iterable[Any]) -> bool:
    """Return whether a statement that did not fail gives a name its value.

    Args:
        name: of an exercise's answer.
        text: Python.
        raised: its errors, each with the number of its ``statement``.
    """
    failed = {x.statement for x in raised}
    lines = text.split("\n")
    return any(
        n not in failed
        and binds(name, "\n".join(lines[x.lineno - 1 : x.end_lineno]))
        for n, x in enumerate(ast.parse(text).body)
    )


@cache
def handed_out(key: str) -> dict[str, str | None]:
    """Return the digests of a chapter's cells, with their exercises."""
    every: dict[str, str | None] = {digest(""): None}
    for cell in sources.notebook(key)["cells"]:
        every[digest("".join(cell["source"]))] = cells.exercise_id(cell)
        for name in cells.touched(cell):
            every[digest(cells.touching(name))] = None
    return every


def is_stub(cell: Any, exercise: str) -> bool:
    """Return whether a notebook's cell is an exercise as it was handed out.

    It is today's stub, or an older one, whose digest the cell keeps.
    """
    known = digest(sources.stub(exercise)), cells.stub_digest(cell)
    return digest("".join(cell["source"])) in known


class Note(NamedTuple):
    """The note of a check, in its card, on the text that it spoke of.

    Args:
        exercise: that was checked.
        text: digest of the cell.
        refused: whether it was refused unjudged: its cell had failed.
        at: seconds since 1970; the last note counts.
        uses: digests of the other cells that it needed.
    """

    exercise: str
    text: str
    refused: bool
    at: float
    uses: Sequence[str] = ()


def notes(outputs: Any) -> list[Note]:
    """Return the notes in a cell's stored outputs, whatever JSON they are."""
    found = []
    for output in outputs if isinstance(outputs, list) else []:
        about = output
        for name in ("metadata", "attn"):
            about = about.get(name) if isinstance(about, dict) else None
        if isinstance(about, dict) and "exercise" in about:
            *values, uses = [about.get(x) for x in Note._fields]
            kinds = str, str, bool, (int, float)
            if all(map(isinstance, values, kinds)):
                many = uses[:_MOST_USED] if isinstance(uses, list) else ()
                found.append(Note(*values, uses=many))
    return found


class Answer(NamedTuple):
    """The answer of an exercise in a file.

    Args:
        at: the number of its cell; None if no cell holds one.
        end: of the last cell that it needs: one below may complete a class.
        others: the numbers of the other cells that define or delete the name.
        settled: what is said of it without running it; empty if it runs.
    """

    at: int | None
    end: int | None
    others: list[int]
    settled: str = ""

    def places(self, checks: Iterable[int]) -> list[int]:
        """Return the checks that judge it, of all its exercise's.

        Those are not above it, nor below another cell with the name.
        """
        start = -1 if self.end is None else self.end
        stop = min((x for x in self.others if x > start), default=math.inf)
        return [x for x in checks if start <= x < stop]


def answer(
    exercise: str,
    cells: Mapping[int, str],
    stubs: Collection[int],
    noted: Iterable[Note],
) -> Answer:
    """Find the answer of an exercise among a file's cells.

    Args:
        exercise: its id.
        cells: the sources of the code cells, by number.
        stubs: the numbers of those that are as they were handed out.
        noted: in the cards of all checks of the file.
    """
    name = exercise.partition("-")[2]
    own = [n for n, x in cells.items() if n not in stubs and binds(name, x)]
    last = max(
        (x for x in noted if x.exercise == exercise),
        key=lambda x: x.at,
        default=None,
    )
    at, settled = own[-1] if own else None, ""
    needs: Sequence[str] = ()
    marked = [n for n, x in cells.items() if last and digest(x) == last.text]
    if last and marked:
        at, needs = marked[-1], last.uses
        if at in stubs:
            settled = NOT_STARTED
        elif last.refused:
            settled = REFUSED
    every = [n for n, x in cells.items() if name in bound(x) | deleted(x)]
    others, end = [n for n in every if n != at], at
    if at is not None and not settled:
        stop = min((x for x in others if x > at), default=math.inf)
        texts = {n: x for n, x in cells.items() if n not in stubs and n < stop}
        needed = {n: x for n, x in cells.items() if digest(x) in needs}
        end = _end(exercise, at, texts, needed)
    return Answer(at, end, others, settled)


def _end(
    exercise: str,
    at: int,
    cells: Mapping[int, str],
    noted: Mapping[int, str],
) -> int:
    """Return the last cell below an answer that completes or helps it.

    Of the cells that define a name that it uses, the noted ones count.
    """
    key, _, name = exercise.partition("-")
    sets = rf"^[ \t]*(?:{name}\.\w[\w.]*\s*=(?!=)|setattr\(\s*{name}\b)"
    above = [x for n, x in cells.items() if n <= at]
    known = {*sources.names(key)}.union(*map(bound, [*above, *noted.values()]))
    needed, more = set[str](), {*used(name, cells[at])}
    while more:
        needed |= more
        users = [(x, y) for x in more for y in cells.values() if binds(x, y)]
        more = {z for x, y in users for z in used(x, y)} - needed
    below = [
        n
        for n, x in cells.items()
        if n > at
        and (re.search(sets, x, re.MULTILINE) or bound(x) & needed - known)
    ]
    return max([at, *below, *noted])


def in_notebook(parts: Sequence[Any], key: str) -> dict[str, Answer]:
    """Return the answers of a chapter among a notebook's code cells.

    Args:
        parts: the cells, as nbformat reads them.
        key: of the chapter.
    """
    texts = {n: x["source"] for n, x in enumerate(parts)}
    given = handed_out(key)
    stubs = [
        n
        for n, x in enumerate(parts)
        if (text := digest(texts[n])) in given or text == cells.stub_digest(x)
    ]
    noted = [x for part in parts for x in notes(part["outputs"])]
    names = [f"{key}-{x}" for x in sources.names(key)]
    return {x: answer(x, texts, stubs, noted) for x in names}


def order(parts: Sequence[Any], found: Mapping[str, Answer]) -> list[int]:
    """Return a notebook's cells as they are run, each check at its answer.

    Args:
        parts: the cells, as nbformat reads them.
        found: the answers of its exercises.
    """
    below: list[list[int]] = [[n] for n in range(len(parts))]
    for n, part in enumerate(parts):
        own = found.get(cells.checked_id(part) or "")
        if own and own.end is not None and not own.places([n]):
            below[n].remove(n)
            below[own.end].append(n)
    return [n for group in below for n in group]
