"""Run a notebook in the sandbox: with the book's help, and without.

The first run is that of the notebook: an exercise is judged at its check, and
where it is wrong the notebook goes on with the book's answer, so that the
mistake counts once. An exercise that only a later cell completes is judged
again, at the end of a second run, in a new process that gets no answer of the
book's: *no process in which an exercise is judged has ever held the book's
text of it*.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Protocol

from attn.exercises import sources
from attn.exercises.spec import Exercise, chapter, find
from attn.grading.classroom.plan import Judge, Own, Plan
from attn.grading.classroom.result import Status
from attn.grading.diagnosis.judge import Verdict
from attn.grading.sandbox.requests import Cell, Check
from attn.grading.sandbox.sandbox import Answer, CellDied, Note, Session

_RESTARTS = 3  # of a notebook's process, without what ended it
_MOST_NOTES = 3  # on a page, for one exercise
Graded = tuple[Status, Verdict]


#: Kinds of notes that are no errors of Python's, and what they come to.
_ENDED: dict[str, Status] = {"OutOfTime": "out of time", "Died": "died"}


class Judges(Protocol):
    """Opens sessions, and judges: ``examiner.Examiner``."""

    timeout: float

    def session(self, plan: Plan) -> Session:
        """Start the process of a notebook."""

    def verdict(self, exercise: Exercise, answer: Answer, text: str) -> Graded:
        """Judge the answer of a process that was forked at a check."""


class NotebookRun:
    """The runs of one notebook: one with the book's help, one without.

    Args:
        examiner: opens sessions, and judges.
        plan: of the notebook.
    """

    def __init__(self, examiner: Judges, plan: Plan) -> None:
        self._examiner, self._plan = examiner, plan
        self._left = examiner.timeout / 3
        self._slack = self._left  # for imports; less after a death
        self._raised: dict[int, list[Note]] = {}  # by step
        self._skip: dict[int, set[int]] = {}  # statements, by step
        self._why = "its notebook's process could not be kept running"

    def judged(self) -> dict[str, Graded]:
        """Return what became of each exercise, in the chapter's order."""
        graded: dict[str, Graded] = {}
        exercises = [x.id for x in chapter(self._plan.key)]
        self._restarting(self._with_the_book, graded)
        again = [x for x in exercises if self._may_gain(x, graded.get(x))]
        if again:
            self._left = max(self._left, self._examiner.timeout / 6)
            better: dict[str, Graded] = {}
            self._restarting(self._without_the_book, again, better)
            for name, result in better.items():
                if result[1].passed or name not in graded:
                    graded[name] = result
        died: Graded = "died", Verdict(False, self._why)
        return {x: graded.get(x, died) for x in exercises}

    def notes(self) -> tuple[str, ...]:
        """Say which of the learner's cells did not run to their ends."""
        texts = []
        for n, notes in sorted(self._raised.items()):
            for x in notes:
                raised = "" if x.kind in _ENDED else f" raised {x.kind}"
                texts.append(f"cell {self._number(n)}{raised}: {x.text}")
        return tuple(dict.fromkeys(texts))[:_MOST_NOTES]

    def _number(self, step: int) -> int:
        """Return the number in the file of the cell that a step runs."""
        own = self._plan.steps[step]
        return own.number if isinstance(own, Own) else 0

    def _restarting(self, run: Callable[..., None], *args: Any) -> None:
        """Run; after a death again, without the statement that caused it."""
        for _ in range(1 + _RESTARTS):
            try:
                return run(*args)
            except CellDied as died:
                self._slack = self._examiner.timeout / 12
                note, step = died.note, died.cell - 1
                self._why = f"{note.text}, in the notebook's process"
                if step >= 0:
                    self._skip.setdefault(step, set()).add(note.statement)
                    self._raised.setdefault(step, []).append(note)

    def _with_the_book(self, graded: dict[str, Graded]) -> None:
        """Run to the last check; after a wrong answer go on with the book's.

        What was judged before a restart of the process is kept.
        """
        with self._examiner.session(self._plan) as session:
            for n, step in enumerate(self._plan.steps):
                if isinstance(step, Own):
                    if not self._is_over(n):
                        self._run(session, n, step)
                    continue
                name = step.exercise
                if name not in graded:
                    graded[name] = self._judge(session, name)
                if not graded[name][1].passed and not self._is_over(n):
                    session.give(sources.solution(name))

    def _is_over(self, n: int) -> bool:
        """Return whether no exercise is judged after a step."""
        return not any(isinstance(x, Judge) for x in self._plan.steps[n + 1 :])

    def _without_the_book(
        self, again: list[str], graded: dict[str, Graded]
    ) -> None:
        """Run all cells twice, as a notebook whose helpers lie below."""
        with self._examiner.session(self._plan) as session:
            for _ in range(2):
                for n, step in enumerate(self._plan.steps):
                    if isinstance(step, Own):
                        self._run(session, n, step)
            for name in again:
                if name not in graded:
                    graded[name] = self._judge(session, name)

    def _run(self, session: Session, n: int, own: Own) -> None:
        skip = frozenset(self._skip.get(n, ()))
        seconds = self._examiner.timeout / 12
        cell = Cell(n + 1, own.text, seconds, self._left, skip)
        notes, spent = session.run(cell, self._slack)
        self._left -= spent
        kept = [x for x in self._raised.get(n, ()) if x.statement in skip]
        self._raised[n] = [*kept, *notes]
        for note in notes:
            if note.kind == "OutOfTime":  # as it would again
                self._skip.setdefault(n, set()).add(note.statement)

    def _judge(self, session: Session, name: str) -> Graded:
        exercise, plan = find(name), self._plan
        is_own = re.compile(rf"\b{re.escape(exercise.name)}\b")
        if not any(is_own.search(x.text) for x in plan.own):
            return _not_there(name in plan.stubs)
        check = Check(exercise.name, _form(exercise), exercise.usual())
        with session.check(check, self._examiner.timeout) as answer:
            status, verdict = self._examiner.verdict(
                exercise, answer, plan.definitions
            )
        if isinstance(answer.undefined, NameError):
            return self._undefined(name, exercise)
        return status, verdict

    def _undefined(self, name: str, exercise: Exercise) -> Graded:
        """Say why the notebook has nothing under an exercise's name."""
        plan = self._plan
        if name not in plan.written:
            return _not_there(name in plan.stubs)
        for n, notes in sorted(self._raised.items(), reverse=True):
            if notes and self._number(n) in plan.written[name]:
                cell = f"the cell of {exercise.name}"
                note = notes[0]
                if note.kind in _ENDED:
                    return _ENDED[note.kind], Verdict(
                        False, f"{cell}: {note.text}"
                    )
                text = f"{cell} raised {note.kind}: {note.text}"
                return "wrong", Verdict(False, text)
        text = f"no cell of the notebook defines {exercise.name}"
        return "wrong", Verdict(False, text)

    def _may_gain(self, name: str, graded: Graded | None) -> bool:
        """Return whether later cells may complete an answer."""
        if graded is None:
            return True
        word = re.compile(rf"\b{re.escape(find(name).name)}\b")
        message = graded[1].message
        is_below = word.search(self._plan.after(name)) is not None
        return not graded[1].passed and (is_below or "NameError" in message)


def _not_there(is_stub: bool) -> Graded:
    if is_stub:
        return "not written", Verdict(False, "the stub was not changed")
    return "missing", Verdict(False, "nothing in the notebook defines it")


def _form(exercise: Exercise) -> str:
    if exercise.launch:
        return "kernel"
    return "class" if isinstance(exercise.reference, type) else "function"
