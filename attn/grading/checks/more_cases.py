"""Call an answer more than once: the cases that the engine adds.

Each comes after a call that differs from it in one thing: in elements, mode,
coins, object, one argument, or length. What an answer keeps of an earlier
call, a result, a mask, a table that is too short then, shows in such a case
only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, islice, zip_longest
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from attn.exercises.case import LONGER, Case
from attn.exercises.changed_inputs import LENGTH, cast_inputs, longer_inputs
from attn.exercises.conditions import typical
from attn.exercises.outcome import Outcome
from attn.exercises.spec import Exercise
from attn.grading.checks.compare import alike
from attn.grading.checks.inputs import input_size, named_tensors
from attn.grading.checks.objects import parameters

Pair = tuple[Case, Case]
"""A case, and the same one with other elements."""

MOST_KINDS = 6  # of inputs, for a class; a function keeps little: 2
MOST_ARGUMENTS = 3  # that change alone
TRIES = 6  # for one argument, until the result changes with it
OPERATIONS = 1000  # of a derived case: a loop over many tokens takes more
#: Inputs that are results of others, in the book's words: with one of those
#: changed alone, or all of them longer, right answers differ.
_RESULTS = {"out", "lse", "delta"}
_COUNTS = {torch.bool, torch.int64}
_PLAIN = bool | int | float | str | torch.dtype | None


@dataclass
class MoreCases:
    """Make what no exercise writes: later calls, and other objects.

    Args:
        exercise: the exercise.
        cases: its own.
        seed: draws other elements; the next ones draw those of more cases.
        reference: runs the right answer; raises RuntimeError where a case
            does not fit it.
    """

    exercise: Exercise
    cases: Sequence[Case]
    seed: int
    reference: Callable[[Case], Outcome]

    def __post_init__(self) -> None:
        self.first: list[Case] = []
        with suppress(ValueError):  # none is of float32
            self.first = typical(self.exercise, self.cases)[::-1]
        self.pairs = self._paired(self.seed)

    def __iter__(self) -> Iterator[Case]:
        yield from self.other_elements()
        yield from self.other_coins()
        yield from self.other_object()
        yield from self.other_dtypes()
        given = set().union(*map(self.exercise.inputs, self.cases))
        if not self.exercise.use and not _RESULTS & given:
            yield from self.other_argument()
            yield from self.other_length()
        yield from self.initial_values()

    def _paired(self, seed: int) -> list[Pair]:
        """Return the cases, each with the same one of another seed."""
        both = zip(self.cases, self.exercise.generate(seed), strict=False)
        return [(x, y) for x, y in both if x.condition == y.condition]

    def _plain(self, pairs: list[Pair]) -> list[Pair]:
        """Return those of one exact call; the most inputs, lengths first."""
        plain = [
            (x, y)
            for x, y in pairs
            if not (_is_limited(x) or x.train or x.before or x.shares)
        ]
        return sorted(plain, key=lambda p: [p[0] is not x for x in self.first])

    def _right(self, case: Case) -> Outcome | None:
        """Return the right outcome of a derived case, if it has one."""
        try:
            right = self.reference(case)
        except RuntimeError:
            return None
        has_nan = any(x.isnan().any() for _, x in named_tensors(right.output))
        return None if right.random_used or has_nan else right

    # --- other elements, the other mode, other coins -------------------------

    def other_elements(self) -> Iterator[Case]:
        """Yield cases after calls with other shapes, masks, and elements.

        Those of a module also in the other mode, where nothing is random.
        """
        is_class = any(case.init is not None for case, _ in self.pairs)
        fixed = [
            (x, y)
            for x, y in self.pairs
            if not x.before and not (x.train and x.rtol)
        ]
        chosen = _one_of_each_kind(fixed)[: MOST_KINDS if is_class else 2]
        for case, other in chosen:
            before = *_earlier_cases(case, [x for x, _ in fixed]), case
            says = "it is called again, with other inputs"
            yield _after(before, other, says)
        for case, other in chosen if is_class else ():
            says = f"it is in {'eval' if case.train else 'training'} mode"
            other = replace(other, train=not case.train)
            switched = _after((case,), other, says)
            if not self.reference(switched).random_used:
                yield switched

    def other_coins(self) -> Iterator[Case]:
        """Yield cases that are drawn at random, after the same ones."""
        says = "it is called again with the same inputs, and tosses coins"
        for case in self.cases:
            if case.train and not case.before:
                again = _after((case,), case, says)
                right = self.reference(again)
                if right.random_used and not right.repeats:
                    yield again

    def other_dtypes(self) -> Iterator[Case]:
        """Yield cases in which a result has the dtype of the inputs."""
        own = self.exercise.id
        for case, dtype in cast_inputs(own, self.cases, self.first):
            right = self._right(case)
            output = dict(named_tensors(right.output if right else ()))
            if {x.dtype for x in output.values()} - _COUNTS == {dtype}:
                yield case

    # --- one other argument --------------------------------------------------

    def other_argument(self) -> Iterator[Case]:
        """Yield cases, each after a call that differs in one argument.

        Each has elements that no other has: an answer remembers nothing of
        them. One that remembers results by part of its arguments, by shapes
        or by all but a keyword, is right until the rest of them changes
        alone.
        """
        every = [self.exercise.inputs(case) for case in self.cases]
        defaults = self.exercise.defaults
        values = {
            name: [x.get(name, defaults.get(name, ...)) for x in every]
            for name in dict.fromkeys(chain(*every))
        }
        # The last tensors first: what is remembered is found by the first.
        last_first = reversed(values)
        names = iter(sorted(last_first, key=lambda x: _has_tensors(values[x])))
        for found in range(1, MOST_ARGUMENTS + 1):
            pairs = self._plain(self._paired(self.seed + found))
            cases = (self._changed(pairs, x, values[x]) for x in names)
            if (case := next(filter(None, cases), None)) is None:
                return
            yield case

    def _changed(
        self, pairs: list[Pair], name: str, values: list[Any]
    ) -> Case | None:
        """Return a case after one with another argument, another result."""
        for case, earlier in islice(self._changes(pairs, name, values), TRIES):
            if not _has_tensors(values):
                one, two = self._right(case), self._right(earlier)
                if not (one and two) or alike(one.output, two.output, 1e-3):
                    continue
            says = f"it is called again, and only {name} is another"
            return _after((replace(earlier, may_raise=True),), case, says)
        return None

    def _changes(
        self, pairs: list[Pair], name: str, values: list[Any]
    ) -> Iterator[Pair]:
        """Yield pairs of calls that differ in one argument, the last first.

        The last must be one that was not made before. It is a case with
        elements of its own; or, of a function of numbers, another value for
        an argument that may be left out, which no other number restricts.
        """
        default = self.exercise.defaults.get(name, ...)
        plain = {repr(x): x for x in values if isinstance(x, _PLAIN)}
        for seen, case in pairs:
            inputs = self.exercise.inputs(case)
            own, others = inputs.get(name, default), []
            if _has_tensors(own) and len(inputs) > 1:
                others = [self.exercise.inputs(seen).get(name, own)]
            elif isinstance(own, _PLAIN):
                others = [x for key, x in plain.items() if key != repr(own)]
            for value in others:
                new = {**inputs, name: value}
                changed = self.exercise.with_inputs(case, new)
                if _has_tensors(inputs):
                    yield case, changed
                elif default is not ...:
                    yield changed, case

    # --- a longer input ------------------------------------------------------

    def other_length(self) -> Iterator[Case]:
        """Yield a case after a shorter one, if the reference takes one."""
        for least in (LENGTH, 0):
            for case, other in self._plain(self.pairs)[:4]:
                inputs = longer_inputs(self.exercise.inputs(other), least)
                if inputs is None:
                    continue
                longer = self.exercise.with_inputs(other, inputs)
                longer = _after((case,), longer, LONGER)
                with _FewOperations():
                    right = self._right(longer)
                if right:
                    yield longer
                    return

    # --- two objects, and new ones -------------------------------------------

    def other_object(self) -> Iterator[Case]:
        """Yield a case with another object like it, and an unlike one.

        What a class keeps in a place that its objects share, a table of the
        class, a default argument, layers made once, is right for one at a
        time.
        """
        pairs = [
            (case, other)
            for case, other in self.pairs
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
        unlike = max(others, key=lambda x: (unlikeness(x), _calls_and_size(x)))
        if unlikeness(unlike):
            yield _in_turns("other", case, unlike)

    def initial_values(self) -> Iterator[Case]:
        """Yield a case whose constant parameters are as they were made.

        The weights of a case hide what a task says of initial values: ones,
        zeros.
        """
        for case, _ in self._plain(self.pairs)[:1]:
            if not case.state or case.init is None:
                return
            with torch.random.fork_rng(devices=[]):
                made = [self.exercise.reference(**case.init) for _ in "ab"]
            first, second = map(parameters, made)  # drawn one after the other
            names = [n for n, x in first.items() if torch.equal(x, second[n])]
            if names:
                have = "have their initial values"
                have = have if names[1:] else "has its initial value"
                condition = f"{' and '.join(names)} {have}"
                yield replace(case, condition=condition, initial=tuple(names))


class _FewOperations(TorchFunctionMode):
    """Count operations, and stop where there are too many."""

    count = 0

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self.count += 1
        if self.count > OPERATIONS:
            raise RuntimeError("it has a loop over the tokens")
        return func(*args, **(kwargs or {}))


def _after(before: tuple[Case, ...], case: Case, condition: str) -> Case:
    return replace(case, before=before, condition=condition, max_live=None)


def _is_limited(case: Case) -> bool:
    """Return whether more than the result counts, or less."""
    limits = case.rtol, case.max_live, case.max_kept, case.once, case.grad
    return any(limits)


def _has_tensors(tree: Any) -> bool:
    return any(True for _ in named_tensors(tree))


def _one_of_each_kind(pairs: list[Pair]) -> list[Pair]:
    """Return a pair for each kind of inputs, those with many partners first.

    Of several, the largest: with one token all that is kept looks right. Yet
    one whose memory is measured comes last: it is far larger than it needs.
    """

    def order(pair: Pair) -> tuple[int, bool, int]:
        case = pair[0]
        partners = sum(repr(x.init) == repr(case.init) for x, _ in pairs)
        return -partners, case.max_live is not None, -input_size(case)

    kinds: dict[Any, Pair] = {}
    for pair in sorted(pairs, key=order):
        kinds.setdefault(_input_types(pair[0]), pair)
    return [*kinds.values()]


def _earlier_cases(case: Case, cases: list[Case]) -> list[Case]:
    """Return cases for the same module: a smaller one, one of another kind.

    What is sized by the first call is then too small, and what is kept of a
    call, a mask for instance, is there when none is given.
    """
    same = [x for x in cases if repr(x.init) == repr(case.init)]
    small = min(same, key=input_size)
    other_types = [x for x in same if _input_types(x) != _input_types(case)]
    earlier = [small] if input_size(small) < input_size(case) else []
    earlier += [x for x in other_types[-1:] if x is not small]
    return [replace(x, train=not x.train, max_live=None) for x in earlier]


def _input_types(case: Case) -> tuple[Any, ...]:
    """Return which inputs are given, of which types."""
    return tuple(
        (name, x.dtype if isinstance(x, Tensor) else type(x))
        for name, x in (*enumerate(case.args), *case.kwargs.items())
        if x is not None and x is not False
    )


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
    return _after(before, case, condition)
