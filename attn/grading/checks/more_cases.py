"""Call an answer more than once: the cases that the engine adds.

Each comes after a call that differs from it in one thing: in elements, mode,
coins, object, one argument, or length. What an answer keeps of an earlier
call, a result, a mask, a table that is too short then, shows in such a case
only.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice, zip_longest
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from attn.exercises.case import Case
from attn.exercises.changed_inputs import LENGTH, longer_inputs, with_inputs
from attn.exercises.conditions import typical
from attn.exercises.spec import Exercise
from attn.grading.checks.compare import alike
from attn.grading.checks.inputs import input_size, named_tensors
from attn.grading.checks.objects import parameters
from attn.grading.checks.run import Outcome

Pair = tuple[Case, Case]
"""A case, and the same one with other elements."""

MOST_KINDS = 6  # of inputs, for a class; a function keeps little: 2
MOST_ARGUMENTS = 3  # that change alone
TRIES = 6  # for one argument, until the result changes with it
LONGER = "it is called again, with a longer input"
#: Inputs that are results of others, in the book's words: with one of those
#: changed alone, or all of them longer, right answers differ.
_RESULTS = {"out", "lse", "delta"}
_LEFT_OUT = inspect.Parameter.empty
_PLAIN = bool | int | float | str | torch.dtype | None


def more_cases(
    exercise: Exercise,
    cases: Sequence[Case],
    seed: int,
    reference: Callable[[Case], Outcome],
) -> list[Case]:
    """Return what no exercise writes: later calls, and other objects.

    Args:
        exercise: the exercise.
        cases: its own.
        seed: draws other elements; the next ones draw those of more cases.
        reference: runs the right answer; raises RuntimeError where a case
            does not fit it.
    """
    more = _MoreCases(exercise, cases, seed, reference)
    added = [*more.called_again(), *more.with_other_coins()]
    added += _two_objects(more.pairs)
    given = set().union(*(exercise.inputs(case) for case in cases))
    if not exercise.use and not _RESULTS & given:
        added += [*more.with_one_change(), *islice(more.longer(), 1)]
    return added + list(_initial_values(exercise, more.plain))


class _MoreCases:
    """The cases of an exercise, each with the same of other elements."""

    def __init__(
        self,
        exercise: Exercise,
        cases: Sequence[Case],
        seed: int,
        reference: Callable[[Case], Outcome],
    ) -> None:
        self._exercise, self._cases, self._seed = exercise, cases, seed
        self._reference = reference
        others = exercise.generate(seed)
        self.pairs = self._paired(range(len(cases)), others)
        self._order = self._plainest()
        self.plain = self._paired(self._order, others)

    def _paired(
        self, order: Iterable[int], others: Sequence[Case]
    ) -> list[Pair]:
        """Return cases in an order, each with its partner."""
        both = [(self._cases[i], others[i]) for i in order if i < len(others)]
        return [(x, y) for x, y in both if x.condition == y.condition]

    def _plainest(self) -> list[int]:
        """Return the indices of the cases of one exact call.

        Those with the most inputs and lengths come first.
        """
        try:
            first = typical(self._exercise, self._cases)[::-1]
        except ValueError:  # none is of float32
            first = []
        places = {id(x): place for place, x in enumerate(first)}
        plain = [
            (places.get(id(x), len(first)), i)
            for i, x in enumerate(self._cases)
            if not (_is_limited(x) or x.train or x.before or x.shares)
        ]
        return [i for _, i in sorted(plain)]

    # --- other elements, the other mode, other coins -------------------------

    def called_again(self) -> Iterator[Case]:
        """Yield cases after calls with other shapes, masks, and elements.

        Those of a module also in the other mode, where nothing is random.
        """
        is_class = any(case.init is not None for case, _ in self.pairs)
        fixed = [
            (x, y)
            for x, y in self.pairs
            if not x.before and not (x.train and x.rtol)
        ]
        chosen = list(_one_of_each_kind(fixed))
        chosen = chosen[: MOST_KINDS if is_class else 2]
        for case, other in chosen:
            before = (*_earlier_cases(case, [x for x, _ in fixed]), case)
            yield _after(
                before, other, "it is called again, with other inputs"
            )
        for case, other in chosen if is_class else ():
            mode = "eval" if case.train else "training"
            other = replace(other, train=not case.train)
            switched = _after((case,), other, f"it is in {mode} mode")
            if not self._reference(switched).random_used:
                yield switched

    def with_other_coins(self) -> Iterator[Case]:
        """Yield cases that are drawn at random, after the same ones."""
        says = "it is called again with the same inputs, and tosses coins"
        for case in self._cases:
            if case.train and not case.before:
                again = replace(case, condition=says, before=(case,))
                right = self._reference(again)
                if right.random_used and not right.repeats:
                    yield again

    # --- one other argument --------------------------------------------------

    def with_one_change(self) -> Iterator[Case]:
        """Yield cases, each after a call that differs in one argument.

        Each has elements that no other has: an answer remembers nothing of
        them. One that remembers results by part of its arguments, by shapes
        or by all but a keyword, is right until the rest of them changes
        alone.
        """
        every = [self._exercise.inputs(case) for case in self._cases]
        values = {
            name: [inputs.get(name, _LEFT_OUT) for inputs in every]
            for name in dict.fromkeys(chain(*every))
        }
        # The last tensors first: what is remembered is found by the first.
        names = [*reversed(values)]
        names.sort(key=lambda name: _has_tensors(values[name]))
        for found in range(1, MOST_ARGUMENTS + 1):
            others = self._exercise.generate(self._seed + found)
            pairs = self._paired(self._order, others)
            changed = None
            while names and changed is None:
                name = names.pop(0)
                changed = self._changed(pairs, name, values[name])
            if changed is None:
                return
            case, earlier = changed
            condition = f"it is called again, and only {name} is another"
            before = (replace(earlier, may_raise=True),)
            yield replace(case, condition=condition, before=before)

    def _changed(
        self, pairs: list[Pair], name: str, values: list[Any]
    ) -> Pair | None:
        """Return a case, and one with another argument and another result."""
        for case, other in islice(self._changes(pairs, name, values), TRIES):
            if _has_tensors(values) or self._differ(case, other):
                return case, other
        return None

    def _changes(
        self, pairs: list[Pair], name: str, values: list[Any]
    ) -> Iterator[Pair]:
        """Yield pairs of calls that differ in one argument, the last first.

        The last must be one that was not made before. It is a case with
        elements of its own; or, of a function of numbers, another value for
        an argument that may be left out, which no other number restricts.
        """
        parameter = self._exercise.parameters.get(name)
        has_default = parameter and parameter.default is not _LEFT_OUT
        plain = {repr(x): x for x in values if _is_plain(x)}
        for seen, case in pairs:
            inputs = self._exercise.inputs(case)
            own, others = inputs.get(name, _LEFT_OUT), []
            if _has_tensors(own) and len(inputs) > 1:
                others = [self._exercise.inputs(seen).get(name, _LEFT_OUT)]
            elif _is_plain(own):
                others = [x for key, x in plain.items() if key != repr(own)]
            for value in others:
                changed = self._with(case, name, value)
                if changed and _has_tensors(inputs):
                    yield case, changed
                elif changed and has_default:
                    yield changed, case

    def _with(self, case: Case, name: str, value: Any) -> Case | None:
        """Return a case with another value of an argument, if there is one."""
        names = self._exercise.input_names(case)
        inputs = {**self._exercise.inputs(case), name: value}
        if value is _LEFT_OUT:
            if name in names[:-1]:
                return None
            del inputs[name]
        return with_inputs(case, names, inputs)

    def _differ(self, case: Case, other: Case) -> bool:
        """Return whether two calls have results, and not the same ones."""
        try:
            one, two = self._reference(case), self._reference(other)
        except RuntimeError:
            return False
        return not (one.random_used or alike(one.output, two.output, 1e-3))

    # --- a longer input ------------------------------------------------------

    def longer(self) -> Iterator[Case]:
        """Yield cases after a shorter one, if the reference takes them."""
        for least in (LENGTH, 0):
            for case, other in self.plain[:4]:
                inputs = longer_inputs(self._exercise.inputs(other), least)
                if inputs is not None:
                    names = self._exercise.input_names(other)
                    longer = with_inputs(other, names, inputs)
                    longer = _after((case,), longer, LONGER)
                    if self._is_quick(longer):
                        yield longer

    def _is_quick(self, case: Case) -> bool:
        """Return whether a case has a result, in few operations."""
        try:
            with _FewOperations():
                right = self._reference(case)
        except RuntimeError:
            return False
        tensors = [x for _, x in named_tensors(right.output)]
        is_finite = not any(x.isnan().any() for x in tensors)
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


def _after(before: tuple[Case, ...], case: Case, condition: str) -> Case:
    return replace(case, condition=condition, before=before, max_live=None)


def _is_limited(case: Case) -> bool:
    """Return whether more than the result counts, or less."""
    limits = case.rtol, case.max_live, case.max_kept, case.once, case.grad
    return any(limits)


def _has_tensors(tree: Any) -> bool:
    return any(True for _ in named_tensors(tree))


def _is_plain(x: Any) -> bool:
    return x is _LEFT_OUT or isinstance(x, _PLAIN)


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


# --- two objects, and new ones -----------------------------------------------


def _two_objects(pairs: list[Pair]) -> Iterator[Case]:
    """Yield a case with another object like it, and one with an unlike one.

    What a class keeps in a place that its objects share, a table of the
    class, a default argument, layers made once, is right for one at a time.
    """
    pairs = [
        (case, other)
        for case, other in pairs
        if case.init is not None
        and all(x.state is case.state for x in case.before)
        and not _is_limited(case)
    ]
    if not pairs:
        return
    case, like = max(pairs, key=lambda pair: _calls_and_size(pair[0]))
    yield _in_turns("the same", case, like)

    def unlikeness(x: Case) -> int:
        """Count the arguments of the constructor that are others."""
        one, two = case.init or {}, x.init or {}
        names = {**one, **two}
        return sum(repr(one.get(k)) != repr(two.get(k)) for k in names)

    others = (x for _, x in pairs)
    unlike = max(others, key=lambda x: (unlikeness(x), *_calls_and_size(x)))
    if unlikeness(unlike):
        yield _in_turns("other", case, unlike)


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
    case = pairs[0][0] if pairs else None
    if case is None or not case.state or case.init is None:
        return
    made = []
    with torch.random.fork_rng(devices=[]):
        for seed in (0, 1):
            torch.manual_seed(seed)
            made.append(parameters(exercise.reference(**case.init)))
    first, second = made
    names = tuple(n for n, x in first.items() if torch.equal(x, second[n]))
    if names:
        have = (
            "have their initial values"
            if names[1:]
            else "has its initial value"
        )
        condition = f"{' and '.join(names)} {have}"
        yield replace(case, condition=condition, initial=names)
