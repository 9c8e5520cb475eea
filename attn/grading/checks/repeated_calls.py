"""Call an answer more than once: the cases that the engine adds.

What an answer keeps from an earlier call, piles up, or does in the other mode
only, shows when one function, or one module, is called with inputs of the
same shapes and other elements, after calls with other shapes and masks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from attn.exercises.case import Case
from attn.grading.checks.inputs import input_size
from attn.grading.checks.run import Outcome

MOST = 6  # repeated calls of a class; of a function, which keeps little, 2


def repeated_calls(
    cases: Sequence[Case],
    others: Sequence[Case],
    reference: Callable[[Case], Outcome],
) -> list[Case]:
    """Return more cases, each after earlier calls.

    Args:
        cases: of the exercise.
        others: the same cases with other elements.
        reference: runs the right answer.
    """
    pairs = [x for x in paired(cases, others) if not x[0].before]
    fixed = [x for x in pairs if not (x[0].train and x[0].rtol)]
    is_class = any(case.init is not None for case in cases)
    chosen = list(_one_of_each_kind(fixed))[: MOST if is_class else 2]
    repeated = list(_with_other_inputs(chosen, [case for case, _ in fixed]))
    if is_class:
        repeated += _in_the_other_mode(chosen, reference)
    return repeated + list(_with_other_coins(cases, reference))


def paired(
    cases: Sequence[Case], others: Sequence[Case]
) -> Iterator[tuple[Case, Case]]:
    """Yield each case, and the same one with other elements."""
    for case, other in zip(cases, others, strict=False):
        if case.condition == other.condition:
            yield case, other


def _with_other_inputs(
    chosen: list[tuple[Case, Case]], cases: list[Case]
) -> Iterator[Case]:
    for case, other in chosen:
        before = (*_earlier_cases(case, cases), case)
        condition = "it is called again, with other inputs"
        yield replace(other, condition=condition, before=before, max_live=None)


def _in_the_other_mode(
    chosen: list[tuple[Case, Case]], reference: Callable[[Case], Outcome]
) -> Iterator[Case]:
    """Yield cases of a module in the other mode, where nothing is random."""
    for case, other in chosen:
        mode = "eval" if case.train else "training"
        switched = replace(
            other,
            condition=f"it is in {mode} mode",
            train=not case.train,
            before=(case,),
            max_live=None,
        )
        if not reference(switched).random_used:
            yield switched


def _with_other_coins(
    cases: Sequence[Case], reference: Callable[[Case], Outcome]
) -> Iterator[Case]:
    for case in cases:
        if not case.train or case.before:
            continue
        condition = "it is called again with the same inputs, and tosses coins"
        again = replace(case, condition=condition, before=(case,))
        right = reference(again)
        if right.random_used and not right.repeats:
            yield again


def _one_of_each_kind(
    pairs: list[tuple[Case, Case]],
) -> Iterator[tuple[Case, Case]]:
    """Yield a pair for each kind of inputs, those with many partners first.

    Of several, the largest: with one token all that is kept looks right. Yet
    one whose memory is measured comes last: it is far larger than it needs.
    """

    def order(pair: tuple[Case, Case]) -> tuple[int, bool, int]:
        case = pair[0]
        is_measured = case.max_live is not None
        return -_partners(case, pairs), is_measured, -input_size(case)

    seen = set()
    for pair in sorted(pairs, key=order):
        if (kind := _input_types(pair[0])) not in seen:
            seen.add(kind)
            yield pair


def _partners(case: Case, pairs: list[tuple[Case, Case]]) -> int:
    return sum(_module(x) == _module(case) for x, _ in pairs)


def _earlier_cases(case: Case, cases: list[Case]) -> list[Case]:
    """Return cases for the same module: a smaller one, one of another kind.

    What is sized by the first call is then too small, and what is kept of a
    call, a mask for instance, is there when none is given.
    """
    same = [x for x in cases if _module(x) == _module(case)]
    small = min(same, key=input_size)
    other_types = [x for x in same if _input_types(x) != _input_types(case)]
    earlier = [small] if input_size(small) < input_size(case) else []
    earlier += [x for x in other_types[-1:] if x is not small]
    return [replace(x, train=not x.train, max_live=None) for x in earlier]


def _module(case: Case) -> str:
    """Return what a module is made from."""
    return repr(case.init)


def _input_types(case: Case) -> tuple[Any, ...]:
    """Return which inputs are given, of which types."""
    inputs = dict(enumerate(case.args)) | dict(case.kwargs)
    return tuple(
        (name, x.dtype if isinstance(x, Tensor) else type(x))
        for name, x in inputs.items()
        if x is not None and x is not False
    )
