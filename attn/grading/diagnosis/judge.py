"""Judge an answer, and explain to a learner what is wrong with it."""

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Number
from typing import Any

from torch import Tensor

from attn.compat import language_kept_patched
from attn.exercises.case import Case
from attn.exercises.spec import Exercise
from attn.grading.checks.evidence import Evidence, Failure
from attn.grading.checks.failures import failures, one_thread, run_all
from attn.grading.checks.inputs import input_size
from attn.grading.checks.oracle import Oracle
from attn.grading.checks.package_use import use_of_the_package
from attn.grading.checks.run import Outcome, run
from attn.grading.checks.show import describe, difference_lines
from attn.grading.diagnosis.kernel_flaws import kernel_flaw
from attn.grading.diagnosis.locate import locate
from attn.grading.diagnosis.naming import Diagnosis, diagnose


@dataclass(frozen=True)
class Verdict:
    """The result of judging an answer.

    ``mistake`` is the name of the matching mistake, ``condition`` the first
    one in which the answer is wrong.
    """

    passed: bool
    message: str = ""
    mistake: str | None = None
    condition: str = ""


def judge(
    exercise: Exercise,
    answer: Any,
    *,
    seed: int = 0,
    oracle: Oracle | None = None,
    outcomes: list[Outcome] | None = None,
    runner: Callable[..., Outcome] = run,
) -> Verdict:
    """Judge one answer.

    Args:
        exercise: the exercise that it answers.
        answer: the learner's function, class or kernel.
        seed: draws the inputs.
        oracle: of this exercise and seed, when many answers are judged.
        outcomes: of the answer, where it has run already.
        runner: runs the answer on a case, as ``run`` does; elsewhere, if
            the answer is in another process.

    Returns:
        The verdict, with the diagnosis when it is wrong.
    """
    if borrowed := use_of_the_package(exercise, answer):
        return Verdict(False, borrowed)
    with one_thread(), language_kept_patched():
        oracle = oracle or Oracle(exercise, seed)
        outcomes = outcomes or run_all(answer, oracle, runner=runner)
        wrong = failures(oracle, outcomes)
        if not wrong:
            flaw = kernel_flaw(answer, oracle, runner)
            if flaw is None:
                return Verdict(True)
            message = f"this looks like: {flaw.name}\n{flaw.why}"
            return Verdict(False, message, flaw.name)
        evidence = Evidence(oracle, outcomes, wrong, answer, runner=runner)
        diagnosis = diagnose(evidence)
        message = _explain(evidence, diagnosis)
    return Verdict(False, message, diagnosis.name, wrong[0].case.condition)


def _explain(evidence: Evidence, diagnosis: Diagnosis) -> str:
    """Return the diagnosis: the mistake's name, and one small input."""
    exercise, failures = evidence.exercise, evidence.failures
    first = failures[0]
    if isinstance(first.outcome.error, NotImplementedError):
        return (
            "not written yet: the stub still raises NotImplementedError. "
            f'hint("{exercise.id}") gives a hint.'
        )
    lines = diagnosis.lines
    condition = first.case.condition
    conditions = list(
        dict.fromkeys(x.condition for x in evidence.oracle.cases)
    )
    passed = conditions[: conditions.index(condition)]
    if passed and not diagnosis.name:
        lines.append("right so far: " + "; ".join(passed))
    smallest = min(
        (f for f in failures if f.case.condition == condition),
        key=lambda f: input_size(f.case),
    )
    lines.append(f"wrong when {condition}: {smallest.problem.text}")
    lines += _input_lines(exercise, smallest.case)
    problem = smallest.problem
    if problem.wrong is not None:
        lines += difference_lines(problem.wrong, problem.got, problem.expected)
    explains_itself = smallest.outcome.error or problem.kind == "random"
    if not diagnosis.name and problem.kind != "random":
        lines += locate(evidence, smallest)
    if not diagnosis.name and not explains_itself:
        claims = exercise.properties
        lines += [x.says for x in claims if not _holds(x.holds, smallest)]
    printed = smallest.outcome.printed.strip().splitlines()
    if printed:
        lines.append("what it printed there:")
        lines += [f"  | {line[:70]}" for line in printed[:5]]
        if len(printed) > 5:
            lines.append(f"  | … {len(printed) - 5} more lines")
    return "\n".join(lines)


def _input_lines(exercise: Exercise, case: Case) -> list[str]:
    """Return the failing input, one argument a line, and earlier calls."""
    inputs = exercise.inputs(case)
    lines = []
    if case.init:
        words = ", ".join(f"{k}={v!r}" for k, v in case.init.items())
        lines.append(f"  {exercise.name}({words})")
    for earlier in case.before:
        words = ", ".join(
            f"{n} {tuple(x.shape)}" if isinstance(x, Tensor) else f"{n}={x!r}"
            for n, x in exercise.inputs(earlier).items()
            if x is None or isinstance(x, Tensor | Number)
        )
        lines.append(f"  called earlier with  {words}")
    width = max([8, *map(len, inputs)])
    return lines + [
        f"  {n:<{width}}  {describe(x)}" for n, x in inputs.items()
    ]


def _holds(holds: Any, failure: Failure) -> bool:
    try:
        return bool(holds(failure.case, failure.outcome.output))
    except Exception:  # a claim about a result of another shape
        return True
