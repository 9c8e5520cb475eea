"""Plan the run of a submission: its own cells, and where each is judged.

Nothing of a submission is executed, imported or unpickled here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import PurePath

from attn.exercises import APPENDICES, CHAPTERS, cells, sources
from attn.grading.classroom import reading
from attn.grading.classroom.reading import Cell, Document, Unreadable
from attn.grading.classroom.submissions import Submission
from attn.publishing import notebooks

_CHECK = re.compile(r"check\(\s*(['\"])(?P<id>[\w-]+)\1\s*\)[\s;]*(?:#.*)?")


@dataclass(frozen=True)
class Own:
    """A cell that the learner wrote, or changed.

    Args:
        number: in the file, from 1; parts of a cell share one.
        text: its source.
    """

    number: int
    text: str


@dataclass(frozen=True)
class Judge:
    """The place at which an exercise is judged."""

    exercise: str


@dataclass(frozen=True)
class Plan:
    """Say what of a submission runs, and when each exercise is judged.

    Args:
        key: of the chapter.
        steps: in the order of the run.
        written: of each exercise that the learner wrote, the numbers of the
            cells that may define it.
        stubs: the exercises whose stub is there, as it was handed out.
        code: of each exercise that was written, the text of the last cell.
        notes: of each exercise with something odd, what it is.
        file_notes: what is odd about the file.
    """

    key: str
    steps: tuple[Own | Judge, ...]
    written: dict[str, list[int]]
    stubs: frozenset[str] = frozenset()
    code: dict[str, str] = field(default_factory=dict)
    notes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    file_notes: tuple[str, ...] = ()

    @property
    def own(self) -> list[Own]:
        """The learner's cells."""
        return [x for x in self.steps if isinstance(x, Own)]

    @cached_property
    def definitions(self) -> str:
        """The functions and classes of the learner's cells, as Python."""
        kinds = (ast.FunctionDef, ast.ClassDef)
        found = []
        for own in self.own:
            text = reading.python_of(own.text)
            tree, lines = reading.tree_of(text), text.splitlines()
            for node in tree.body if tree else ():
                if isinstance(node, kinds):
                    start = min(x.lineno for x in (node, *node.decorator_list))
                    found += lines[start - 1 : node.end_lineno]
        return "\n".join(found)

    def after(self, exercise: str) -> str:
        """Return the text of the cells that follow an exercise's check."""
        at = self.steps.index(Judge(exercise))
        return "\n".join(x.text for x in self.steps[at:] if isinstance(x, Own))


@dataclass(frozen=True)
class _Chapter:
    points: dict[str, int]  # by exercise, in order
    cell_ids: dict[str, str]  # of the exercises' cells, to their exercises
    texts: frozenset[str]  # digests of what was handed out


def read(submission: Submission) -> Plan:
    """Return the plan of a submission.

    A cell that is as it was handed out does not run. An exercise is judged
    at the last cell that checks it; without one, below the cell that defines
    it. One that nothing checks or defines comes first: what follows may use
    the book's.

    Raises:
        Unreadable: nothing in it can be graded.
    """
    suffix = submission.path.suffix.lower()
    text, notes = reading.decode(reading.load(submission.path), suffix)
    is_python = suffix == ".py"
    document = (reading.python if is_python else reading.notebook)(text)
    key = _chapter_of(document, submission.name)
    notes += (*document.notes, *_of_other_chapters(document, key))
    return replace(planned(document.cells, key), file_notes=notes)


def planned(document: list[Cell], key: str) -> Plan:
    """Return the plan of a chapter's notebook that has these cells."""
    numbered = dict(enumerate(document, 1))
    written = _written(numbered, key)
    return Plan(
        key,
        tuple(_steps(numbered, key, written)),
        written,
        frozenset(
            exercise
            for x in document
            if x.kind == "code" and _is_handed_out(x, key)
            if (exercise := _exercise(x, key))
        ),
        {x: numbered[cells[-1]].source for x, cells in written.items()},
        dict(_odd(document, key)),
    )


def points(key: str) -> dict[str, int]:
    """Return what each exercise of a chapter is worth, in its order."""
    return _pristine(key).points


@cache
def _pristine(key: str) -> _Chapter:
    notebook = sources.notebook(key)
    exercises = [(cells.exercise_id(x), x) for x in notebook["cells"]]
    texts = ("".join(x["source"]) for x in notebook["cells"])
    return _Chapter(
        cells.points(notebook),
        {x["id"]: name for name, x in exercises if name},
        frozenset(map(notebooks.digest, texts)),
    )


def _steps(
    numbered: dict[int, Cell], key: str, written: dict[str, list[int]]
) -> Iterator[Own | Judge]:
    """Yield the own parts of cells, and the place of each exercise."""
    parts: list[Own | Judge] = []
    for number, cell in numbered.items():
        if cell.kind == "code":
            parts += _parts(number, cell, key)
    last = {x.exercise: n for n, x in enumerate(parts) if isinstance(x, Judge)}
    below: dict[int, list[str]] = {}
    for exercise in points(key):
        if exercise in last:
            continue
        if exercise in written:
            below.setdefault(written[exercise][-1], []).append(exercise)
        else:
            yield Judge(exercise)
    for n, part in enumerate(parts):
        if isinstance(part, Own):
            yield part
            following = parts[n + 1] if n + 1 < len(parts) else None
            if getattr(following, "number", 0) != part.number:
                yield from map(Judge, below.pop(part.number, ()))
        elif last[part.exercise] == n:
            yield part
    yield from (Judge(x) for names in below.values() for x in names)


def _parts(number: int, cell: Cell, key: str) -> Iterator[Own | Judge]:
    """Cut a cell at its checks."""
    source = reading.without_timer(cell.source)
    checks = {n: x for n, x in _calls_of(source) if x in points(key)}
    if _is_handed_out(cell, key):
        yield from map(Judge, checks.values())
        return
    lines, start = source.split("\n"), 0
    for line, exercise in (checks | {len(lines): ""}).items():
        if (text := "\n".join(lines[start:line])).strip():
            yield Own(number, text)
        if exercise:
            yield Judge(exercise)
        start = line + 1
    # Its call was changed, or is a comment now.
    if cell.checks in {*points(key)} - {*checks.values()}:
        yield Judge(str(cell.checks))


def _calls_of(source: str) -> list[tuple[int, str]]:
    """Return the lines of a cell that check an exercise, and which."""
    lines = [_CHECK.fullmatch(x) for x in source.split("\n")]
    calls = [(n, found["id"]) for n, found in enumerate(lines) if found]
    if calls and len(lines) > 1:
        tree = reading.tree_of(reading.python_of(source))
        if tree is not None:  # not in a text of several lines, nor in a block
            tops = {x.lineno - 1 for x in tree.body if isinstance(x, ast.Expr)}
            calls = [x for x in calls if x[0] in tops]
    return calls


def _is_handed_out(cell: Cell, key: str) -> bool:
    """Return whether a cell is as the chapter has it, or had it; or empty."""
    if not cell.source.strip():
        return True
    return notebooks.digest(cell.source) in _pristine(key).texts | {cell.stub}


def _exercise(cell: Cell, key: str) -> str | None:
    """Return the exercise whose cell it is, by its metadata or its id."""
    if cell.exercise in points(key):
        return cell.exercise
    return _pristine(key).cell_ids.get(cell.id or "")


def _written(numbered: dict[int, Cell], key: str) -> dict[str, list[int]]:
    """Return the numbers of the learner's cells that define an exercise.

    Where none does, of the cell in which it was to be written.
    """
    own = {
        n: x
        for n, x in numbered.items()
        if x.kind == "code" and x.source.strip() and not _is_handed_out(x, key)
    }
    found = {}
    for exercise in points(key):
        name = re.escape(exercise.partition("-")[2])
        binds = re.compile(
            rf"^\s*(?:(?:async\s+)?def|class)\s+{name}\b"
            rf"|^\s*{name}\s*(?::[^=\n]+)?=(?!=)|\bas\s+{name}\b"
            rf"|\bimport\b.*\b{name}\b",
            re.MULTILINE,
        )
        numbers = [n for n, x in own.items() if binds.search(x.source)]
        marked = [n for n, x in own.items() if _exercise(x, key) == exercise]
        if numbers or marked:
            found[exercise] = numbers or marked
    return found


def _odd(
    document: list[Cell], key: str
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield what is odd about the cells of an exercise."""
    for exercise in points(key):
        notes: tuple[str, ...] = ()
        for cell in document:
            if _exercise(cell, key) == exercise:
                notes += cell.notes
                if cell.kind != "code":
                    kind = f"its cell is {cell.kind}, not code"
                    notes += (f"{kind}, and does not run",)
        if notes:
            yield exercise, notes


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
    known = {name for k in CHAPTERS if k != key for name in points(k)}
    if others := known & {x.exercise for x in document.cells}:
        names = ", ".join(sorted(others))
        yield f"not of chapter {CHAPTERS[key]}, not graded: {names}"
