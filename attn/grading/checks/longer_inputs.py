"""Call an answer again with a longer input: the case that the engine adds.

A mask that is kept from the first call, or a table of 64 rows that is made
once, is too short then.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from attn.exercises.case import Case
from attn.exercises.spec import Exercise
from attn.grading.checks.inputs import map_tensors, named_tensors
from attn.grading.checks.one_change import plain_pairs
from attn.grading.checks.run import Outcome

LENGTH = 130  # at least: tables of 64 and of 128 rows are too short
MOST = 40_000  # elements of an input
TRIES = 4
CONDITION = "it is called again, with a longer input"


def longer_input(
    exercise: Exercise,
    cases: Sequence[Case],
    others: Sequence[Case],
    reference: Callable[[Case], Outcome],
) -> Iterator[Case]:
    """Yield a case after a shorter one, if the reference takes it.

    Args:
        exercise: the exercise.
        cases: its own.
        others: the same cases with other elements.
        reference: runs the right answer.
    """
    if exercise.use:
        return
    for case, other in plain_pairs(exercise, cases, others)[:TRIES]:
        longer = _lengthened(exercise, other)
        if longer is None:
            continue
        longer = replace(longer, condition=CONDITION, before=(case,))
        try:
            right = reference(longer)
        except RuntimeError:  # the lengths do not fit
            continue
        if _is_finite(right.output) and not right.random_used:
            yield longer
            return


def _lengthened(exercise: Exercise, case: Case) -> Case | None:
    """Return a case with its longest axis of tokens repeated.

    It is the last axis but one, or the last of a mask; and a number that is
    called a length. All axes of that length are repeated.
    """
    inputs = exercise.inputs(case)
    numbers = {
        x
        for name, x in inputs.items()
        if name.endswith(("_len", "_length")) and type(x) is int
    }
    tensors = [x for _, x in named_tensors(inputs)]
    lengths = numbers | {
        n
        for x in tensors
        for n in (x.shape[-2:-1] if x.is_floating_point() else x.shape[-1:])
        if x.is_floating_point() or x.dtype == torch.bool
    }
    length = max(lengths, default=0)
    indices = [
        x
        for x in tensors
        if not x.is_floating_point() and x.dtype != torch.bool
    ]
    if length < 2 or any(length in x.shape for x in indices):
        return None  # positions, an order, or borders: no repeated ones
    times = -(-LENGTH // length)
    lengthen = partial(_repeated, length=length, times=times)

    def changed(name: str, x: Any) -> Any:
        if name.endswith(("_len", "_length")) and x == length:
            return x * times
        return map_tensors(lengthen, x)

    names = exercise.input_names(case)
    args = tuple(map(changed, names, case.args))
    kwargs = {name: changed(name, x) for name, x in case.kwargs.items()}
    every = named_tensors([args, kwargs])
    if any(x.numel() > MOST for _, x in every):
        return None
    return replace(case, args=args, kwargs=kwargs)


def _repeated(x: Tensor, length: int, times: int) -> Tensor:
    return x.repeat([times if n == length else 1 for n in x.shape])


def _is_finite(output: Any) -> bool:
    tensors = [x for _, x in named_tensors(output)]
    return not any(x.isnan().any() for x in tensors)
