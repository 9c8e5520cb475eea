"""Read a learner's answers: the text that each needs, and no more.

Nothing of a submission is executed, imported or unpickled here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import PurePath

from attn.exercises import APPENDICES, CHAPTERS, cells, sources
from attn.grading.classroom import given, other_cells, reading
from attn.grading.classroom.magics import without_magics
from attn.grading.classroom.needed import Needed, Notebook
from attn.grading.classroom.reading import Cell, Document, Unreadable
from attn.grading.classroom.statements import Effect, statements
from attn.grading.classroom.submissions import Submission
from attn.publishing import notebooks

_BY_ID = "found by its cell's id: nbgrader's metadata are not in the file"
_BY_NAME = "found by its name, in a cell that is not marked as the exercise's"


@dataclass(frozen=True)
class Answers:
    """Hold a learner's answers, as text.

    Args:
        key: of the chapter.
        cells: of each exercise that has a cell, the text of its answer; in
            the chapter's order. An untouched stub is among them.
        notes: of each exercise with something odd, what it is.
        file_notes: what is odd about the file.
        beside: of each exercise that has a cell, what of the cell was left
            out, and what of other cells came along.
    """

    key: str
    cells: dict[str, str]
    notes: dict[str, tuple[str, ...]]
    file_notes: tuple[str, ...] = ()
    beside: dict[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class _Chapter:
    points: dict[str, int]  # by exercise, in order
    cell_ids: dict[str, str]  # of the exercises' cells, to their exercises


def read(submission: Submission) -> Answers:
    """Return the answers in a submission.

    An exercise is found by nbgrader's ``grade_id``; else by the cell's id in
    the chapter; else it is the one cell that defines its name. Of several
    cells the last counts that is not an untouched stub, as when the notebook
    is run. A plain Python file is one cell, and each answer's. What an answer
    does not need of its cell is left out, and what it uses of others comes
    along.

    Raises:
        Unreadable: nothing in it can be graded.
    """
    suffix = submission.path.suffix.lower()
    text, notes = reading.decode(reading.load(submission.path), suffix)
    is_python = suffix == ".py"
    document = (reading.python if is_python else reading.notebook)(text)
    document = replace(document, cells=other_cells.as_run(document.cells))
    key = _chapter_of(document, submission.name)
    notes += (*document.notes, *_of_other_chapters(document, key))
    notebook = Notebook(document.cells)
    texts, remarks, beside = {}, {}, {}
    for exercise in points(key):
        cell, odd = _answer(document, key, exercise)
        if cell:
            odd += _no_python(without_magics(cell.source)[1])
            known = given.Names(exercise)
            needed = notebook.needed(cell, exercise, known)
            texts[exercise] = needed.text
            beside[exercise] = tuple(_beside(needed))
        if odd:
            remarks[exercise] = odd
    return Answers(key, texts, remarks, notes, beside)


def points(key: str) -> dict[str, int]:
    """Return what each exercise of a chapter is worth, in its order."""
    return _pristine(key).points


@cache
def _pristine(key: str) -> _Chapter:
    notebook = sources.notebook(key)
    exercises = [(cells.exercise_id(x), x) for x in notebook["cells"]]
    ids = {x["id"]: name for name, x in exercises if name}
    return _Chapter(cells.points(notebook), ids)


@cache
def _given_texts(key: str) -> frozenset[str]:
    """Return the digests of a chapter's cells that are no exercise."""
    return frozenset(
        notebooks.digest("".join(x["source"]))
        for x in sources.notebook(key)["cells"]
        if not cells.exercise_id(x)
    )


def _chapter_of(document: Document, name: str) -> str:
    """Tell the chapter: by ids, by the file's name, by what is defined."""
    marked = {x.exercise or x.checks for x in document.cells}
    counts = {key: len(marked & set(points(key))) for key in CHAPTERS}
    if key := _most(counts):
        return key
    # A cell's own id may be anything: one alone proves nothing.
    ids = {x.id for x in document.cells}
    counts = {k: len(ids & set(_pristine(k).cell_ids)) for k in CHAPTERS}
    if max(counts.values()) > 1 and (key := _most(counts)):
        return key
    defined = {x for cell in document.cells for x in cell.defined}
    counts = {
        key: sum(x.partition("-")[2] in defined for x in points(key))
        for key in CHAPTERS
    }
    named = _named_chapter(name)
    if named and (counts[named] or not any(counts.values())):
        return named
    if PurePath(name).stem in APPENDICES or not (key := _most(counts)):
        raise Unreadable(
            "no exercise of the book is in it: neither an exercise's id, nor "
            "a function or class with an exercise's name"
        )
    return key


def _most(counts: dict[str, int]) -> str | None:
    """Return the chapter with the highest count, the first of several."""
    best = max(counts, key=lambda key: counts[key])
    return best if counts[best] else None


def _named_chapter(name: str) -> str | None:
    """Return the chapter whose file name is in a path, its end first."""
    for part in reversed(PurePath(name).parts):
        part = re.sub(r"[\W_]+", "_", part.lower())
        for key, chapter in CHAPTERS.items():
            if chapter in part:
                return key
    return None


def _of_other_chapters(document: Document, key: str) -> Iterator[str]:
    known = {name for other in CHAPTERS for name in points(other)}
    ids = {x.exercise for x in document.cells if x.exercise in known}
    if others := sorted(ids - set(points(key)) - {None}, key=str):
        yield f"not of chapter {CHAPTERS[key]}, not graded: " + ", ".join(
            map(str, others)
        )


def _answer(
    document: Document, key: str, exercise: str
) -> tuple[Cell | None, tuple[str, ...]]:
    """Return the cell that holds an answer, and notes on how it was found.

    None if no cell is the exercise's.
    """
    ids = _pristine(key).cell_ids
    ours = [x for x in document.cells if x.exercise == exercise]
    how: tuple[str, ...] = ()
    if not ours:
        ours = [
            x
            for x in document.cells
            if x.exercise not in points(key)
            and ids.get(x.id or "") == exercise
        ]
        how = (_BY_ID,) if ours else ()
    notes = tuple(
        f"its cell is {x.kind}, not code, and is not taken"
        for x in ours
        if x.kind != "code"
    )
    ours = [x for x in ours if x.kind == "code"]
    name = exercise.partition("-")[2]
    if not any(_is_work(x, exercise) and _defines(x, name) for x in ours):
        own, of_others = _defining(document, key, exercise)
        if own:
            ours, how = own, () if document.plain else (_BY_NAME,)
        elif of_others and not ours:
            where = of_others[-1].exercise
            ours, how = of_others, (f"found in the cell of {where}",)
    if not ours:
        return None, notes
    chosen, among = _chosen(ours, exercise)
    return chosen, how + chosen.notes + notes + among


def _defining(
    document: Document, key: str, exercise: str
) -> tuple[list[Cell], list[Cell]]:
    """Return the cells that define an exercise's name.

    First the learner's own; then those of other exercises, with which the
    exercise's was merged. The chapter's own cells are not among them.
    """
    name = exercise.partition("-")[2]
    defining = [
        x
        for x in document.cells
        if name in x.defined
        and not x.checks
        and x.exercise != exercise
        and notebooks.digest(x.source) not in _given_texts(key)
    ]
    others = [x for x in defining if x.exercise in points(key)]
    return [x for x in defining if x not in others], others


def _chosen(ours: list[Cell], exercise: str) -> tuple[Cell, tuple[str, ...]]:
    """Return the cell that counts, of those of one exercise."""
    name = exercise.partition("-")[2]
    work = [x for x in ours if _is_work(x, exercise)] or ours[-1:]
    # Of a cell that was split, both parts are the exercise's.
    work = [x for x in work if _defines(x, name)] or work
    if len({notebooks.digest(x.source) for x in work}) == 1:
        return work[-1], ()
    note = (
        f"{len(work)} cells are this exercise's: the last counts, as when "
        "the notebook is run"
    )
    return work[-1], (note,)


def _no_python(lines: tuple[str, ...]) -> tuple[str, ...]:
    return (f"left out, as no Python: {_some(lines)}",) if lines else ()


def _beside(needed: Needed) -> Iterator[str]:
    if needed.left_out:
        yield "left out, as the answer does not need it: " + _some(
            needed.left_out
        )
    if needed.brought:
        yield f"taken along from other cells: {_some(needed.brought)}"


def _some(parts: tuple[str, ...]) -> str:
    more = f" and {len(parts) - 3} more" if len(parts) > 3 else ""
    return ", ".join(parts[:3]) + more


def _defines(cell: Cell, name: str) -> bool:
    found = statements(without_magics(cell.source)[0])
    if found is None:
        return name in cell.defined
    effects = (x.effects.get(name) for x in found)
    return any(x is not None and x >= Effect.MAY_BIND for x in effects)


def _is_work(cell: Cell, exercise: str) -> bool:
    """Return whether a cell holds more than nothing, or than its stub."""
    stubs = (cell.stub, notebooks.digest(sources.stub(exercise)))
    written = bool(cell.source.strip())
    return written and notebooks.digest(cell.source) not in stubs
