"""Change the inputs of a case as a mistake would.

A mistake often does to the result what another input would: a mask that is
inverted, a keyword that is left out, a key that is zero. The reference runs on
such inputs; where it gives what the answer gives, in every case, the other
input says what the answer does.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import combinations, permutations
from typing import Any

import torch
from torch import Tensor

from attn.exercises.outcome import Outcome
from attn.grading.checks.evidence import Evidence
from attn.grading.diagnosis.axes import Axes
from attn.grading.diagnosis.kinds import Claim, kind

Inputs = dict[str, Any]

#: Takes a case's index and its inputs by name, and returns other inputs, or
#: the outcome that the reference would give; None where it does not apply,
#: and so claims nothing.
Change = Callable[[int, Inputs], Inputs | Outcome | None]

Function = Callable[[Any], Any]
"""Takes one tensor or number, where it is given, and returns another."""

_DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
_FORMULAS: dict[str, Function] = {
    "1 / {}": lambda x: 1 / x,
    "-{}": lambda x: -x,
    "2 * {}": lambda x: 2 * x,
    "{} / 2": lambda x: x / 2,
    "{} squared": lambda x: x * x,
    "0 * {}": lambda x: 0 * x,
}


def input_changes(evidence: Evidence) -> Iterator[Claim]:
    """Yield claims that other inputs are computed with, the plainest first.

    None where gradients are wrong: the reference on other inputs has none.
    """
    if all(
        f.problem.kind in ("value", "nan", "shape")
        and not f.problem.part.input
        for f in evidence.failures
    ):
        yield from _Claims(evidence)


class _Claims:
    """The changes that are tried on the inputs of one exercise."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence, self.axes = evidence, Axes(evidence.exercise)
        self.first = min(evidence.failing)
        self.inputs = evidence.with_defaults(self.first)

    def __iter__(self) -> Iterator[Claim]:
        yield from self._scales()
        yield from self._optional()
        for name, x in self.inputs.items():
            yield from self._functions(name, x)
        yield from self._exchanged()
        yield from self._weights()

    def _claim(self, key: str, change: Change, /, **words: str) -> Claim:
        """Return the claim that a change of the inputs explains a result."""
        return Claim(kind(key, **words), partial(self._predict, change))

    def _predict(self, change: Change, i: int) -> Outcome | None:
        evidence = self.evidence
        changed = change(i, evidence.with_defaults(i))
        if not isinstance(changed, dict):
            return changed
        x = evidence.exercise.with_inputs(evidence.case(i), changed)
        return evidence.reference(i, args=x.args, kwargs=x.kwargs)

    def _scales(self) -> Iterator[Claim]:
        """Yield other scales of the scores, made by a factor on the query."""
        names = {*self.evidence.inputs(0), *self.evidence.exercise.parameters}
        if "query" not in names or names & {"d_out", "temperature"}:
            return

        def by(factor: Callable[[dict[str, int], float], float]) -> Change:
            def change(i: int, inputs: Inputs) -> Inputs:
                sizes, scale = self.axes.sizes(inputs), inputs.get("scale")
                scale = sizes["D"] ** -0.5 if scale is None else float(scale)
                times = factor(sizes, scale)
                return {**inputs, "query": inputs["query"] * times}

            return change

        yield self._claim("not_scaled", by(lambda _, scale: 1 / scale))
        yield self._claim("scaled_twice", by(lambda _, scale: scale))
        rounded = by(lambda n, _: n["D"] ** 0.5 / int(n["D"] ** 0.5))
        yield self._claim("root_rounded", rounded)

    def _optional(self) -> Iterator[Claim]:
        """Yield optional inputs left out, and other defaults."""
        given = self.evidence.inputs
        used = {n for i in self.evidence.failing for n in given(i)}
        optional = self.evidence.exercise.defaults

        def without(*names: str) -> Change:
            return lambda i, inputs: {
                n: x for n, x in inputs.items() if n not in names
            }

        def with_default(name: str, x: torch.dtype) -> Change:
            return lambda i, inputs: {name: x, **given(i)}

        read = [n for n in optional if n in used]
        for name in read:
            yield self._claim("ignored", without(name), input=name)
        for a, b in combinations(read, 2):
            yield self._claim("ignored_both", without(a, b), one=a, other=b)
        for name, default in optional.items():
            if name not in used and isinstance(default, torch.dtype):
                for x in _DTYPES:
                    if x != default:
                        words = {"input": name, "value": str(x)}
                        other = with_default(name, x)
                        yield self._claim("default", other, **words)

    def _functions(self, name: str, x: Any) -> Iterator[Claim]:
        """Yield what one input may be replaced by.

        Where only the larger of two numbers counts, any formula that makes
        one small explains a result without it: 1.25 times the input does. Of
        equal weights the first key is the only one, and the last is.
        """

        def of_one(function: Function) -> Change:
            return lambda i, inputs: {**inputs, name: function(inputs[name])}

        def claim(
            key: str, f: Function, rival: Function | None = None, **words: str
        ) -> Claim:
            made = self._claim(key, of_one(f), input=name, **words)
            other = rival and partial(self._predict, of_one(rival))
            return replace(made, rival=other)

        def exaggerated(f: Function, x: Any) -> Any:
            return f(1.25 * x)

        def zeroed(axis: int, at: int, x: Tensor) -> Tensor:
            x = x.clone()
            x.select(axis, at).fill_(0.0)
            return x

        if type(x) is int:
            for text, step in (("one less", -1), ("one more", 1)):
                yield claim("counted", partial(operator.add, step), step=text)
        is_tensor = isinstance(x, Tensor)
        is_float = x.is_floating_point() if is_tensor else type(x) is float
        for formula, f in _FORMULAS.items() if is_float else ():
            rival = partial(exaggerated, f) if f(1) else None
            form = formula.format(name)
            yield claim("computed_with", f, rival, form=form)
        if not is_tensor:
            return
        is_bool = x.dtype == torch.bool
        if is_bool:
            yield claim("inverted", torch.logical_not)
        letters = self.axes.of_input(name, x.shape)
        for axis in range(-1, -x.dim() - 1, -1):
            word = self.axes.word(letters, x.dim() + axis)
            last, first = partial(zeroed, axis, -1), partial(zeroed, axis, 0)
            if is_float or is_bool:
                yield claim("left_out", last, first, word=word, which="last")
                yield claim("left_out", first, last, word=word, which="first")
            for step in (1, -1):
                moved = partial(torch.roll, shifts=step, dims=axis)
                yield claim("shifted", moved, word=word)
            if axis < -1:
                swap = partial(torch.transpose, dim0=axis, dim1=axis + 1)
                yield claim("transposed", swap)

    def _exchanged(self) -> Iterator[Claim]:
        """Yield one input in the place of another, and two exchanged."""

        def taken_from(sources: dict[str, str]) -> Change:
            return lambda i, inputs: {
                n: inputs[sources.get(n, n)] for n in inputs
            }

        inputs = self.inputs.items()
        dtypes = {n: x.dtype for n, x in inputs if isinstance(x, Tensor)}
        for a, b in permutations(dtypes, 2):
            if dtypes[a] == dtypes[b]:
                one, both = taken_from({a: b}), taken_from({a: b, b: a})
                yield self._claim("replaced", one, one=a, other=b)
                if a < b:
                    yield self._claim("swapped", both, one=a, other=b)

    def _weights(self) -> Iterator[Claim]:
        """Yield a layer whose maps have the weights of others."""
        evidence = self.evidence
        state = evidence.case(self.first).state or {}
        maps = list(dict.fromkeys(n.rpartition(".")[0] for n in state))

        def taken_from(sources: dict[str, str]) -> Change:
            def change(i: int, inputs: Inputs) -> Outcome | None:
                state = evidence.case(i).state or {}
                moved = {}
                for name in state:
                    layer, _, which = name.rpartition(".")
                    other = f"{sources.get(layer, layer)}.{which}".strip(".")
                    moved[name] = state.get(other, state[name])
                return evidence.reference(i, state=moved) if state else None

            return change

        for a, b in combinations(maps, 2):
            both = taken_from({a: b, b: a})
            yield self._claim("weights_swapped", both, one=a, other=b)
        for a, b in permutations(maps, 2):
            one = taken_from({a: b})
            yield self._claim("weights_shared", one, one=a, other=b)
