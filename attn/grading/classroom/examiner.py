"""Mark the answers of a chapter: each verdict is made outside the sandbox."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache, cached_property
from typing import Any

from attn.exercises import sources
from attn.exercises.spec import Exercise, chapter, find
from attn.grading.checks.clock import OutOfTime
from attn.grading.checks.failures import one_thread
from attn.grading.checks.forbidden import Forbidden
from attn.grading.checks.oracle import Oracle
from attn.grading.checks.run import Outcome
from attn.grading.classroom import given
from attn.grading.classroom.result import Mark, Status
from attn.grading.diagnosis.judge import Verdict, judge
from attn.grading.sandbox.limits import Limits
from attn.grading.sandbox.sandbox import Died, Sandbox, Session
from attn.grading.sandbox.worker import Task
from attn.publishing.notebooks import digest

#: What the answers of a chapter import, beside torch: imported once.
IMPORTS = {
    "cache": ("torch._dynamo",),
    "flex": ("torch._dynamo",),
    "iface": ("torch._dynamo", "transformers.models.llama.modeling_llama"),
}


class Elsewhere:
    """Stand for an answer that is in another process, and has this text."""

    def __init__(self, text: str) -> None:
        self.text = text


Elsewhere.__module__ = "answer"


class Examiner:
    """Marks answers with the inputs of one seed.

    Sandboxes open when they are first needed, and stay open.

    Args:
        seed: draws the inputs of every exercise.
        timeout: seconds on the wall for one exercise.
        limits: on what one answer may use.
        partial: give a wrong answer points for the conditions in which it
            is right.
    """

    def __init__(
        self,
        seed: int,
        timeout: float = 60.0,
        limits: Limits | None = None,
        partial: bool = False,
    ) -> None:
        self.seed, self.timeout, self.partial = seed, timeout, partial
        self._limits = limits or Limits()
        self._sandboxes: dict[tuple[str, ...], Sandbox] = {}
        self._oracle = cache(self._new_oracle)

    def __enter__(self) -> Examiner:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the sandboxes."""
        while self._sandboxes:
            self._sandboxes.popitem()[1].close()

    @cached_property
    def isolation(self) -> str:
        """In words, what keeps answers from the machine."""
        from attn.grading.sandbox import isolation

        return isolation.KINDS[isolation.kind()]

    def examine(
        self,
        key: str,
        cells: Mapping[str, str],
        points: Mapping[str, float],
    ) -> Iterator[Mark]:
        """Yield the mark of each exercise of a chapter, in order.

        Args:
            key: of the chapter.
            cells: the text of each exercise that was found, by id.
            points: what each exercise is worth.
        """
        before = [("imports", given.imports(key), False)]
        for exercise in chapter(key):
            text, worth = cells.get(exercise.id), points[exercise.id]
            status, verdict = self._judged(key, exercise, text, before)
            yield Mark(
                exercise.id,
                worth if verdict.passed else 0,
                worth,
                status,
                verdict.message,
                verdict.details,
                verdict.mistake,
            )
            if text is not None and status in ("passed", "wrong"):
                before.append((exercise.name, text, True))
            if not verdict.passed:
                right = sources.solution(exercise.id)
                before.append((exercise.name, right, False))

    def _judged(
        self,
        key: str,
        exercise: Exercise,
        text: str | None,
        before: list[tuple[str, str, bool]],
    ) -> tuple[Status, Verdict]:
        if text is None:
            message = "no cell with this exercise's id was found"
            return "missing", Verdict(False, message)
        if not text.strip() or digest(text) == digest(_stub(exercise.id)):
            return "not written", Verdict(False, "the stub was not changed")
        session = self._sandbox(key).start_session(self._limits, self.timeout)
        try:
            return self._verdict(session, exercise, text, before)
        finally:
            session.close()

    def _verdict(
        self,
        session: Session,
        exercise: Exercise,
        text: str,
        before: list[tuple[str, str, bool]],
    ) -> tuple[Status, Verdict]:
        oracle = self._oracle(exercise.id)
        measured = any(x.max_live is not None for x in oracle.cases)
        defined = session.define(
            Task(
                exercise.name,
                _form(exercise),
                exercise.usual(),
                list(before),
                text,
                tensors_only=measured,
            )
        )
        if (error := defined.error) is not None:
            return _status(error), Verdict(False, _undefined(exercise, error))
        last: list[Outcome] = []

        def run(*args: Any, **options: Any) -> Outcome:
            last[:] = [session.run(*args, **options)]
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
        stopped = session.ended or last[0].error
        return _status(stopped), _with_the_end(verdict, stopped)

    def _sandbox(self, key: str) -> Sandbox:
        imports = IMPORTS.get(key, ())
        sandbox = self._sandboxes.get(imports)
        if sandbox is None or not sandbox.is_open:
            sandbox = self._sandboxes[imports] = Sandbox(*imports)
        return sandbox

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


_CELLS = (
    "Of a notebook only the exercises' cells are run, and what they use of "
    "its other cells: nothing in it defines that name."
)


def _with_the_end(verdict: Verdict, stopped: BaseException | None) -> Verdict:
    """Add what stopped an answer in a later case, or what a cell lacks."""
    more = []
    is_end = isinstance(stopped, OutOfTime | Forbidden)
    if is_end and str(stopped) not in verdict.message:
        more.append(f"in a later case it was stopped: {stopped}")
    if "it raised NameError" in verdict.message:
        more.append(_CELLS)
    return replace(verdict, message="\n".join([verdict.message, *more]))


def _undefined(exercise: Exercise, error: BaseException) -> str:
    """Say why there is no answer to call."""
    if isinstance(error, OutOfTime | Forbidden):
        return f"the cell of {exercise.name}: {error}"
    kind, text = type(error).__name__, " ".join(str(error).split())
    message = f"the cell of {exercise.name} raised {kind}: {text}"
    return f"{message}\n{_CELLS}" if isinstance(error, NameError) else message


def _form(exercise: Exercise) -> str:
    if exercise.launch:
        return "kernel"
    return "class" if isinstance(exercise.reference, type) else "function"


@cache
def _stub(exercise: str) -> str:
    return sources.stub(exercise)
