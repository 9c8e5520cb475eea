"""Change the inputs of a case as a mistake would.

A change takes a case's index and its inputs by name, and returns other
inputs, or the outcome that the reference would give; None where it does not
apply, and so claims nothing.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import combinations
from typing import Any

import torch
from torch import Tensor

from attn.grading.checks.evidence import Evidence
from attn.grading.checks.run import Outcome
from attn.grading.diagnosis.axes import Axes

Inputs = dict[str, Any]
Change = Callable[[int, Inputs], Inputs | Outcome | None]
#: The key of a kind, the words of its blanks, and the change.
Probe = tuple[str, dict[str, str], Change]

_INTEGERS: dict[str, Callable[[Tensor], Tensor]] = {
    "rounded to float32": lambda x: x.float().to(x.dtype),
    "sorted": lambda x: x.sort(-1).values,
    "raised to 1 at least": lambda x: x.clamp(min=1),
    "made positive": lambda x: x.abs(),
    "one less": lambda x: x - 1,
    "one more": lambda x: x + 1,
}
_FORMULAS: dict[str, Callable[[Any], Any]] = {
    "1 / {}": lambda x: 1 / x,
    "-{}": lambda x: -x,
    "2 * {}": lambda x: 2 * x,
    "{} / 2": lambda x: x / 2,
    "{} squared": lambda x: x * x,
    "the root of {}": lambda x: x**0.5,
}
_CONSTANTS = (math.e, 10.0, 2.0, 1.0)
_DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
_DEFAULTS = (
    *(-1, 0, 0.1, 0.5, 1, 2),
    *(10.0, 100.0, 1000.0, 10000.0, 100000.0, 500000.0),
)


def one_input(name: str, function: Callable[[Any], Any]) -> Change:
    """Return a change of one tensor or float, where it is given."""

    def change(i: int, inputs: Inputs) -> Inputs | None:
        x = inputs.get(name)
        if not isinstance(x, Tensor | float):
            return None
        try:
            return {**inputs, name: function(x)}
        except (RuntimeError, ValueError, IndexError, ZeroDivisionError):
            return None

    return change


def taken_from(sources: Mapping[str, str]) -> Change:
    """Return the change that gives inputs the values of others."""

    def change(i: int, inputs: Inputs) -> Inputs | None:
        if not {*sources, *sources.values()} <= inputs.keys():
            return None
        return inputs | {n: inputs[other] for n, other in sources.items()}

    return change


def with_step(name: str, step: int) -> Change:
    """Return the change of a count by a step."""

    def change(i: int, inputs: Inputs) -> Inputs | None:
        if type(inputs.get(name)) is not int:
            return None
        return {**inputs, name: inputs[name] + step}

    return change


def without_inputs(evidence: Evidence) -> Iterator[Probe]:
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
        yield "ignored", {"input": name}, without(name)
    for a, b in combinations(optional, 2):
        yield "ignored_both", {"one": a, "other": b}, without(a, b)
    for parameter in parameters:
        if parameter.name not in used:
            yield from _other_defaults(evidence, parameter)


def _other_defaults(
    evidence: Evidence, parameter: inspect.Parameter
) -> Iterator[Probe]:
    name, default = parameter.name, parameter.default
    values: tuple[Any, ...] = ()
    if isinstance(default, torch.dtype):
        values = _DTYPES
    elif isinstance(default, bool):
        values = (not default,)
    elif isinstance(default, int | float):
        values = _DEFAULTS

    def with_default(value: Any) -> Change:
        return lambda i, inputs: (
            None if name in evidence.inputs(i) else {**inputs, name: value}
        )

    for value in values:
        if value != default:
            words = {"input": name, "value": str(value)}
            yield "default", words, with_default(value)


def other_numbers(name: str, x: Any) -> Iterator[Probe]:
    """Yield functions of a float, and other integers."""
    if type(x) is int:
        for step, text in ((-1, "one less"), (1, "one more")):
            yield (
                "counted",
                {"input": name, "step": text},
                with_step(name, step),
            )
    elif isinstance(x, Tensor) and x.dtype in (torch.int64, torch.int32):
        for form, function in _INTEGERS.items():
            words = {"input": name, "form": form}
            yield "integers", words, one_input(name, function)
    elif type(x) is float or (isinstance(x, Tensor) and x.is_floating_point()):
        for formula, function in _FORMULAS.items():
            words = {"input": name, "form": formula.format(name)}
            yield "computed_with", words, one_input(name, function)
        for value in _CONSTANTS:
            words = {"input": name, "form": f"{name} = {value:.4g}"}
            yield "computed_with", words, _constant(name, value)


def _constant(name: str, value: float) -> Change:
    def change(i: int, inputs: Inputs) -> Inputs | None:
        is_float = isinstance(inputs.get(name), float)
        return {**inputs, name: value} if is_float else None

    return change


def along(axes: Axes, name: str, axis: int, x: Tensor) -> Iterator[Probe]:
    """Yield changes of one input along one of its axes."""
    word = axes.word(axes.of_input(name, x.shape), x.dim() + axis)
    words = {"input": name, "word": word}

    def zeroed(x: Tensor, at: int) -> Tensor:
        x = x.clone()
        x.select(axis, at).fill_(0.0)
        return x

    def repeated(x: Tensor, at: int) -> Tensor:
        return x.select(axis, at).unsqueeze(axis).expand_as(x)

    for at, which in ((-1, "last"), (0, "first")):
        end = words | {"which": which}
        if x.dtype == torch.bool or x.is_floating_point():
            yield "left_out", end, one_input(name, partial(zeroed, at=at))
        yield "only_one", end, one_input(name, partial(repeated, at=at))
    yield "backwards", words, one_input(name, lambda x: x.flip(axis))
    for step in (1, -1):
        roll = partial(torch.roll, shifts=step, dims=axis)
        yield "shifted", words, one_input(name, roll)
    if axis < -1:
        transpose = one_input(name, lambda x: x.transpose(axis, axis + 1))
        yield "transposed", {"input": name}, transpose


def of_an_earlier_call(evidence: Evidence, name: str) -> Change:
    """Return the change of an input to that of an earlier call.

    A number is that of a call with the same other inputs.
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
                    if not isinstance(z, Tensor)
                ):
                    return y
        return None

    def change(i: int, inputs: Inputs) -> Inputs | None:
        if i in evidence.passing:
            return None
        value = earlier(i, inputs)
        return None if value is None else {**inputs, name: value}

    return change
