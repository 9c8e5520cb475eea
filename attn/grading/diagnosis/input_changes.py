"""Change one or two inputs of a case as a mistake would.

A change takes a case's index and its inputs by name, and returns other
inputs, or the outcome that the reference would give; None where it does not
apply, and so claims nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import combinations, permutations
from typing import Any

import torch
from torch import Tensor

from attn.grading.checks.evidence import Evidence
from attn.grading.checks.inputs import named_tensors
from attn.grading.checks.run import Outcome
from attn.grading.diagnosis.axes import Axes
from attn.grading.diagnosis.kinds import Kind, kind

Inputs = dict[str, Any]
Change = Callable[[int, Inputs], Inputs | Outcome | None]

_STEPS = {"one less": -1, "one more": 1}
_ENDS = {"last": -1, "first": 0}
_DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
_FORMULAS: dict[str, Callable[[Any], Any]] = {
    "1 / {}": lambda x: 1 / x,
    "-{}": lambda x: -x,
    "2 * {}": lambda x: 2 * x,
    "{} / 2": lambda x: x / 2,
    "{} squared": lambda x: x * x,
}


def input_changes(evidence: Evidence) -> Iterator[tuple[Kind, Change]]:
    """Yield changes of the inputs, the plainest first."""
    inputs = evidence.with_defaults(min(evidence.failing))
    axes = Axes(evidence.exercise)
    tensors = {n: x for n, x in inputs.items() if isinstance(x, Tensor)}
    for name, x in tensors.items():
        if x.dtype == torch.bool:
            inverted = _of_one(name, torch.logical_not)
            yield kind("inverted", input=name), inverted
    yield from _without_inputs(evidence)
    for name, x in inputs.items():
        yield from _other_numbers(name, x)
    for name, x in tensors.items():
        for axis in range(-1, -x.dim() - 1, -1):
            yield from _along(axes, name, axis, x)
    for a, b in permutations(tensors, 2):
        if tensors[a].dtype == tensors[b].dtype:
            yield kind("replaced", one=a, other=b), _taken_from({a: b})
            if a < b:
                both = _taken_from({a: b, b: a})
                yield kind("swapped", one=a, other=b), both
    for name in inputs if len(evidence.failures) > 1 else ():
        earlier = _of_an_earlier_call(evidence, name)
        yield kind("earlier", input=name), earlier


def _without_inputs(evidence: Evidence) -> Iterator[tuple[Kind, Change]]:
    """Yield every optional input, and every two of them, left out."""
    parameters = evidence.exercise.parameters.values()
    used = {n for i in evidence.failing for n in evidence.inputs(i)}
    optional = [
        p.name
        for p in parameters
        if p.name in used and p.default is not p.empty
    ]

    def without(*names: str) -> Change:
        def change(i: int, inputs: Inputs) -> Inputs | None:
            if not any(n in evidence.inputs(i) for n in names):
                return None
            return {n: x for n, x in inputs.items() if n not in names}

        return change

    for name in optional:
        yield kind("ignored", input=name), without(name)
    for a, b in combinations(optional, 2):
        yield kind("ignored_both", one=a, other=b), without(a, b)
    for parameter in parameters:
        if parameter.name not in used:
            yield from _other_defaults(evidence, parameter)


def _other_defaults(
    evidence: Evidence, parameter: inspect.Parameter
) -> Iterator[tuple[Kind, Change]]:
    """Yield other dtypes for a default that is one."""
    name, default = parameter.name, parameter.default
    if not isinstance(default, torch.dtype):
        return

    def with_default(value: torch.dtype) -> Change:
        return lambda i, inputs: (
            None if name in evidence.inputs(i) else {**inputs, name: value}
        )

    for value in _DTYPES:
        if value != default:
            other = kind("default", input=name, value=str(value))
            yield other, with_default(value)


def _other_numbers(name: str, x: Any) -> Iterator[tuple[Kind, Change]]:
    """Yield the next integers, or functions of a float."""
    if type(x) is int:
        for text, step in _STEPS.items():
            counted = kind("counted", input=name, step=text)
            yield counted, _with_step(name, step)
    elif type(x) is float or (isinstance(x, Tensor) and x.is_floating_point()):
        for formula, function in _FORMULAS.items():
            computed = kind(
                "computed_with", input=name, form=formula.format(name)
            )
            yield computed, _of_one(name, function)


def _along(
    axes: Axes, name: str, axis: int, x: Tensor
) -> Iterator[tuple[Kind, Change]]:
    """Yield changes of one input along one of its axes."""
    word = axes.word(axes.of_input(name, x.shape), x.dim() + axis)

    def zeroed(x: Tensor, at: int) -> Tensor:
        x = x.clone()
        x.select(axis, at).fill_(0.0)
        return x

    def repeated(x: Tensor, at: int) -> Tensor:
        return x.select(axis, at).unsqueeze(axis).expand_as(x)

    for which, at in _ENDS.items():
        words = {"input": name, "word": word, "which": which}
        if x.dtype == torch.bool or x.is_floating_point():
            left_out = _of_one(name, partial(zeroed, at=at))
            yield kind("left_out", **words), left_out
        only_one = _of_one(name, partial(repeated, at=at))
        yield kind("only_one", **words), only_one
    words = {"input": name, "word": word}
    yield kind("backwards", **words), _of_one(name, lambda x: x.flip(axis))
    for step in (1, -1):
        shifted = _of_one(name, partial(torch.roll, shifts=step, dims=axis))
        yield kind("shifted", **words), shifted
    if axis < -1:
        transposed = _of_one(name, lambda x: x.transpose(axis, axis + 1))
        yield kind("transposed", input=name), transposed


def _of_one(name: str, function: Callable[[Any], Any]) -> Change:
    """Return a change of one tensor or float, where it is given."""

    def change(i: int, inputs: Inputs) -> Inputs | None:
        x = inputs.get(name)
        if not isinstance(x, Tensor | float):
            return None
        try:
            return {**inputs, name: function(x)}
        except (RuntimeError, IndexError, ZeroDivisionError):
            return None  # it has no such axis, or place

    return change


def _with_step(name: str, step: int) -> Change:
    """Return the change of a count by a step."""

    def change(i: int, inputs: Inputs) -> Inputs | None:
        if type(inputs.get(name)) is not int:
            return None
        return {**inputs, name: inputs[name] + step}

    return change


def _taken_from(sources: Mapping[str, str]) -> Change:
    """Return the change that gives inputs the values of others."""

    def change(i: int, inputs: Inputs) -> Inputs | None:
        if not {*sources, *sources.values()} <= inputs.keys():
            return None
        return inputs | {n: inputs[other] for n, other in sources.items()}

    return change


def _of_an_earlier_call(evidence: Evidence, name: str) -> Change:
    """Return the change of an input to that of an earlier call.

    A number is that of a call with the same other inputs, of a function: an
    object is made for each case. Tensors claim nothing unless they have
    several elements: zeros may be any constant.
    """

    def earlier(i: int, inputs: Inputs) -> Any:
        x = inputs.get(name)
        for j in range(i):
            others = evidence.with_defaults(j)
            y = others.get(name)
            if isinstance(x, Tensor) and isinstance(y, Tensor):
                if y.shape == x.shape and not torch.equal(y, x):
                    return y
            elif type(x) is int and type(y) is int and x != y:
                rest = {**inputs, name: y}
                if all(
                    rest.get(n) is z or rest.get(n) == z
                    for n, z in others.items()
                    if not [*named_tensors(z)]
                ):
                    return y
        return None

    used = {i: earlier(i, evidence.with_defaults(i)) for i in evidence.failing}
    elements = {
        frozenset(torch.as_tensor(x).flatten().tolist())
        for x in used.values()
        if x is not None
    }

    is_number = all(type(x) is int for x in used.values())
    is_object = any(f.case.init is not None for f in evidence.failures)
    is_telling = not is_object if is_number else len(elements) > 1

    def change(i: int, inputs: Inputs) -> Inputs | None:
        value = used.get(i) if is_telling else None
        return None if value is None else {**inputs, name: value}

    return change
