"""Recognise wrong numbers by how they relate to the right ones."""

from __future__ import annotations

import math
from itertools import permutations
from typing import Any

import torch
from torch import Tensor

from attn.grading.checks.compare import alike, close
from attn.grading.checks.evidence import ENOUGH, Evidence, Failure
from attn.grading.checks.inputs import named_tensors, unchanged
from attn.grading.checks.problem import RESULT
from attn.grading.checks.show import dtype_name
from attn.grading.diagnosis.axes import Axes
from attn.grading.diagnosis.kinds import Test, Words


def complement(evidence: Evidence, failure: Failure) -> Words | None:
    """True and False are exchanged."""
    values = failure.values
    if not values or any(got.dtype != torch.bool for got, _, _ in values):
        return None
    return {} if all(wrong.all() for _, _, wrong in values) else None


def nan_for_empty(evidence: Evidence, failure: Failure) -> Words | None:
    """NaN, and only in rows of which all is right to be 0, or the lse -inf."""
    values = failure.values
    if failure.problem.part.kind == "gradient":
        return None
    for got, expected, _ in values:
        if expected.dim() < 1 or not got.is_floating_point():
            return None
        empty = (expected == 0).all(-1, keepdim=True).expand_as(got)
        empty = empty | (expected == -math.inf)
        wrong = got.isnan() & ~expected.isnan()
        if not wrong.any() or (wrong & ~empty).any():
            return None
        if not close(got[~wrong], expected[~wrong], 0.02):
            return None
    return {} if values and _has_empty_row(failure) else None


def uniform_for_empty(evidence: Evidence, failure: Failure) -> Words | None:
    """Equal weights in rows in which the right weights are all 0."""
    values = failure.values
    for got, expected, wrong in values:
        if got.dim() < 1 or got.dtype == torch.bool:
            return None
        empty = (expected == 0).all(-1, keepdim=True).expand_as(got)
        even = torch.full_like(got, 1 / got.shape[-1])
        if not wrong.any() or (wrong & ~empty).any():
            return None
        if not close(got[wrong], even[wrong], 0.01):
            return None
    return {} if values and _has_empty_row(failure) else None


def _has_empty_row(failure: Failure) -> bool:
    """Return whether a mask hides every key, or scores are -inf throughout."""
    inputs = [failure.case.args, dict(failure.case.kwargs)]
    return any(
        bool((~x if x.dtype == torch.bool else x == -math.inf).all(-1).any())
        for _, x in named_tensors(inputs)
        if x.dim() and (x.dtype == torch.bool or x.is_floating_point())
    )


def large_negative(evidence: Evidence, failure: Failure) -> Words | None:
    """A large negative number where -inf is right."""
    values = failure.values
    for got, expected, wrong in values:
        if not got.is_floating_point():
            return None
        if not (expected[wrong] == -math.inf).all():
            return None
        low = got[wrong]
        if not low.isfinite().all() or (low > -1e4).any():
            return None
    return {} if values else None


def all_zero(evidence: Evidence, failure: Failure) -> Words | None:
    """The result is 0 throughout."""
    values = failure.values
    if not values or any(
        x[0].any() or x[0].dtype == torch.bool for x in values
    ):
        return None
    if failure.problem.part.kind == "gradient":
        return None
    right = (evidence.outcomes[i].output for i in evidence.passing)
    filled = any(x.any() for out in right for _, x in named_tensors(out))
    return None if filled else {}


def comes_back(evidence: Evidence, failure: Failure) -> Words | None:
    """The result is an input."""
    got, problem = failure.outcome.output, failure.problem
    if problem.kind in ("error", "side effect") or problem.part != RESULT:
        return None
    if not isinstance(got, Tensor) or got.numel() < 2:
        return None
    for name, x in evidence.inputs(failure.index).items():
        if (
            isinstance(x, Tensor)
            and x.dtype == got.dtype
            and unchanged(x.detach(), got)
        ):
            return {"input": name}
    return None


def flipped(evidence: Evidence, failure: Failure) -> Words | None:
    """The result is in reverse order along an axis."""
    common: set[int] | None = None
    for got, expected, _ in failure.values:
        if got.dtype == torch.bool or got.dim() < 1:
            return None
        if nearly_right(got, expected):
            return None
        axes = {
            axis
            for axis in range(-got.dim(), 0)
            if alike(got, expected.flip(axis).to(got.dtype))
        }
        common = axes if common is None else common & axes
    return {"axis": str(max(common))} if common else None


def nearly_right(got: Tensor, expected: Tensor) -> bool:
    """Return whether only rounding is wrong, which no move explains."""
    return close(got.double(), expected.double(), 1e-3)


def heads_reordered(evidence: Evidence, failure: Failure) -> Words | None:
    """The right rows in another order, along one axis.

    A few integers are in another order by chance.
    """
    for got, expected, _ in failure.values:
        if not got.is_floating_point() or got.dim() < 2 or got.numel() > 5000:
            return None
        if nearly_right(got, expected):
            return None
        for axis in range(-got.dim(), 0):
            n = got.shape[axis]
            if 2 <= n <= 4:
                for order in permutations(range(n)):
                    moved = expected.index_select(axis, torch.tensor(order))
                    if alike(got, moved.to(got.dtype)):
                        return {"axis": str(axis)}
    return None


def factor(evidence: Evidence, failure: Failure) -> list[Words] | None:
    """Everything is a constant times the right result."""
    if evidence.telling < ENOUGH:
        return None
    ratios: list[float] = []
    for got, expected, _ in failure.values:
        if not got.is_floating_point() or failure.problem.kind == "nan":
            return None
        if nearly_right(got, expected):
            return None
        finite = expected.isfinite() & (expected != 0)
        if not finite.any():
            return None
        a, b = got.double()[finite], expected.double()[finite]
        ratio = (a @ b / (b @ b)).item()
        if not math.isfinite(ratio):
            return None
        if not close(got.double(), expected * ratio, 1e-4):
            return None
        ratios.append(ratio)
    if not ratios or max(ratios) - min(ratios) > 1e-4 * abs(ratios[0]):
        return None
    return [{"factor": x} for x in _in_words(ratios[0], evidence, failure)]


_LOGARITHMS = {"ln 2": math.log(2), "ln 10": math.log(10)}


def _in_words(ratio: float, evidence: Evidence, failure: Failure) -> list[str]:
    """Return the words for a factor: a number, and what it is in sizes."""
    digits = f"{ratio:.4g}"
    for name, n in _LOGARITHMS.items():
        if abs(ratio - n) < 1e-4:
            digits += f" = {name}"
        if abs(ratio * n - 1) < 1e-4:
            digits += f" = 1 / {name}"
    words = [digits] if ratio else []
    inputs = evidence.with_defaults(failure.index)
    sizes: dict[str, float] = dict(Axes(evidence.exercise).sizes(inputs))
    for name, x in inputs.items():
        if isinstance(x, int | float) and not isinstance(x, bool):
            sizes[name] = float(x)
    for name, n in sizes.items():
        formulas = _formulas(name, n)
        words += [x for x, y in formulas.items() if abs(ratio - y) < 1e-4 * y]
        words += [x for x, y in formulas.items() if ratio == y == 0]
    return words


def _formulas(name: str, n: float) -> dict[str, float]:
    """Return factors that a size, or the rate p of a dropout, can give."""
    if n <= 0 or (n == 1 and name != "p"):
        return {}
    if name == "p":
        kept = {"1 - p": 1 - n}
        return kept | {"1 / (1 - p)": 1 / (1 - n)} if n != 1 else kept
    return {
        name: n,
        f"1 / {name}": 1 / n,
        f"√{name}": n**0.5,
        f"1 / √{name}": n**-0.5,
        f"({name} - 1) / {name}": (n - 1) / n,
        f"{name} / ({name} - 1)": n / (n - 1),
    }


def half_precision(evidence: Evidence, failure: Failure) -> Words | None:
    """Right in float32, and off by the rounding of half precision here."""
    if not any(_dtypes(evidence, i) <= _FULL for i in evidence.passing):
        return None
    if any(_dtypes(evidence, i) <= _FULL for i in evidence.failing):
        return None
    for got, expected, _ in failure.values:
        if not got.is_floating_point() or not close(
            got.double(), expected.double(), 0.1
        ):
            return None
    if failure.problem.wrong is None:
        return None
    names = sorted(_dtypes(evidence, failure.index) - _FULL)
    return {"dtype": " and ".join(names)}


_FULL = {"float32", "float64"}


def _dtypes(evidence: Evidence, i: int) -> set[str]:
    inputs: Any = [*evidence.inputs(i).values(), evidence.case(i).state or {}]
    return {
        dtype_name(x)
        for _, x in named_tensors(inputs)
        if x.is_floating_point()
    }


KINDS: tuple[Test, ...] = (
    complement,
    nan_for_empty,
    uniform_for_empty,
    large_negative,
    all_zero,
    comes_back,
    flipped,
    heads_reordered,
    factor,
    half_precision,
)
