"""Mark a notebook: it runs in the sandbox, each verdict is made outside.

An exercise is judged where the notebook checks it, in a process forked from
the notebook's. When it is wrong, the notebook gets the book's answer, so that
the mistake counts once; what is then judged in it are other exercises. One
that only a later cell completes is judged again, at the end of another run
that gets no answer of the book's: *no process in which an exercise is judged
has ever held the book's text of it*.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from attn.exercises import sources
from attn.exercises.spec import Exercise, chapter, find
from attn.grading.checks.clock import OutOfTime
from attn.grading.checks.failures import one_thread
from attn.grading.checks.forbidden import Forbidden
from attn.grading.checks.oracle import Oracle
from attn.grading.checks.run import Outcome
from attn.grading.classroom import given
from attn.grading.classroom.plan import Judge, Own, Plan
from attn.grading.classroom.result import Mark, Status
from attn.grading.diagnosis.judge import Verdict, judge
from attn.grading.sandbox.isolation import KINDS
from attn.grading.sandbox.limits import Limits
from attn.grading.sandbox.notebook import Begin, Bind, Cell
from attn.grading.sandbox.sandbox import (
    Answer,
    CellDied,
    Died,
    Note,
    Sandbox,
    Session,
)

_RESTARTS = 3  # of a notebook's process, without what ended it
_MOST_NOTES = 3  # on a page, for one exercise
Graded = tuple[Status, Verdict]


#: Those whose reason may be in another cell.
_EXPLAINED = ("wrong", "out of time", "died")


class Elsewhere:
    """Stand for an answer that is in another process, and has this text."""

    def __init__(self, text: str) -> None:
        self.text = text


Elsewhere.__module__ = "answer"


class Examiner:
    """Marks notebooks with the inputs of one seed.

    Args:
        seed: draws the inputs of every exercise.
        timeout: seconds on the wall for one exercise. A statement of a cell
            has a twelfth of them, and all cells a third.
        isolation: of notebooks from the machine, a key of
            ``isolation.KINDS``.
        limits: on what one notebook may use.
    """

    def __init__(
        self,
        seed: int,
        timeout: float = 60.0,
        isolation: str = "bubblewrap",
        limits: Limits | None = None,
    ) -> None:
        self.seed, self.timeout, self._kind = seed, timeout, isolation
        self._limits = limits or Limits()
        self._opened: Sandbox | None = None
        self._oracle = cache(self._new_oracle)

    def __enter__(self) -> Examiner:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the sandbox."""
        if self._opened:
            self._opened.close()
        self._opened = None

    @property
    def isolation(self) -> str:
        """In words, what keeps a notebook from the machine."""
        return KINDS[self._kind]

    def examine(self, plan: Plan, points: Mapping[str, float]) -> list[Mark]:
        """Return the mark of each exercise of a chapter, in order.

        Args:
            plan: of the notebook.
            points: what each exercise is worth.
        """
        run = NotebookRun(self, plan)
        marks = []
        for name, (status, verdict) in run.judged().items():
            worth = points[name]
            notes = run.notes(name) if status in _EXPLAINED else ()
            told = verdict.message, verdict.details, verdict.mistake
            earned = worth if verdict.passed else 0
            marks.append(Mark(name, earned, worth, status, *told, notes))
        return marks

    def sandbox(self) -> Sandbox:
        """Return the sandbox, which opens when it is first needed."""
        if self._opened is None or not self._opened.is_open:
            self._opened = Sandbox(self._kind)
        return self._opened

    def session(self, plan: Plan) -> Session:
        """Start the process of a notebook, with what its chapter gives."""
        used = given.words("\n".join(x.text for x in plan.own))
        modules = given.imports(plan.key, used)
        session = self.sandbox().start_session(self._limits, modules)
        text = given.definitions(plan.key, used)
        session.run(Begin(given.names(plan.key), text))
        return session

    def verdict(self, exercise: Exercise, answer: Answer, text: str) -> Graded:
        """Judge the answer of a process that was forked at a check."""
        oracle = self._oracle(exercise.id)
        last = [answer.defined()]
        if (error := last[0].error) is not None:
            return _status(error), Verdict(False, str(error))

        def run(*args: Any, **options: Any) -> Outcome:
            last[:] = [answer.run(*args, **options)]
            return last[0]

        try:
            with one_thread():
                verdict = judge(
                    exercise, Elsewhere(text), oracle=oracle, runner=run
                )
        except Exception as error:  # a result that no comparison is made for
            kind = type(error).__name__
            message = f"its result cannot be compared ({kind}: {error})"
            return "wrong", Verdict(False, message)
        if verdict.passed:
            return "passed", verdict
        stopped = answer.error or last[0].error
        return _status(stopped), _with_the_end(verdict, stopped)

    def _new_oracle(self, exercise: str) -> Oracle:
        text = f"{self.seed} {exercise}".encode()
        number = int.from_bytes(hashlib.sha256(text).digest()[:4])
        with one_thread():
            return Oracle(find(exercise), number)


class NotebookRun:
    """The runs of one notebook: one with the book's help, one without.

    Args:
        examiner: opens sessions, and judges.
        plan: of the notebook.
    """

    def __init__(self, examiner: Examiner, plan: Plan) -> None:
        self._examiner, self._plan = examiner, plan
        self._left = examiner.timeout / 3
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

    def notes(self, exercise: str) -> tuple[str, ...]:
        """Say which of the learner's cells did not run to their ends."""
        every = [
            (self._plan.steps[n].number, x)
            for n, notes in sorted(self._raised.items())
            for x in notes
        ]
        texts = [
            f"cell {number}: {x.text}"
            if x.is_time
            else f"cell {number} raised {x.kind}: {x.text}"
            for number, x in every
        ]
        return tuple(dict.fromkeys(texts))[:_MOST_NOTES]

    def _restarting(self, run: Callable[..., None], *args: Any) -> None:
        """Run; after a death again, without the statement that caused it."""
        for _ in range(1 + _RESTARTS):
            try:
                return run(*args)
            except CellDied as died:
                self._why = f"{died.why}, in the notebook's process"
                step = died.cell - 1
                note = Note(died.cell, died.statement, 0, "Died", died.why)
                if step >= 0:
                    self._skip.setdefault(step, set()).add(died.statement)
                    self._raised.setdefault(step, []).append(note)

    def _with_the_book(self, graded: dict[str, Graded]) -> None:
        """Run to the last check; after a wrong answer go on with the book's.

        What was judged before the process had to be started again stands.
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
                    session.run(Bind(sources.solution(name)))

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
        notes, spent = session.run(cell)
        self._left -= spent
        kept = [x for x in self._raised.get(n, ()) if x.statement in skip]
        self._raised[n] = [*kept, *notes]
        for note in notes:
            if note.is_time:  # as it would again
                self._skip.setdefault(n, set()).add(note.statement)

    def _judge(self, session: Session, name: str) -> Graded:
        exercise, plan = find(name), self._plan
        is_own = re.compile(rf"\b{re.escape(exercise.name)}\b")
        if not any(is_own.search(x.text) for x in plan.own):
            return _not_there(name in plan.stubs)
        with session.check(
            exercise.name,
            _form(exercise),
            exercise.usual(),
            self._examiner.timeout,
        ) as answer:
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
            if notes and plan.steps[n].number in plan.written[name]:
                cell = f"the cell of {exercise.name}"
                note = notes[0]
                if note.kind in ("Died", "OutOfTime"):
                    status: Status = "died"
                    status = "out of time" if note.is_time else "died"
                    return status, Verdict(False, f"{cell}: {note.text}")
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


def _status(error: BaseException | None) -> Status:
    """Return the status of an exercise that ended with an error, or wrong."""
    if isinstance(error, Died):
        return "died"
    if isinstance(error, OutOfTime):
        return "out of time"
    if isinstance(error, Forbidden):
        return "refused"
    return "not written" if isinstance(error, NotImplementedError) else "wrong"


def _with_the_end(verdict: Verdict, stopped: BaseException | None) -> Verdict:
    """Add what stopped an answer in a later case."""
    is_end = isinstance(stopped, OutOfTime | Forbidden)
    if not is_end or str(stopped) in verdict.message:
        return verdict
    end = f"in a later case it was stopped: {stopped}"
    return replace(verdict, message=f"{verdict.message}\n{end}")


def _form(exercise: Exercise) -> str:
    if exercise.launch:
        return "kernel"
    return "class" if isinstance(exercise.reference, type) else "function"
