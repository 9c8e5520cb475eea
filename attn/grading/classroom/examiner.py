"""Mark a notebook: it runs in the sandbox, each verdict is made outside."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from attn.exercises.spec import Exercise, find
from attn.grading.checks.clock import OutOfTime
from attn.grading.checks.failures import one_thread
from attn.grading.checks.forbidden import Forbidden
from attn.grading.checks.oracle import Oracle
from attn.grading.checks.run import Outcome
from attn.grading.classroom import given
from attn.grading.classroom.notebook_run import Graded, NotebookRun
from attn.grading.classroom.plan import Plan
from attn.grading.classroom.result import Mark, Status
from attn.grading.diagnosis.judge import Verdict, judge
from attn.grading.sandbox.isolation import KINDS
from attn.grading.sandbox.sandbox import (
    Answer,
    Died,
    Sandbox,
    Session,
)

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
        memory: bytes that one notebook may use.
    """

    def __init__(
        self,
        seed: int,
        timeout: float = 60.0,
        isolation: str = "bubblewrap",
        memory: int = 4 << 30,
    ) -> None:
        self.seed, self.timeout, self._kind = seed, timeout, isolation
        self._memory = memory
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
            notes = run.notes() if status in _EXPLAINED else ()
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
        session = self.sandbox().start_session(self._memory, modules)
        text = given.definitions(plan.key, used)
        session.give(text, given.names(plan.key))
        return session

    def verdict(self, exercise: Exercise, answer: Answer, text: str) -> Graded:
        """Judge the answer of a process that was forked at a check."""
        oracle = self._oracle(exercise.id)
        if (error := answer.undefined) is not None:
            return _status(error), Verdict(False, str(error))
        last = [Outcome()]

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
