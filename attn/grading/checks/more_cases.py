"""Call an answer more than once: the cases that the engine adds.

Each comes after a call that differs from it in one thing: in elements, mode,
coins, object, one argument, or length. What an answer keeps of an earlier
call, a result, a mask, a table that is too short then, shows in such a case
only.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice, zip_longest
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from attn.exercises.case import Case
from attn.exercises.conditions import typical
from attn.exercises.other_inputs import LENGTH, longer_inputs, with_inputs
from attn.exercises.spec import Exercise
from attn.grading.checks.compare import alike
from attn.grading.checks.inputs import input_size, named_tensors
from attn.grading.checks.objects import parameters
from attn.grading.checks.run import Outcome

Pair = tuple[Case, Case]
"""A case, and the same one with other elements."""
Reference = Callable[[Case], Outcome]
"""Runs the right answer; raises RuntimeError where a case does not fit it."""

MOST_KINDS = 6  # of inputs, for a class; a function keeps little: 2
MOST_ARGUMENTS = 3  # that change alone
TRIES = 6  # for one argument, until the result changes with it
LONGER = "it is called again, with a longer input"
#: Inputs that are results of others, in the book's words: with one of those
#: changed alone, or all of them longer, right answers differ.
_RESULTS = {"out", "lse", "delta"}


def more_cases(
    exercise: Exercise, cases: Sequence[Case], seed: int, reference: Reference
) -> list[Case]:
    """Return what no exercise writes: later calls, and other objects.

    Args:
        exercise: the exercise.
        cases: its own.
        seed: draws other elements; the next ones draw those of more cases.
        reference: runs the right answer.
    """
    others = exercise.generate(seed)
    pairs = _paired(range(len(cases)), cases, others)
    order = _plainest(exercise, cases)
    plain = _paired(order, cases, others)
    added = list(_called_again(pairs, reference))
    added += _with_other_coins(cases, reference)
    added += _two_objects(pairs)
    given = set().union(*(exercise.inputs(case) for case in cases))
    if not exercise.use and not _RESULTS & given:
        added += _one_change(exercise, cases, order, seed + 1, reference)
        added += islice(_longer(exercise, plain, reference), 1)
    return added + list(_initial_values(exercise, plain))


def _paired(
    order: Sequence[int], cases: Sequence[Case], others: Sequence[Case]
) -> list[Pair]:
    """Return cases in an order, each with the same of other elements."""
    return [
        (cases[i], others[i])
        for i in order
        if i < len(others) and cases[i].condition == others[i].condition
    ]


def _plainest(exercise: Exercise, cases: Sequence[Case]) -> list[int]:
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

    def is_plain(case: Case) -> bool:
        special = case.train, case.before, case.shares
        return not (_is_limited(case) or any(special))

    return sorted(
        (i for i, case in enumerate(cases) if is_plain(case)), key=place
    )


def _is_limited(case: Case) -> bool:
    """Return whether more than the result counts, or less."""
    limits = case.rtol, case.max_live, case.max_kept, case.once, case.grad
    return any(limits)


# --- other elements, the other mode, other coins -----------------------------


def _called_again(pairs: list[Pair], reference: Reference) -> Iterator[Case]:
    """Yield cases after calls with other shapes and masks, and elements.

    Those of a module also in the other mode, where nothing is random.
    """
    is_class = any(case.init is not None for case, _ in pairs)
    fixed = [
        pair
        for pair in pairs
        if not pair[0].before and not (pair[0].train and pair[0].rtol)
    ]
    chosen = list(_one_of_each_kind(fixed))[: MOST_KINDS if is_class else 2]
    for case, other in chosen:
        before = (*_earlier_cases(case, [x for x, _ in fixed]), case)
        condition = "it is called again, with other inputs"
        yield replace(other, condition=condition, before=before, max_live=None)
    for case, other in chosen if is_class else ():
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
    cases: Sequence[Case], reference: Reference
) -> Iterator[Case]:
    for case in cases:
        if not case.train or case.before:
            continue
        condition = "it is called again with the same inputs, and tosses coins"
        again = replace(case, condition=condition, before=(case,))
        right = reference(again)
        if right.random_used and not right.repeats:
            yield again


def _one_of_each_kind(pairs: list[Pair]) -> Iterator[Pair]:
    """Yield a pair for each kind of inputs, those with many partners first.

    Of several, the largest: with one token all that is kept looks right. Yet
    one whose memory is measured comes last: it is far larger than it needs.
    """

    def order(pair: Pair) -> tuple[int, bool, int]:
        case = pair[0]
        partners = sum(_module(x) == _module(case) for x, _ in pairs)
        return -partners, case.max_live is not None, -input_size(case)

    seen = set()
    for pair in sorted(pairs, key=order):
        if (kind := _input_types(pair[0])) not in seen:
            seen.add(kind)
            yield pair


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


# --- another object ----------------------------------------------------------


def _two_objects(pairs: list[Pair]) -> Iterator[Case]:
    """Yield a case with another object like it, and one with an unlike one.

    What a class keeps in a place that its objects share, a table of the
    class, a default argument, layers made once, is right for one at a time.
    """

    def has_fixed_weights(case: Case) -> bool:
        return all(x.state is case.state for x in case.before)

    pairs = [
        (case, other)
        for case, other in pairs
        if case.init is not None
        and has_fixed_weights(case)
        and not _is_limited(case)
    ]
    if not pairs:
        return
    case, like = max(pairs, key=lambda pair: _calls_and_size(pair[0]))
    yield _in_turns("the same", case, like)
    unlike = max(
        (x for _, x in pairs),
        key=lambda x: (_different_arguments(case, x), *_calls_and_size(x)),
    )
    if _different_arguments(case, unlike):
        yield _in_turns("other", case, unlike)


def _different_arguments(case: Case, other: Case) -> int:
    """Count the arguments of the constructor in which two cases differ."""
    one, two = case.init or {}, other.init or {}
    return sum(repr(one.get(k)) != repr(two.get(k)) for k in {**one, **two})


def _calls_and_size(case: Case) -> tuple[int, int, int]:
    given = [x for x in (*case.args, *case.kwargs.values()) if x is not None]
    return len(case.before), len(given), input_size(case)


def _in_turns(arguments: str, case: Case, other: Case) -> Case:
    """Return a case whose calls come in turns with those of another object.

    The other object's last call comes before the case's.
    """
    theirs = [
        replace(x, another=True, max_live=None)
        for x in (*other.before, replace(other, before=()))
    ]
    turns = chain(*zip_longest(case.before, theirs))
    before = tuple(x for x in turns if x is not None)
    order = ", ".join("b" if x.another else "a" for x in (*before, case))
    condition = (
        f"two objects, a and b, are made with {arguments} arguments, and "
        f"used in turns: {order}"
    )
    return replace(case, condition=condition, before=before)


def _initial_values(exercise: Exercise, pairs: list[Pair]) -> Iterator[Case]:
    """Yield a case whose constant parameters are as they were made.

    The weights of a case hide what a task says of initial values: ones, zeros.
    """
    for case, _ in pairs[:1]:
        if not case.state or case.init is None:
            continue
        made = []
        with torch.random.fork_rng(devices=[]):
            for seed in (0, 1):
                torch.manual_seed(seed)
                made.append(parameters(exercise.reference(**case.init)))
        first, second = made
        names = tuple(n for n, x in first.items() if torch.equal(x, second[n]))
        if names:
            have = "has its initial value"
            if len(names) > 1:
                have = "have their initial values"
            condition = f"{' and '.join(names)} {have}"
            yield replace(case, condition=condition, initial=names)


# --- one other argument ------------------------------------------------------


_LEFT_OUT = inspect.Parameter.empty
_PLAIN = bool | int | float | str | torch.dtype | None


def _one_change(
    exercise: Exercise,
    cases: Sequence[Case],
    order: Sequence[int],
    seed: int,
    reference: Reference,
) -> list[Case]:
    """Return cases, each after a call that differs in one argument.

    Each has elements that no other has: an answer remembers nothing of them.
    One that remembers results by part of its arguments, by shapes or by all
    but a keyword, is right until the rest of them changes alone.
    """
    every = [exercise.inputs(case) for case in cases]
    values = {
        name: [inputs.get(name, _LEFT_OUT) for inputs in every]
        for name in dict.fromkeys(chain(*every))
    }
    # The last tensors first: what is remembered is found by the first ones.
    last_first = [*values][::-1]
    last_first.sort(key=lambda name: bool(_tensors(values[name])))
    pairs = _paired(order, cases, exercise.generate(seed))
    found: list[Case] = []
    for name in last_first:
        tried = _changes(exercise, pairs, name, values[name])
        for case, earlier in islice(tried, TRIES):
            if not _tensors(values[name]) and not _differ(
                reference, case, earlier
            ):
                continue
            condition = f"it is called again, and only {name} is another"
            before = (replace(earlier, may_raise=True),)
            found.append(replace(case, condition=condition, before=before))
            if len(found) == MOST_ARGUMENTS:
                return found
            others = exercise.generate(seed + len(found))
            pairs = _paired(order, cases, others)
            break
    return found


def _tensors(tree: Any) -> list[Tensor]:
    return [x for _, x in named_tensors(tree)]


def _changes(
    exercise: Exercise, pairs: list[Pair], name: str, values: list[Any]
) -> Iterator[Pair]:
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
    names = exercise.input_names(case)
    inputs = {**exercise.inputs(case), name: value}
    if value is _LEFT_OUT:
        if name in names[:-1]:
            return None
        del inputs[name]
    return with_inputs(case, names, inputs)


def _differ(reference: Reference, case: Case, other: Case) -> bool:
    """Return whether two calls have results, and not the same ones."""
    try:
        first, second = reference(case), reference(other)
    except RuntimeError:
        return False
    return not (
        first.random_used or alike(first.output, second.output, rtol=1e-3)
    )


# --- a longer input ----------------------------------------------------------


def _longer(
    exercise: Exercise, pairs: list[Pair], reference: Reference
) -> Iterator[Case]:
    """Yield cases after a shorter one, if the reference takes them."""
    for least in (LENGTH, 0):
        for case, other in pairs[:4]:
            inputs = longer_inputs(exercise.inputs(other), least)
            if inputs is None:
                continue
            names = exercise.input_names(other)
            longer = replace(
                with_inputs(other, names, inputs),
                condition=LONGER,
                before=(case,),
            )
            if _is_quick(reference, longer):
                yield longer


def _is_quick(reference: Reference, case: Case) -> bool:
    """Return whether a case has a result, in few operations."""
    try:
        with _FewOperations():
            right = reference(case)
    except RuntimeError:
        return False
    is_finite = not any(x.isnan().any() for x in _tensors(right.output))
    return is_finite and not right.random_used


class _FewOperations(TorchFunctionMode):
    """Count operations, and stop where there are too many."""

    count = 0

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self.count += 1
        if self.count > 1000:
            raise RuntimeError("it has a loop over the tokens")
        return func(*args, **(kwargs or {}))
