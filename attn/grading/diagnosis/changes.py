"""Change the inputs of a case as a mistake would.

A change takes a case's index and its inputs by name, and returns other
inputs; None where it does not apply, and so claims nothing.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
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
Probe = tuple[str, dict[str, str], Change]


INTEGERS: dict[str, Callable[[Tensor], Tensor]] = {
    "rounded to float32": lambda x: x.float().to(x.dtype),
    "sorted": lambda x: x.sort(-1).values,
    "raised to 1 at least": lambda x: x.clamp(min=1),
    "made positive": lambda x: x.abs(),
    "one less": lambda x: x - 1,
    "one more": lambda x: x + 1,
}


def one_input(name: str, function: Callable[[Any], Any]) -> Change:
    """Return a change of one input, where it is given."""

    def change(i: int, inputs: Inputs) -> Inputs | None:
        x = inputs.get(name)
        if not isinstance(x, Tensor | float) or isinstance(x, bool):
            return None
        try:
            return {**inputs, name: function(x)}
        except (RuntimeError, ValueError, IndexError, ZeroDivisionError):
            return None

    return change


def counted(name: str, step: int) -> Change:
    def change(i: int, inputs: Inputs) -> Inputs | None:
        if type(inputs.get(name)) is not int:
            return None
        return {**inputs, name: inputs[name] + step}

    return change


def ignored(evidence: Evidence, inputs: Inputs) -> Iterator[Probe]:
    """Yield every optional input, and every two of them, left out."""
    parameters = evidence.exercise.parameters.values()
    optional = [p.name for p in parameters if p.default is not p.empty]
    seen = {n for i in evidence.failing for n in evidence.inputs(i)}
    absent = [p for p in parameters if p.name not in seen]
    optional = [n for n in optional if n in seen]

    def without(names: tuple[str, ...]) -> Change:
        def change(i: int, inputs: Inputs) -> Inputs | None:
            if not any(n in evidence.inputs(i) for n in names):
                return None
            return {n: x for n, x in inputs.items() if n not in names}

        return change

    for name in optional:
        yield "ignored", {"input": name}, without((name,))
    for a, b in combinations(optional, 2):
        yield "ignored_both", {"one": a, "other": b}, without((a, b))
    for parameter in absent:
        yield from defaults(evidence, parameter)


def defaults(
    evidence: Evidence, parameter: inspect.Parameter
) -> Iterator[Probe]:
    """Yield other defaults of an input that is not given."""
    name, default = parameter.name, parameter.default
    values: tuple[Any, ...] = ()
    if isinstance(default, torch.dtype):
        values = torch.float32, torch.float16, torch.bfloat16, torch.float64
    elif isinstance(default, bool):
        values = (not default,)
    elif isinstance(default, int | float):
        values = -1, 0, 0.1, 0.5, 1, 2
        values += 10.0, 100.0, 1000.0, 10000.0, 100000.0, 500000.0
    for value in values:
        if value == default:
            continue

        def change(i: int, inputs: Inputs, value: Any = value) -> Any:
            if name in evidence.inputs(i):
                return None
            return {**inputs, name: value}

        yield "default", {"input": name, "value": str(value)}, change


def functions_of(name: str) -> Iterator[Probe]:
    """Yield functions of a float input."""
    tried: list[tuple[str, Callable[[Any], Any]]] = [
        (f"1 / {name}", lambda x: 1 / x),
        (f"-{name}", lambda x: -x),
        (f"2 * {name}", lambda x: 2 * x),
        (f"{name} / 2", lambda x: x / 2),
        (f"{name} squared", lambda x: x * x),
        (f"the root of {name}", lambda x: x**0.5),
    ]
    for words, function in tried:
        yield (
            "computed_with",
            {"input": name, "form": words},
            one_input(name, function),
        )
    for value in (math.e, 10.0, 2.0, 1.0):
        words = f"{name} = {value:.4g}"

        def constant(x: Any, value: float = value) -> Any:
            if isinstance(x, Tensor):
                raise ValueError
            return value

        yield (
            "computed_with",
            {"input": name, "form": words},
            one_input(name, constant),
        )


def along(axes: Axes, name: str, axis: int, x: Tensor) -> Iterator[Probe]:
    """Yield changes of one input along one of its axes."""
    letters = axes.of(name, x.shape)
    word = axes.word(letters, x.dim() + axis)

    def put(x: Tensor, at: int, value: float = 0.0) -> Tensor:
        x = x.clone()
        x.select(axis, at).fill_(value)
        return x

    def repeated(x: Tensor, at: int) -> Tensor:
        if x.shape[axis] == 1:
            return x
        one = x.select(axis, at).unsqueeze(axis)
        return one.expand_as(x)

    for at, end in ((-1, "last"), (0, "first")):
        said = {"input": name, "word": word, "which": end}
        if x.dtype in (torch.bool,) or x.is_floating_point():
            yield (
                "left_out",
                said,
                one_input(name, partial(put, at=at)),
            )
        yield (
            "only_one",
            said,
            one_input(name, partial(repeated, at=at)),
        )
    said = {"input": name, "word": word}
    yield "backwards", said, one_input(name, lambda x: x.flip(axis))
    for step in (1, -1):
        yield (
            "shifted",
            said,
            one_input(name, partial(torch.roll, shifts=step, dims=axis)),
        )
    if axis < -1:
        yield (
            "transposed",
            {"input": name},
            one_input(name, lambda x: x.transpose(axis, axis + 1)),
        )


def without_keys(part: slice) -> Change:
    def change(i: int, inputs: Inputs) -> Inputs | None:
        if inputs["key"].shape[-2] < 2:
            return None
        cut = {n: inputs[n][..., part, :] for n in ("key", "value")}
        mask = inputs.get("attn_mask")
        if isinstance(mask, Tensor) and mask.shape[-1] > 1:
            cut["attn_mask"] = mask[..., part]
        return {**inputs, **cut}

    return change


def replaced(a: str, b: str) -> Change:
    def change(i: int, inputs: Inputs) -> Inputs | None:
        if not {a, b} <= inputs.keys():
            return None
        return {**inputs, a: inputs[b]}

    return change


def swapped(a: str, b: str) -> Change:
    def change(i: int, inputs: Inputs) -> Inputs | None:
        if not {a, b} <= inputs.keys():
            return None
        return {**inputs, a: inputs[b], b: inputs[a]}

    return change


def earlier(evidence: Evidence, name: str) -> Change:
    """Return the change of an input to that of an earlier call.

    A number is that of a call with the same other inputs.
    """

    def matching(i: int, x: Any, inputs: Inputs) -> Any:
        for j in range(i):
            other = evidence.with_defaults(j)
            y = other.get(name)
            if isinstance(x, Tensor) and isinstance(y, Tensor):
                if y.shape == x.shape and not torch.equal(y, x):
                    return y
            elif type(x) is int and type(y) is int and x != y:
                rest = {**inputs, name: y}
                if all(
                    rest.get(n) is z or rest.get(n) == z
                    for n, z in other.items()
                    if not isinstance(z, Tensor)
                ):
                    return y
        return None

    def change(i: int, inputs: Inputs) -> Inputs | None:
        if i in evidence.passing:
            return None
        found = matching(i, inputs.get(name), inputs)
        return None if found is None else {**inputs, name: found}

    return change


def filled(low: float) -> Callable[[Tensor], Tensor]:
    def bias(mask: Tensor) -> Tensor:
        if mask.dtype != torch.bool:
            raise ValueError
        return torch.zeros(mask.shape).masked_fill(~mask, low)

    return bias


def scaled(evidence: Evidence, axes: Axes) -> Iterator[Probe]:
    """Yield other scales of the scores, made by a factor on the query."""
    if "query" not in evidence.inputs(0) or "d_out" in evidence.inputs(0):
        return

    def by(factor: Callable[[dict[str, int], float], float | None]) -> Change:
        def change(i: int, inputs: Inputs) -> Inputs | None:
            sizes = axes.sizes(inputs)
            given = inputs.get("scale")
            if "D" not in sizes:
                return None
            scale = sizes["D"] ** -0.5 if given is None else float(given)
            times = factor(sizes, scale) if scale else None
            if times is None:
                return None
            return {**inputs, "query": inputs["query"] * times}

        return change

    def root_rounded(sizes: dict[str, int], scale: float) -> float:
        root: float = sizes["D"] ** 0.5
        return root / int(root)

    yield "not_scaled", {}, by(lambda sizes, scale: 1 / scale)
    yield "scaled_twice", {}, by(lambda sizes, scale: scale)
    yield "root_rounded", {}, by(root_rounded)
    for letter in ("L", "S", "Dv", "H", "Hkv", "E", "B"):

        def rooted(
            sizes: dict[str, int], scale: float, letter: str = letter
        ) -> float | None:
            if letter not in sizes:
                return None
            quotient: float = (sizes["D"] / sizes[letter]) ** 0.5
            return quotient

        yield "scaled_with", {"letter": letter}, by(rooted)
