"""Explain to a learner what is wrong, in words, shapes and some elements."""

from numbers import Number
from typing import Any

from torch import Tensor

from attn.exercises.case import Case
from attn.exercises.spec import Exercise
from attn.grading.checks.evidence import Evidence, Failure, named_inputs
from attn.grading.checks.inputs import input_size
from attn.grading.checks.show import describe, difference_lines
from attn.grading.diagnosis.locate import locate
from attn.grading.diagnosis.naming import Diagnosis


def explain(evidence: Evidence, diagnosis: Diagnosis) -> str:
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
    inputs = named_inputs(exercise, case)
    lines = []
    if case.init:
        words = ", ".join(f"{k}={v!r}" for k, v in case.init.items())
        lines.append(f"  {exercise.name}({words})")
    for earlier in case.before:
        words = ", ".join(
            f"{n} {tuple(x.shape)}" if isinstance(x, Tensor) else f"{n}={x!r}"
            for n, x in named_inputs(exercise, earlier).items()
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
