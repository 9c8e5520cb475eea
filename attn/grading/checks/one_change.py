"""Call an answer twice, with one argument changed: cases that are added.

An answer that remembers results by part of its arguments, by shapes or by all
but a keyword, is right until the rest of them changes alone.
"""

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Any

import torch

from attn.exercises.case import Case
from attn.exercises.conditions import typical
from attn.exercises.spec import Exercise
from attn.grading.checks.compare import alike
from attn.grading.checks.inputs import named_tensors
from attn.grading.checks.run import Outcome

MOST = 3  # cases of one exercise
TRIES = 6  # for one argument, until the result changes with it
CONDITION = "it is called again, and only {name} is another"
_LEFT_OUT = inspect.Parameter.empty
_PLAIN = bool | int | float | str | torch.dtype | None
#: Inputs that are results of others, in the book's words: with one of those
#: changed alone, right answers differ.
_RESULTS = {"out", "lse", "delta"}


def one_change(
    exercise: Exercise,
    cases: Sequence[Case],
    order: Sequence[int],
    seed: int,
    reference: Callable[[Case], Outcome],
) -> list[Case]:
    """Return cases, each after a call that differs in one argument.

    Each has elements that no other has: an answer remembers nothing of them.

    Args:
        exercise: the exercise.
        cases: its own.
        order: of its plain cases, by their indices.
        seed: draws the elements, and the next ones those of further cases.
        reference: runs the right answer.
    """
    if exercise.use or has_results(exercise, cases):
        return []
    every = [exercise.inputs(case) for case in cases]
    values = {
        name: [inputs.get(name, _LEFT_OUT) for inputs in every]
        for name in dict.fromkeys(chain(*every))
    }
    pairs = paired(order, cases, exercise.generate(seed))
    # The last tensors first: what is remembered is found by the first ones.
    last_first = [*values][::-1]
    last_first.sort(key=lambda name: _tensors(values[name]))
    found: list[Case] = []
    for name in last_first:
        tried = _changes(exercise, pairs, name, values[name])
        for case, earlier in islice(tried, TRIES):
            if _tensors(values[name]) or _differ(case, earlier, reference):
                when = CONDITION.format(name=name)
                before = (replace(earlier, may_raise=True),)
                found.append(replace(case, condition=when, before=before))
                if len(found) == MOST:
                    return found
                others = exercise.generate(seed + len(found))
                pairs = paired(order, cases, others)
                break
    return found


def has_results(exercise: Exercise, cases: Sequence[Case]) -> bool:
    """Return whether some inputs must be the results of others."""
    return any(_RESULTS & exercise.inputs(x).keys() for x in cases)


def plainest(exercise: Exercise, cases: Sequence[Case]) -> list[int]:
    """Return the indices of the cases of one exact call.

    Those with the most inputs and lengths come first.
    """
    try:
        first = [id(x) for x in reversed(typical(exercise, cases))]
    except ValueError:  # none is of float32
        first = []

    def place(i: int) -> int:
        x = id(cases[i])
        return first.index(x) if x in first else len(first)

    plain = [i for i, case in enumerate(cases) if not _is_special(case)]
    return sorted(plain, key=place)


def paired(
    order: Sequence[int], cases: Sequence[Case], others: Sequence[Case]
) -> list[tuple[Case, Case]]:
    """Return cases in an order, each with the same of other elements."""
    return [
        (cases[i], others[i])
        for i in order
        if i < len(others) and cases[i].condition == others[i].condition
    ]


def _is_special(case: Case) -> bool:
    limits = case.rtol, case.max_live, case.max_kept, case.once, case.grad
    return any((*limits, case.train, case.before, case.shares))


def _tensors(tree: Any) -> bool:
    return any(True for _ in named_tensors(tree))


def _changes(
    exercise: Exercise,
    pairs: list[tuple[Case, Case]],
    name: str,
    values: list[Any],
) -> Iterator[tuple[Case, Case]]:
    """Yield pairs of calls that differ in one argument, the last one first.

    The last must be one that was not made before. It is a case with elements
    of its own; or, of a function of numbers, another value for an argument
    that may be left out, which no other number restricts.
    """
    parameter = exercise.parameters.get(name)
    has_default = parameter and parameter.default is not _LEFT_OUT
    for seen, case in pairs:
        inputs = exercise.inputs(case)
        own = inputs.get(name, _LEFT_OUT)
        if _tensors(own) and len(inputs) > 1:
            others = [exercise.inputs(seen).get(name, _LEFT_OUT)]
        elif own is _LEFT_OUT or isinstance(own, _PLAIN):
            plain = {
                repr(x): x
                for x in values
                if x is _LEFT_OUT or isinstance(x, _PLAIN)
            }
            others = [x for key, x in plain.items() if key != repr(own)]
        else:
            others = []
        for value in others:
            if (changed := _with(exercise, case, name, value)) is None:
                continue
            if _tensors(inputs):
                yield case, changed
            elif has_default:
                yield changed, case


def _with(
    exercise: Exercise, case: Case, name: str, value: Any
) -> Case | None:
    """Return a case with another value of an argument, if it can be had."""
    positional = exercise.input_names(case)
    args, kwargs = list(case.args), dict(case.kwargs)
    if name not in positional:
        kwargs.pop(name, None)
        if value is not _LEFT_OUT:
            kwargs[name] = value
    elif value is not _LEFT_OUT:
        args[positional.index(name)] = value
    elif name == positional[-1]:
        args.pop()
    else:
        return None
    return replace(case, args=tuple(args), kwargs=kwargs)


def _differ(
    case: Case, other: Case, reference: Callable[[Case], Outcome]
) -> bool:
    """Return whether two calls have results, and not the same ones."""
    try:
        first, second = reference(case), reference(other)
    except RuntimeError:  # the arguments do not fit
        return False
    return not (
        first.random_used or alike(first.output, second.output, rtol=1e-3)
    )
