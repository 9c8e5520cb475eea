"""Hand a learner the last failing case: its arguments, and its call."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

from attn.exercises import place, saved
from attn.exercises.call import call_of
from attn.exercises.literal import describe
from attn.exercises.spec import Exercise, find
from attn.exercises.wrapping import WIDTH, wrapped
from attn.grading.checks.clock import Clock
from attn.grading.checks.evidence import Evidence, Failure
from attn.grading.checks.failures import fallback_of, one_thread
from attn.grading.checks.inputs import Inputs
from attn.grading.checks.objects import earlier_results, make
from attn.grading.checks.problems import failure
from attn.grading.checks.result import copied
from attn.grading.checks.run import run
from attn.grading.checks.show import beside
from attn.grading.diagnosis.judge import Verdict
from attn.grading.learner import progress
from attn.profiling.compat import language_kept_patched

verdicts: dict[str, Verdict] = {}
"""The last verdict of each exercise, in the order of the checks."""


def meant(exercise_id: Any, function: str) -> Exercise | None:
    """Return the exercise that a call is about; print a line if it is none.

    Without an id it is the one that was refused last, else the one checked
    last, else the first open one of the notebook's chapter.
    """
    if exercise_id == "" and function != "check":
        wrong = [name for name, x in verdicts.items() if not x.passed]
        if known := wrong or [*verdicts]:
            return find(known[-1])
        if key := saved.chapter_here():
            own = progress.ChapterProgress(key, progress.load())
            exercise_id = (own.after() or own.rows[0]).id
    try:
        return find(exercise_id)
    except ValueError as error:
        print(f"{function}: {error}")
        return None


def refused(exercise_id: Any, function: str) -> Exercise | None:
    """Return the exercise whose wrong answer is meant; or say what is."""
    if not (exercise := meant(exercise_id, function)):
        return None
    verdict = verdicts.get(exercise.id)
    if verdict and not verdict.passed:
        return exercise
    state = "is right" if verdict else "has not been checked: check it first"
    print(*wrapped(f"{place.named(exercise.id)} {state}."), sep="\n")
    return None


def case(exercise_id: str = "") -> FailingCase | NoCase:
    """Return the failing case of the last wrong answer, to look into.

    Args:
        exercise_id: ``"sdp-softmax"``; without it, the one refused last.

    Returns:
        The case. Its attributes are the arguments by the task's names,
        ``case().x``; ``case().run()`` shows what your answer makes of them.
    """
    if not (exercise := refused(exercise_id, "case")):
        return NoCase()
    parts = verdicts[exercise.id].parts
    if not parts or not parts.shown or not parts.evidence:
        first, *_ = verdicts[exercise.id].message.splitlines()
        print(f"{place.named(exercise.id)} has no case: {first}")
        return NoCase()
    names = sys._getframe(1).f_globals
    return FailingCase(parts.evidence, parts.shown, names)


class NoCase:
    """Take the place of a case where there is none; a line has said so."""

    def __repr__(self) -> str:
        return ""

    def run(self, answer: Any = None) -> None:
        """Run nothing."""

    _ipython_display_ = run  # without an empty Out[7]


class FailingCase:
    """A case in which an answer is wrong.

    Args:
        evidence: all that was observed of the answer.
        shown: the failure.
        names: the learner's, in which there may be a newer answer.

    Attributes:
        args, kwargs: the arguments, in copies; each is an attribute by its
            name in the task, too, and these alone are what ``vars`` gives.
        grid: of a kernel.
        expected: the right result.
    """

    __slots__ = (
        *("__dict__", "_call", "_evidence", "_known", "_shown"),
        *("args", "expected", "grid", "kwargs", "use"),
    )

    def __init__(
        self, evidence: Evidence, shown: Failure, names: dict[str, Any]
    ) -> None:
        exercise, case = evidence.exercise, shown.case
        self._evidence, self._shown, self._known = evidence, shown, names
        inputs = Inputs(case)
        copy = replace(case, args=inputs.args, kwargs=inputs.kwargs)
        self._call, own = (
            call_of(exercise, x, evidence.answer) for x in (case, copy)
        )
        vars(self).update(exercise.defaults | own.named)
        (self.args, self.kwargs), self.grid = own.given, own.grid
        self.expected = copied(evidence.expected(shown.index).output)
        self.use = exercise.use

    def __repr__(self) -> str:
        return str(self._call)

    def yours(self) -> Any:
        """Return your answer, ready for the call, after all earlier ones.

        It is the newest that your notebook has, or else the refused one. Of
        a class it is an object with the weights and the mode of the case.
        """
        answer, case = self._answer(None), self._shown.case
        callee = make(answer, case)
        if not self._evidence.exercise.caller:
            earlier_results(answer, callee, case)
            callee.prepare(case)
        return callee.call

    def run(self, answer: Any = None) -> None:
        """Run an answer, and print its result beside the right one.

        Args:
            answer: a function, class or kernel; when None, yours.
        """
        oracle, shown = self._evidence.oracle, self._shown
        clock = Clock(oracle.time_limit(shown.index), share=1 / 3)
        exercise = oracle.exercise
        with one_thread(), language_kept_patched():
            outcome = run(
                self._answer(answer),
                shown.case,
                clock=clock,
                launch=exercise.caller,
                names=exercise.input_names(shown.case),
            )
        found = failure(oracle, shown.index, outcome)
        problem = found.problem if found else None
        lines, said = self._call.lines(WIDTH), ""
        if problem and problem.wrong is not None:
            lines += beside(problem.wrong, problem.got, problem.rounded)
        else:
            if outcome.error is None:
                said = f"got       {describe(outcome.output)}\n"
            said += f"expected  {describe(self.expected)}\n"
        said += problem.text(exercise.returns) if problem else "it is right"
        print(outcome.printed, end="")
        if fallback_of(answer):
            said += f"\n(yours: {exercise.name} is the book's now)"
        print(*lines, *wrapped(said, "  "), sep="\n")

    def _answer(self, given: Any) -> Any:
        """Return the answer that is meant: the reference never is."""
        name = self._evidence.exercise.name
        given = self._known.get(name) if given is None else given
        is_own = given is not None and fallback_of(given) is None
        return given if is_own else self._evidence.answer
