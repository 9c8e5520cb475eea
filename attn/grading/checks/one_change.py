"""Call an answer twice, with one argument changed: cases that are added.

An answer that remembers results by part of its arguments, by shapes or by all
but a keyword, is right until the rest of them changes alone.
"""

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import torch

from attn.exercises.case import Case
from attn.exercises.conditions import typical
from attn.exercises.spec import Exercise
from attn.grading.checks.compare import alike
from attn.grading.checks.inputs import named_tensors
from attn.grading.checks.run import Outcome

MOST = 4  # cases of one exercise
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
    others: Sequence[Case],
    reference: Callable[[Case], Outcome],
) -> list[Case]:
    """Return cases, each after a call that differs in one argument.

    Args:
        exercise: the exercise.
        cases: its own.
        others: the same cases with other elements.
        reference: runs the right answer.
    """
    values: dict[str, list[Any]] = {}
    names = {n for x in cases for n in exercise.inputs(x)}
    if exercise.use or names & _RESULTS:
        return []
    for case in cases:
        inputs = exercise.inputs(case)
        for name in sorted(names):
            values.setdefault(name, []).append(inputs.get(name, _LEFT_OUT))
    pairs = plain_pairs(exercise, cases, others)
    found = []
    for name in sorted(names, key=lambda x: (_tensors(values[x]), x)):
        tried = _changes(exercise, pairs, name, values[name])
        for case, earlier in islice(tried, TRIES):
            if _differ(case, earlier, reference):
                when = CONDITION.format(name=name)
                found.append(replace(case, condition=when, before=(earlier,)))
                break
    return found[:MOST]


def plain_pairs(
    exercise: Exercise, cases: Sequence[Case], others: Sequence[Case]
) -> list[tuple[Case, Case]]:
    """Return cases of one exact call, and the same with other elements.

    Those with the most inputs and lengths come first.
    """
    pairs = [
        (case, other)
        for case, other in zip(cases, others, strict=False)
        if case.condition == other.condition and not _is_special(case)
    ]
    if not pairs:
        return []
    try:
        first = [id(x) for x in reversed(typical(exercise, cases))]
    except ValueError:  # none is of float32
        first = []

    def place(pair: tuple[Case, Case]) -> int:
        x = id(pair[0])
        return first.index(x) if x in first else len(first)

    return sorted(pairs, key=place)


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
    """Yield cases, and the same with another value of one argument."""
    for case, other in pairs:
        own = exercise.inputs(case).get(name, _LEFT_OUT)
        if _tensors(own):
            others = [exercise.inputs(other).get(name, _LEFT_OUT)]
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
            if call := _with(exercise, case, name, value):
                yield case, call


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
