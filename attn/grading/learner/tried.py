"""Say what the checks of a right answer have tried."""

from __future__ import annotations

from collections.abc import Iterator

from attn.exercises.case import Case
from attn.grading.checks.inputs import named_tensors
from attn.grading.checks.oracle import Oracle
from attn.grading.checks.show import and_list, dtype_name


def tried(oracle: Oracle) -> list[str]:
    """Return what was tried, in a few words each.

    Args:
        oracle: the cases that an answer has passed.
    """
    return list(_tried(oracle))


def _tried(oracle: Oracle) -> Iterator[str]:
    cases, exercise = oracle.cases, oracle.exercise
    conditions = len({case.condition for case in cases})
    yield f"{len(cases)} inputs in {conditions} conditions"
    if again := sum(bool(case.before) for case in cases):
        yield f"{again} after earlier calls"
    if gradients := sum(bool(case.grad) for case in cases):
        yield f"{gradients} with gradients"
    dtypes = {name for case in cases for name in _dtypes(case)}
    if len(dtypes) > 1:
        yield and_list(sorted(dtypes, key=lambda x: (len(x), x)))
    if limited := sum(case.max_live is not None for case in cases):
        yield f"{limited} with memory measured"
    if exercise.launch:
        yield "no access beyond the tensors"
    if exercise.forbids:
        yield f"no call of {and_list(exercise.forbids)}"


def _dtypes(case: Case) -> Iterator[str]:
    """Yield the floating dtypes of a case's inputs and weights."""
    inputs = [case.args, dict(case.kwargs), case.state or {}]
    for _, x in named_tensors(inputs):
        if x.is_floating_point():
            yield dtype_name(x)
