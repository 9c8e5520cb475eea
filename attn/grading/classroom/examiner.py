"""Mark a notebook: it runs in the sandbox, each verdict is made outside."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any

from attn.exercises.given import given_names, given_text, words
from attn.exercises.outcome import Forbidden, Outcome
from attn.exercises.spec import Exercise, find
from attn.grading.checks.clock import OutOfTime
from attn.grading.checks.oracle import Oracle
from attn.grading.classroom.notebook_run import Graded, NotebookRun
from attn.grading.classroom.plan import Plan
from attn.grading.classroom.result import Mark, Status
from attn.grading.diagnosis.judge import Verdict, judge
from attn.grading.sandbox.sandbox import Sandbox
from attn.grading.sandbox.session import Answer, Died, Session
from attn.profiling.calls import one_thread

#: What takes a second to import, and the words that need it.
_SLOW = {
    "torch._dynamo": "compile chapter:cache chapter:flex chapter:iface",
    "einops": "einops",
    "torch.nn.attention.flex_attention": "flex_attention",
    "torch.distributed": "distributed",
    "matplotlib.pyplot": "matplotlib",
    "pandas": "pandas",
    "sklearn": "sklearn",
    "transformers.models.llama.modeling_llama": "transformers chapter:iface",
}


class Examiner(ExitStack):
    """Marks notebooks with the inputs of one seed; its exit ends the sandbox.

    Args:
        seed: draws the inputs of every exercise.
        timeout: seconds on the wall for one exercise. A statement of a cell
            has a twelfth of them, and all cells a third.
        isolation: of notebooks from the machine, a key of
            ``isolation.KINDS``.
        memory: bytes that one notebook may use.
        sandbox: that has been started, of this isolation.
    """

    def __init__(
        self,
        seed: int,
        timeout: float = 60.0,
        isolation: str = "bubblewrap",
        memory: int = 4 << 30,
        sandbox: Sandbox | None = None,
    ) -> None:
        super().__init__()
        self.seed, self.timeout, self._kind = seed, timeout, isolation
        self._memory = memory
        self._opened = sandbox
        if sandbox:
            self.callback(sandbox.close)
        self._oracle = cache(self._new_oracle)

    def examine(self, plan: Plan, points: Mapping[str, float]) -> list[Mark]:
        """Return the mark of each exercise of a chapter, in order."""
        run = NotebookRun(plan, self._start, self._judge, self.timeout)
        marks = []
        for name, (status, verdict) in run.judged().items():
            earned = points[name] if verdict.passed else 0
            told = verdict.message, verdict.details, verdict.mistake
            notes, code = plan.notes.get(name, ()), plan.code.get(name, "")
            if status in ("wrong", "out of time", "died"):
                # The reason may be in another cell.
                notes += run.notes(words(f"{code}\n{verdict.message}"))
            marks.append(
                Mark(name, earned, points[name], status, *told, notes, code)
            )
        return marks

    def sandbox(self) -> Sandbox:
        """Return the sandbox, which opens when it is first needed."""
        if self._opened is None or not self._opened.is_open:
            self._opened = Sandbox(self._kind)
            self.callback(self._opened.close)
        self._opened.wait()
        return self._opened

    def _start(self, plan: Plan) -> Session:
        """Start the process of a notebook, with what its chapter gives."""
        key, used = plan.key, words("\n".join(x.text for x in plan.own))
        known = used | {f"chapter:{key}"}
        slow = [x for x, words in _SLOW.items() if known & {*words.split()}]
        session = self.sandbox().start_session(self._memory, slow)
        session.give(given_text(key, used), given_names(key))
        return session

    def _judge(self, exercise: Exercise, answer: Answer, text: str) -> Graded:
        """Judge the answer of a process that was forked at a check."""
        if (error := answer.undefined) is not None:
            return _status(error), Verdict(False, str(error))
        last = [Outcome()]

        def run(*args: Any, **options: Any) -> Outcome:
            last[:] = [answer.run(*args, **options)]
            return last[0]

        oracle = self._oracle(exercise.id)
        there = SimpleNamespace(text=text)  # in place of the answer
        try:
            verdict = judge(exercise, there, oracle=oracle, runner=run)
        except Exception as error:  # a result that no comparison is made for
            kind = type(error).__name__
            message = f"its result cannot be compared ({kind}: {error})"
            return "wrong", Verdict(False, message)
        if verdict.passed:
            return "passed", verdict
        stopped = answer.error or last[0].error
        is_end = isinstance(stopped, OutOfTime | Forbidden)
        if is_end and str(stopped) not in verdict.message:  # a later case
            end = f"in a later case it was stopped: {stopped}"
            verdict = replace(verdict, message=f"{verdict.message}\n{end}")
        return _status(stopped), verdict

    def _new_oracle(self, exercise: str) -> Oracle:
        text = f"{self.seed} {exercise}".encode()
        number = int.from_bytes(hashlib.sha256(text).digest()[:4])
        with one_thread():
            return Oracle(find(exercise), number)


def _status(error: BaseException | None) -> Status:
    """Return the status of an exercise that ended with an error, or wrong."""
    if isinstance(error, OutOfTime):
        return "died" if isinstance(error, Died) else "out of time"
    if isinstance(error, Forbidden):
        return "refused"
    if isinstance(error, NotImplementedError):
        return "not finished"
    return "wrong"
