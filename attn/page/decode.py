"""Read what ``encode`` has written: values, tensors, cases and outcomes.

A value of JSON is itself; a dict of one entry names what else there is:
``{"tensor": 3}`` is the fourth of the file's tensors.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from math import prod
from typing import Any

import torch
from torch import Tensor

from attn.exercises.case import Case
from attn.exercises.literal import dtype_name
from attn.exercises.outcome import Forbidden, Outcome, SideEffect
from attn.grading.checks.clock import OutOfTime
from attn.grading.checks.inputs import named_tensors
from attn.grading.checks.objects import WrongParameters
from attn.grading.checks.result import Foreign, NoGradient

ERRORS: dict[str, Any] = {
    x.__name__: x for x in (OutOfTime, Forbidden, NoGradient)
}


class Decoder:
    """Make the values of one file.

    Args:
        tensors: ``[dtype, shape, elements]`` of each, and its strides where
            it is a view.
        states: the weights of modules, which cases share.

    Attributes:
        answered: the result of the answer that a mistake is compared with.
    """

    def __init__(self, tensors: list[Any], states: list[Any]) -> None:
        self._tensors, self._states = tensors, states
        self._made: dict[Any, Any] = {}
        self.answered: Any = None

    def value(self, x: Any) -> Any:
        """Return a value; a tensor that occurs twice is one object."""
        if isinstance(x, list):
            return [self.value(y) for y in x]
        if not isinstance(x, dict):
            return x
        ((kind, of),) = x.items()
        match kind:
            case "tensor":
                if of not in self._made:
                    self._made[of] = _tensor(*self._tensors[of])
                return self._made[of]
            case "sample":
                return self._sample(*of)
            case "tuple":
                return tuple(map(self.value, of))
            case "dict":
                return {self.value(k): self.value(y) for k, y in of}
            case "float":
                return float(of)
            case "range":
                return range(*of)
            case "dtype":
                return getattr(torch, of)
            case "foreign":
                return Foreign(*of)
        raise ValueError(f"a value must be of a known kind; got {kind!r}")

    def _sample(
        self, path: str, dtype: str, shape: list[int], at: list[int], of: Any
    ) -> Tensor:
        """Return an answer's own tensor with what a mistake gives in places.

        Of a large result no more is stored.
        """
        own = dict(named_tensors(self.answered)).get(path)
        if own is None or [*own.shape] != shape or dtype_name(own) != dtype:
            return torch.zeros(shape, dtype=getattr(torch, dtype))
        mixed = own.detach().flatten().clone()
        mixed[torch.tensor(at)] = _tensor(dtype, [len(at)], of)
        return mixed.reshape(shape)

    def case(self, x: Mapping[str, Any]) -> Case:
        """Return a case."""
        fields = dict(x)
        for name in ("args", "kwargs", "init"):
            if name in fields:
                fields[name] = self.value(fields[name])
        if "state" in fields:
            at = f"state {fields['state']}"
            if at not in self._made:
                self._made[at] = self.value(self._states[fields["state"]])
            fields["state"] = self._made[at]
        for name in ("initial", "one_tensor", "grad"):
            if isinstance(fields.get(name), list):
                fields[name] = tuple(fields[name])
        fields["before"] = tuple(map(self.case, fields.get("before", ())))
        return Case(fields.pop("when"), **fields)

    def outcome(self, x: Mapping[str, Any]) -> Outcome:
        """Return an outcome."""
        seen = {n: tuple(y) for n, y in x.get("shapes", {}).items()}
        effect = x.get("effect")
        return Outcome(
            output=self.value(x.get("output")),
            grads={n: self.value(y) for n, y in x.get("grads", {}).items()},
            error=_error(*x["error"]) if "error" in x else None,
            shapes_seen=seen,
            side_effect=effect and SideEffect(effect[0], tuple(effect[1])),
            random_used=frozenset(x.get("random", ())),
            repeats=x.get("repeats", False),
        )


def _tensor(
    dtype: str,
    shape: list[int],
    elements: str | list[Any],
    strides: list[int] | None = None,
) -> Tensor:
    dtype, _, wide = dtype.partition(" to ")
    numbers = [float(x) if isinstance(x, str) else x for x in elements]
    if dtype == "bool":
        numbers = [x == "1" for x in elements]
    x = torch.tensor(numbers, dtype=getattr(torch, dtype)).reshape(shape)
    x = x.to(getattr(torch, wide)) if wide else x
    if strides is None:
        return x
    # An axis that is expanded is written once.
    sizes = [n if step else 1 for n, step in zip(shape, strides, strict=True)]
    for axis, n in enumerate(sizes):
        x = x.narrow(axis, 0, n)
    last = sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))
    memory = torch.zeros(last + 1 if prod(shape) else 0, dtype=x.dtype)
    memory.as_strided(sizes, strides).copy_(x)
    return memory.as_strided(shape, strides)


def _error(name: str, text: str, *names: list[str]) -> BaseException:
    if name == WrongParameters.__name__:
        return WrongParameters(text, *names)
    kind: Any = ERRORS.get(name) or getattr(builtins, name, RuntimeError)
    return kind(text)
