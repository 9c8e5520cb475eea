"""Recognise a result that is off by a factor, or by half precision."""

from __future__ import annotations

import math
from typing import Any

from attn.grading.checks.evidence import Evidence, Failure
from attn.grading.checks.inputs import named_tensors
from attn.grading.checks.rounding import close
from attn.grading.checks.show import dtype_name
from attn.grading.diagnosis.axes import Axes
from attn.grading.diagnosis.kinds import Test, Words
from attn.grading.diagnosis.numbers import nearly_right


def factor(evidence: Evidence, failure: Failure) -> list[Words] | None:
    """Everything is a constant times the right result."""
    if _count_wrong(evidence) < 4:
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
        if not close(got.double(), expected * ratio, 1e-4):
            return None
        ratios.append(ratio)
    if not ratios or max(ratios) - min(ratios) > 1e-4 * abs(ratios[0]):
        return None
    return [{"factor": x} for x in _in_words(ratios[0], evidence, failure)]


def _count_wrong(evidence: Evidence) -> int:
    values = [x for f in evidence.failures for x in f.values]
    return sum(int(wrong.sum()) for _, _, wrong in values)


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
    inputs = evidence.inputs(failure.index)
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


KINDS: tuple[Test, ...] = (factor, half_precision)
