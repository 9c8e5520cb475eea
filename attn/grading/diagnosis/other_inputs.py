"""Find an input for which the wrong result would be right.

A mistake often does to the result what another input would: a mask that is
inverted, a keyword that is left out, a key that is zero. The reference runs
on such inputs; where it gives what the answer gives, in every case, the other
input says what the answer does.

A change takes a case's index and its inputs by name, and returns other
inputs; None where it does not apply, and so claims nothing.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator
from itertools import combinations, permutations
from typing import Any

import torch
from torch import Tensor

from attn.grading.checks.compare import alike
from attn.grading.checks.evidence import Evidence
from attn.grading.checks.inputs import named_tensors
from attn.grading.diagnosis.axes import Axes
from attn.grading.diagnosis.kinds import Kind, kind

Inputs = dict[str, Any]
Change = Callable[[int, Inputs], Inputs | None]

_STEPS = {"one less": -1, "one more": 1}
_ENDS = {"last": -1, "first": 0}
_DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


def explained(evidence: Evidence, end: float) -> Kind | None:
    """Return the change of the inputs that explains every case.

    Args:
        evidence: all that was observed.
        end: the time, of ``time.process_time``, at which to stop.
    """
    if not _has_enough_values(evidence) or evidence.within_rounding:
        return None
    cases = [*evidence.failing, *evidence.passing]
    for name, change in _changes(evidence):
        if time.process_time() > end:
            return None
        if all(_agrees(evidence, change, i) for i in cases):
            return name
    return None


def _has_enough_values(evidence: Evidence) -> bool:
    """Return whether there are enough wrong values to compare."""
    count, kinds = 0, {f.problem.kind for f in evidence.failures}
    if not kinds <= {"value", "nan", "shape"}:
        return False
    if kinds == {"nan"} and not evidence.passing:
        return False  # much gives nothing but NaN
    for failure in evidence.failures:
        if failure.problem.part.kind == "gradient":
            return False
        wrong = failure.problem.wrong
        count += 2 if wrong is None else int(wrong.sum())
    return count >= 4


def _agrees(evidence: Evidence, change: Change, i: int) -> bool:
    """Return whether the reference gives on other inputs what was observed.

    A right result is compared with the reference's own, which is not rounded
    in another way.
    """
    fails = i in evidence.failing
    inputs = change(i, evidence.with_defaults(i))
    if inputs is None or (evidence.case(i).rtol and not fails):
        return not fails
    changed = evidence.reference_on(i, inputs)
    if changed.error is not None:
        return False
    if fails:
        output, rtol = evidence.outcomes[i].output, evidence.oracle.rtol(i)
        return alike(output, changed.output, rtol)
    return alike(changed.output, evidence.expected(i).output)


def _changes(evidence: Evidence) -> Iterator[tuple[Kind, Change]]:
    """Yield what is tried, the plainest first."""
    inputs = evidence.with_defaults(min(evidence.failing))
    axes = Axes(evidence.exercise)
    tensors = {n: x for n, x in inputs.items() if isinstance(x, Tensor)}
    for name, x in tensors.items():
        if x.dtype == torch.bool:
            inverted = _of_tensor(name, torch.logical_not)
            yield kind("inverted", input=name), inverted
    yield from _without_inputs(evidence)
    for name, x in inputs.items():
        if type(x) is int:
            for text, step in _STEPS.items():
                counted = kind("counted", input=name, step=text)
                yield counted, _with_step(name, step)
    for name, x in tensors.items():
        for axis in range(-1, -x.dim() - 1, -1):
            yield from _along(axes, name, axis, x)
    for a, b in permutations(tensors, 2):
        if tensors[a].dtype == tensors[b].dtype:
            yield kind("replaced", one=a, other=b), _taken_from(a, b)
    for name in inputs:
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


def _along(
    axes: Axes, name: str, axis: int, x: Tensor
) -> Iterator[tuple[Kind, Change]]:
    """Yield changes of one input along one of its axes."""
    word = axes.word(axes.of_input(name, x.shape), x.dim() + axis)

    def without(at: int) -> Callable[[Tensor], Tensor]:
        def zeroed(x: Tensor) -> Tensor:
            x = x.clone()
            x.select(axis, at).fill_(0.0)
            return x

        return zeroed

    if x.dtype == torch.bool or x.is_floating_point():
        for which, at in _ENDS.items():
            left_out = kind("left_out", input=name, word=word, which=which)
            yield left_out, _of_tensor(name, without(at))
    if axis < -1:
        transposed = _of_tensor(name, lambda x: x.transpose(axis, axis + 1))
        yield kind("transposed", input=name), transposed


def _of_tensor(name: str, function: Callable[[Tensor], Tensor]) -> Change:
    """Return a change of one tensor, where it is given."""

    def change(i: int, inputs: Inputs) -> Inputs | None:
        x = inputs.get(name)
        if not isinstance(x, Tensor):
            return None
        try:
            return {**inputs, name: function(x)}
        except (RuntimeError, IndexError):  # it has no such axis, or place
            return None

    return change


def _with_step(name: str, step: int) -> Change:
    """Return the change of a count by a step."""

    def change(i: int, inputs: Inputs) -> Inputs | None:
        if type(inputs.get(name)) is not int:
            return None
        return {**inputs, name: inputs[name] + step}

    return change


def _taken_from(name: str, other: str) -> Change:
    """Return the change that gives an input the value of another."""

    def change(i: int, inputs: Inputs) -> Inputs | None:
        if not {name, other} <= inputs.keys():
            return None
        return {**inputs, name: inputs[other]}

    return change


def _of_an_earlier_call(evidence: Evidence, name: str) -> Change:
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
                    if not [*named_tensors(z)]
                ):
                    return y
        return None

    def change(i: int, inputs: Inputs) -> Inputs | None:
        if i in evidence.passing:
            return None
        value = earlier(i, inputs)
        return None if value is None else {**inputs, name: value}

    return change
