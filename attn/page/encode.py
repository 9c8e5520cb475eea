"""Write values, tensors, cases and outcomes as JSON, short and exact."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from attn.exercises.case import Case
from attn.exercises.literal import dtype_name
from attn.exercises.outcome import Outcome
from attn.grading.checks.inputs import named_tensors
from attn.grading.checks.objects import WrongParameters
from attn.grading.checks.result import Foreign

SAMPLE = 16  # elements that are stored of a mistake's result


class CannotStore(ValueError):
    """A value that has no form in JSON."""


class Encoder:
    """Collect the tensors and the states of a file; each is stored once."""

    def __init__(self) -> None:
        self.tensors: list[Any] = []
        self.states: list[Any] = []
        self._at: dict[str, int] = {}
        self._state_at: dict[int, int] = {}

    def value(self, x: Any, digits: int | None = None) -> Any:
        """Return a value as JSON.

        Args:
            x: the value.
            digits: significant ones of floats; None for all.
        """
        if isinstance(x, _Sample):
            elements = _elements(x.elements, digits)
            return {"sample": [*x.about, x.places, elements]}
        if isinstance(x, Tensor):
            return {"tensor": self._tensor(x, digits)}
        if isinstance(x, float):
            x = float(f"{x:.{digits}g}") if digits else x
            is_plain = np.isfinite(x) and x != int(x)
            return x if is_plain else {"float": str(x)}  # 1.0 stays a float
        if x is None or isinstance(x, bool | int | str):
            return x
        if isinstance(x, list):
            return [self.value(y, digits) for y in x]
        if isinstance(x, tuple):
            return {"tuple": [self.value(y, digits) for y in x]}
        if isinstance(x, dict):
            pairs = x.items()
            return {"dict": [[k, self.value(y, digits)] for k, y in pairs]}
        if isinstance(x, range):
            return {"range": [x.start, x.stop, x.step]}
        if isinstance(x, torch.dtype):
            return {"dtype": str(x).removeprefix("torch.")}
        if isinstance(x, Foreign):
            return {"foreign": [x.kind, x.details]}
        raise CannotStore(f"a page cannot store a {type(x).__name__}")

    def case(self, x: Case) -> dict[str, Any]:
        """Return what a case has that is not usual."""
        given = {y.name: getattr(x, y.name) for y in fields(Case)}
        usual = vars(Case(""))
        row = {"when": given.pop("condition")}
        for name, value in given.items():
            if name == "state" and value is not None:
                row[name] = self._state(value)
            elif name == "before" and value:
                row[name] = [self.case(y) for y in value]
            elif name in ("args", "kwargs", "init") and value is not None:
                row[name] = self.value(value)
            elif name not in ("state", "before") and value != usual[name]:
                row[name] = value
        return row

    def outcome(self, x: Outcome, digits: int | None) -> dict[str, Any]:
        """Return an outcome, but for what only a right one has."""
        effect, error = x.side_effect, x.error
        row: dict[str, Any] = {}
        if x.output is not None:
            row["output"] = self.value(x.output, digits)
        if x.grads:
            grads = sorted(x.grads.items())
            row["grads"] = {n: self.value(y, digits) for n, y in grads}
        if error is not None:
            row["error"] = [type(error).__name__, str(error)]
            if isinstance(error, WrongParameters):
                names = error.extra, error.missing, error.shared
                row["error"] += [sorted(y) for y in names]
            row["shapes"] = {n: [*y] for n, y in x.shapes_seen.items()}
        if effect is not None:
            row["effect"] = [effect.kind, [*effect.names]]
        if x.random_used:
            row["random"] = sorted(x.random_used)
        if x.repeats:
            row["repeats"] = True
        return row

    def mistaken(
        self, x: Outcome, right: Outcome, digits: int, most: int = SAMPLE
    ) -> dict[str, Any]:
        """Return the outcome of a mistake: of large tensors, a sample."""
        row = self.outcome(replace(x, output=None), digits)
        tensors = dict(named_tensors(right.output))
        names = iter([name for name, _ in named_tensors(x.output)])

        def sampled(y: Any) -> Any:
            if isinstance(y, tuple | list):
                return type(y)([sampled(z) for z in y])
            if isinstance(y, dict):
                return {k: sampled(z) for k, z in y.items()}
            if not isinstance(y, Tensor):
                return y
            return _Sample.of(next(names), y, tensors, most)

        if x.output is not None:
            row["output"] = self.value(sampled(x.output), digits)
        return row

    def _state(self, state: Any) -> int:
        if id(state) not in self._state_at:
            self._state_at[id(state)] = len(self.states)
            self.states.append(self.value(dict(state)))
        return self._state_at[id(state)]

    def _tensor(self, x: Tensor, digits: int | None) -> int:
        x = x.detach()
        dtype = dtype_name(x)
        is_exact = digits is None and x.dtype == torch.float64
        if is_exact and torch.equal(x.float().double(), x):  # of few digits
            dtype = "float32 to float64"
        narrow = x.float() if " to " in dtype else x
        row = [dtype, [*x.shape], _elements(narrow, digits)]
        if not x.is_contiguous() and x.numel():
            row.append([*x.stride()])
        key = json.dumps(row)
        if key not in self._at:
            self._at[key] = len(self.tensors)
            self.tensors.append(row)
        return self._at[key]


class _Sample(NamedTuple):
    """Some elements of a tensor."""

    about: list[Any]  # its path, dtype and shape
    places: list[int]
    elements: Tensor

    @classmethod
    def of(
        cls, path: str, x: Tensor, right: Mapping[str, Tensor], most: int
    ) -> Any:
        """Return a sample of a large tensor, with some that are wrong."""
        flat = x.detach().flatten()
        n, other = len(flat), right.get(path)
        if n <= most + 4:
            return x
        places = {*range(0, n, n // (most - most // 2))}
        if other is not None and other.shape == x.shape:
            wrong = (flat != other.flatten()).nonzero()[:, 0].tolist()
            k = most // 4
            places |= {*wrong[:k], *wrong[-k:]}
        at = sorted(places)
        return cls([path, dtype_name(x), [*x.shape]], at, flat[at])


def _elements(x: Tensor, digits: int | None) -> str | list[Any]:
    if x.is_complex():
        raise CannotStore("a page cannot store complex numbers")
    flat = x.flatten().tolist()
    if x.dtype == torch.bool:
        return "".join("01"[y] for y in flat)
    if not x.is_floating_point():
        return flat
    if x.dtype == torch.float64:
        return [_number(y, digits) for y in flat]
    return [_number(_shortest(y, x.dtype), digits) for y in flat]


def _shortest(x: float, dtype: torch.dtype) -> float:
    """Return the shortest number that is rounded to this one."""
    if dtype == torch.bfloat16:  # of which NumPy has none
        for digits in range(1, 9):
            short = float(f"{x:.{digits}g}")
            if torch.tensor(short, dtype=dtype).item() == x:
                return short
        return x
    return float(
        str(np.float16(x) if dtype == torch.float16 else np.float32(x))
    )


def _number(x: float, digits: int | None) -> Any:
    """Return a number, a text where JSON has none, an int where it is one."""
    if not np.isfinite(x):
        return str(float(x))
    x = float(f"{x:.{digits}g}") if digits else x
    return (
        int(x)
        if x == int(x) and abs(x) < 1e9 and (x or str(x) == "0.0")
        else x
    )


def equal(a: Any, b: Any) -> bool:
    """Return whether two files are the same but for a CPU's rounding.

    It decides on which elements of a mistake's results are stored, too, and
    so these are left out.
    """
    return bool(a and b) and _close(_comparable(a), _comparable(b))


def _comparable(data: dict[str, Any]) -> dict[str, Any]:
    def resolved(x: Any) -> Any:
        if isinstance(x, list):
            return [*map(resolved, x)]
        if not isinstance(x, dict):
            return x
        if x.keys() == {"tensor"}:
            return data["tensors"][x["tensor"]]
        return {k: resolved(y) for k, y in x.items()}

    rounded = ("cases", "outcomes", "predicted", "tensors")
    rest = {k: x for k, x in data.items() if k not in rounded}
    known = data["mistakes"] + data["predicted"]
    rest["mistakes"] = [[x["name"], x["why"]] for x in known]
    rows = [[x["case"], x["right"]] for x in data["cases"]]
    return {**rest, "states": resolved(data["states"]), "rows": resolved(rows)}


def _close(a: Any, b: Any) -> bool:
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_close, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_close(a[k], b[k]) for k in a)
    number = int | float
    if isinstance(a, number) and isinstance(b, number):
        return abs(a - b) <= 1e-5 + 1e-4 * max(abs(a), abs(b))
    return type(a) is type(b) and a == b
