"""Plan the run of a submission: its own cells, and where each is judged.

Nothing of a submission is executed, imported or unpickled here.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath

from attn.exercises import APPENDICES, CHAPTERS, answers, bindings, cells
from attn.exercises.place import points as points
from attn.grading.checks.clock import Clock, OutOfTime
from attn.grading.classroom import reading
from attn.grading.classroom.reading import Cell, Unreadable
from attn.grading.classroom.submissions import Submission

_DEFINED = re.compile(r"^(?:async\s+)?(?:def|class)\s+(\w+)", re.MULTILINE)


@dataclass(frozen=True)
class Own:
    """A cell that the learner wrote, or changed; or a part of one."""

    number: int  # in the file, from 1
    text: str


@dataclass(frozen=True)
class Judge:
    """The place at which an exercise is judged."""

    exercise: str


Step = Own | Judge


@dataclass(frozen=True)
class Plan:
    """Say what of a submission runs, and when each exercise is judged.

    Args:
        key: of the chapter.
        steps: in the order of the run.
        written: of each exercise that the learner wrote, the numbers of the
            cells that may define it; the last of them is its answer.
        settled: what is said of an exercise that is not judged here.
        stubs: the exercises whose stub is there, as it was handed out.
        code: of each exercise that was written, the text of its answer.
        notes: of each exercise with something odd, what it is.
        file_notes: what is odd about the file.
    """

    key: str
    steps: tuple[Step, ...]
    written: dict[str, list[int]]
    settled: dict[str, str]
    stubs: set[str]
    code: dict[str, str]
    notes: dict[str, tuple[str, ...]]
    file_notes: tuple[str, ...]

    @property
    def own(self) -> list[Own]:
        """The learner's cells."""
        return [x for x in self.steps if isinstance(x, Own)]

    @cached_property
    def python(self) -> str:
        """The learner's cells as Python, without those that are none."""
        return "\n".join(python_of(x.text)[0] for x in self.own)


def read(submission: Submission) -> Plan:
    """Return the plan of a submission.

    A cell that is as it was handed out does not run. An exercise is judged
    at the last cell that checks its answer; without one, below the answer.
    One that nothing checks or defines comes first: what follows may use the
    book's.

    Raises:
        Unreadable: nothing in it can be graded.
    """
    suffix = submission.path.suffix.lower()
    text, notes = reading.decode(reading.load(submission.path), suffix)
    parse = reading.python if suffix == ".py" else reading.notebook
    document, odd = parse(text)
    key = _chapter_of(document, submission.name)
    known = {x for k in CHAPTERS if k != key for x in points(k)}
    if others := known & {x.exercise for x in document}:
        names = ", ".join(sorted(others))
        odd += (f"not of chapter {CHAPTERS[key]}, not graded: {names}",)
    return planned(document, key, notes + odd)


def planned(
    document: list[Cell], key: str, file_notes: tuple[str, ...] = ()
) -> Plan:
    """Return the plan of a chapter's notebook that has these cells."""
    numbered = dict(enumerate(document, 1))
    code = {n: x for n, x in numbered.items() if x.kind == "code"}
    own, stubs = {}, {}
    for n, cell in code.items():
        digest = answers.digest(cell.source)
        if digest in answers.handed_out(key) or digest == cell.stub:
            stubs[n] = cell.exercise or answers.handed_out(key).get(digest)
        else:
            own[n] = cell
    texts = {n: x.source for n, x in code.items()}
    noted = [x for cell in code.values() for x in cell.noted]
    found, written = {}, {}
    notes: dict[str, tuple[str, ...]] = {}
    for exercise in points(key):
        answer = answers.answer(exercise, texts, stubs, noted)
        marked = [n for n, x in numbered.items() if x.exercise == exercise]
        if answer.at is None and exercise not in stubs.values():
            edited = [n for n in marked if n in own]
            at = edited[-1] if edited else None
            answer = answers.Answer(at, at, edited[:-1])
        if answer.at in own:
            others = [n for n in answer.others if n in own]
            written[exercise] = [*others, answer.at]
        found[exercise] = answer
        if odd := [y for n in marked for y in numbered[n].notes]:
            notes[exercise] = tuple(odd)
    parts = {n: [*_parts(n, x, key, n in own)] for n, x in code.items()}
    return Plan(
        key,
        tuple(_steps(parts, found)),
        written,
        {x: y.settled for x, y in found.items() if y.settled},
        {x for x in points(key) if x in stubs.values()},
        {x: texts[n[-1]] for x, n in written.items()},
        notes,
        file_notes,
    )


def _steps(
    parts: dict[int, list[Step]], found: dict[str, answers.Answer]
) -> Iterator[Step]:
    """Yield the parts of the cells, and each exercise at its place."""
    checks = {x: [n for n in parts if Judge(x) in parts[n]] for x in found}
    places = {x: y.places(checks[x])[-1:] for x, y in found.items()}
    for x, answer in found.items():
        if not places[x] and answer.at is None:
            yield Judge(x)
    for number, cell in parts.items():
        for n, step in enumerate(cell):
            is_last = step not in cell[n + 1 :]
            if isinstance(step, Own) or (
                is_last and places[step.exercise] == [number]
            ):
                yield step
        for x, answer in found.items():
            if not places[x] and answer.end == number:
                yield Judge(x)


def _parts(number: int, cell: Cell, key: str, is_own: bool) -> Iterator[Step]:
    """Cut a cell at its checks; of one that was handed out, keep these."""
    # What measures a cell, or captures what it prints, hides its errors.
    source = bindings.TIMERS.sub("", cell.source)
    lines, start = source.split("\n"), 0
    calls = [cells.CHECK_CALL.fullmatch(x) for x in lines]
    checks = {n: x["id"] for n, x in enumerate(calls) if x}
    if checks:  # neither in a text of several lines, nor in a block
        tops = [x.lineno - 1 for x in python_of(source)[1]]
        checks = {n: checks[n] for n in tops if checks.get(n) in points(key)}
    for line, exercise in [*checks.items(), (len(lines), "")]:
        text = "\n".join(lines[start:line])
        if is_own and text.strip():
            yield Own(number, text)
        if exercise:
            yield Judge(exercise)
        start = line + 1
    # Its call was changed, or is a comment now.
    if is_own and cell.checks in points(key).keys() - checks.values():
        yield Judge(str(cell.checks))


def python_of(source: str) -> tuple[str, list[ast.stmt]]:
    """Return a cell's source as IPython would run it, and its statements.

    There are none in a cell that is no Python.
    """
    from IPython.core.inputtransformer2 import TransformerManager

    try:
        with warnings.catch_warnings(), Clock().running():
            warnings.simplefilter("ignore")  # "\d"
            text = TransformerManager().transform_cell(source)
            return text, ast.parse(text).body
    except (Exception, OutOfTime):
        return "", []


def _chapter_of(document: list[Cell], name: str) -> str:
    """Tell the chapter: by ids, by the file's name, by what is defined."""
    marked = {x.exercise for x in document}
    code = "\n".join(x.source for x in document if x.kind == "code")
    is_chapter = PurePath(name).stem not in APPENDICES
    defined = {*_DEFINED.findall(code)} if is_chapter else {*()}
    path = re.sub(r"[\W_]+", "_", name.lower())

    def evidence(key: str) -> tuple[int, ...]:
        here = sum(x.partition("-")[2] in defined for x in points(key))
        named = path.rfind(CHAPTERS[key]) + 1
        by_id = sum(x in marked or x in code for x in points(key))
        return by_id, named * (here > 0), here, named

    best = max(CHAPTERS, key=evidence)
    if not any(evidence(best)):
        raise Unreadable(
            "no exercise of the book is in it: neither an exercise's id, nor "
            "a function or class with an exercise's name"
        )
    return best
