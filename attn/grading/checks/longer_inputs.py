"""Call an answer again with a longer input: the case that the engine adds.

A mask that is kept from the first call, or a table of 64 rows that is made
once, is too short then.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from attn.exercises.case import Case
from attn.exercises.spec import Exercise
from attn.grading.checks.inputs import map_tensors, named_tensors
from attn.grading.checks.one_change import has_results
from attn.grading.checks.run import Outcome

LENGTH = 130  # at least: tables of 64 and of 128 rows are too short
MOST = 40_000  # elements of an input
MOST_OPERATIONS = 1000
TRIES = 4
CONDITION = "it is called again, with a longer input"


def longer_input(
    exercise: Exercise,
    pairs: Sequence[tuple[Case, Case]],
    reference: Callable[[Case], Outcome],
) -> Iterator[Case]:
    """Yield a case after a shorter one, if the reference takes it.

    Args:
        exercise: the exercise.
        pairs: its plain cases, each with the same of other elements.
        reference: runs the right answer.
    """
    if exercise.use or has_results(exercise, [case for case, _ in pairs]):
        return
    for least in (LENGTH, 0):
        for case, other in pairs[:TRIES]:
            longer = _lengthened(exercise, other, least)
            if longer is None:
                continue
            longer = replace(longer, condition=CONDITION, before=(case,))
            if _is_accepted(longer, reference):
                yield longer
                return


def _is_accepted(case: Case, reference: Callable[[Case], Outcome]) -> bool:
    """Return whether a case has a result, in few operations."""
    try:
        with _Operations():
            right = reference(case)
    except RuntimeError:  # the lengths do not fit, or it has a long loop
        return False
    tensors = [x for _, x in named_tensors(right.output)]
    is_finite = not any(x.isnan().any() for x in tensors)
    return is_finite and not right.random_used


class _Operations(TorchFunctionMode):
    """Count operations, and stop where there are too many."""

    count = 0

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self.count += 1
        if self.count > MOST_OPERATIONS:
            raise RuntimeError("it has a loop over the tokens")
        return func(*args, **(kwargs or {}))


def _lengthened(exercise: Exercise, case: Case, least: int) -> Case | None:
    """Return a case with its longest axis of tokens repeated.

    It is the last axis but one, or the last of a mask; or a number that is
    called a length. All axes of that length are repeated, to ``least``
    elements, or twice where that is more.
    """
    inputs = exercise.inputs(case)
    tensors = [x for _, x in named_tensors(inputs)]
    lengths = {
        x
        for name, x in inputs.items()
        if name.endswith(("_len", "_length")) and type(x) is int
    }
    if not any(map(_is_index, tensors)):  # and no tables, of other axes
        alike = [x for x in tensors if x.dim() == tensors[0].dim()]
        lengths |= set().union(*map(_lengths, alike))
    length = max(lengths, default=0)
    if length < 2 or any(isinstance(x, Mapping) for x in inputs.values()):
        return None
    times = max(-(-least // length), 2)
    if length >= LENGTH or any(
        length in x.shape for x in tensors if _is_index(x)
    ):
        return None  # nothing is longer, or what cannot be repeated
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


def _is_index(x: Tensor) -> bool:
    """Return whether a tensor holds positions, borders or an order."""
    return not x.is_floating_point() and x.dtype != torch.bool


def _lengths(x: Tensor) -> set[int]:
    """Return the last axis but one; of a mask, the last one too."""
    return {*x.shape[-2:-1]} if x.is_floating_point() else {*x.shape[-2:]}


def _repeated(x: Tensor, length: int, times: int) -> Tensor:
    return x.repeat([times if n == length else 1 for n in x.shape])
