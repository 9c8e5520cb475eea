"""Compare a result with the reference's, and describe the first difference.

A result is judged by its error relative to a float64 run of the reference,
next to the error that the reference itself makes in the case's dtype.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor

Limit = Callable[[Tensor, Tensor], float]


@dataclass(frozen=True)
class Problem:
    """A difference, in words. ``kind`` is ``type``, ``shape``, ``dtype``,
    ``nan`` or ``value``; a run adds ``error`` and ``side effect``."""

    kind: str
    text: str


def compare(
    got: Any,
    expected: Any,
    expected_fp64: Any,
    what: str = "it",
    rtol: float = 0.0,
) -> Problem | None:
    """Compare a result with the reference's.

    Args:
        got: the learner's result.
        expected: the reference's result in the case's dtype; it sets type,
            structure, shape and dtype, and the error that is forgiven.
        expected_fp64: the reference's result in float64.
        what: the name of the result in the message.
        rtol: tolerance for a randomly drawn tensor, relative to its largest
            element.

    Returns:
        None when the result is right.
    """
    limit = partial(_rounding, rtol=rtol)
    return _compare(got, expected, expected_fp64, what, limit)


def alike(a: Any, b: Any) -> bool:
    """Return whether two results look like the same mistake.

    They are equal up to 1e-5 of the largest element; NaN equals NaN.
    """

    def limit(x: Tensor, _exact: Tensor) -> float:
        return max(4.0 * _eps(x.dtype), 1e-5) * max(_size(x), 1e-30)

    return _compare(a, b, b, "", limit) is None


def _compare(
    got: Any, expected: Any, exact: Any, what: str, limit: Limit
) -> Problem | None:
    found = None
    if isinstance(expected, Mapping | tuple | list):
        found = _compare_structure(got, expected)
        is_dict = isinstance(expected, Mapping)
        parts = expected if is_dict else range(len(expected))
        for i in [] if found else parts:
            three = got[i], expected[i], exact[i]
            if inner := _compare(*three, f"{what}[{i}]", limit):
                return inner
    elif _is_number(expected):
        found = _compare_numbers(got, expected, exact, limit)
    elif isinstance(expected, Tensor):
        found = _compare_tensors(got, expected, exact, limit)
    elif got != expected:
        found = Problem("value", f"is {got!r}, not {expected!r}")
    return found and replace(found, text=f"{what} {found.text}")


def _compare_structure(got: Any, expected: Any) -> Problem | None:
    if isinstance(expected, Mapping):
        fits = isinstance(got, Mapping) and set(got) == set(expected)
        need = "a dict with keys " + ", ".join(map(str, expected))
    else:
        fits = isinstance(got, tuple | list)
        need = f"a {type(expected).__name__} of {len(expected)}"
    if not fits:
        return Problem("type", f"is {describe(got)}, not {need}")
    if len(got) == len(expected):
        return None
    return Problem("type", f"has {len(got)} entries, not {len(expected)}")


def _compare_numbers(
    got: Any, expected: Any, exact: Any, limit: Limit
) -> Problem | None:
    if not _is_number(got):
        return Problem("type", f"is {describe(got)}, not a number")
    if isinstance(expected, Integral):  # a count is exact
        if bool(got == expected):
            return None
        return Problem("value", f"is {got!r}, not {expected!r}")
    is_count = isinstance(got, Tensor) and not got.is_floating_point()
    dtype = torch.float64 if is_count else torch.float32
    x, y = (torch.as_tensor(n, dtype=torch.float64) for n in (got, exact))
    return _compare_elements(x, y, limit(y.to(dtype), y))


def _compare_tensors(
    got: Any, expected: Tensor, exact: Tensor, limit: Limit
) -> Problem | None:
    if not isinstance(got, Tensor):
        return Problem("type", f"is {describe(got)}, not a tensor")
    for kind, verb, of in (
        ("shape", "has shape", lambda x: tuple(x.shape)),
        ("dtype", "has dtype", _dtype),
        ("dtype", "is on", lambda x: x.device),
    ):
        if of(got) != of(expected):
            return Problem(kind, f"{verb} {of(got)}, not {of(expected)}")
    if not expected.is_floating_point():
        return _difference(got != expected, got, expected)
    exact = exact.double()
    return _compare_elements(got.double(), exact, limit(expected, exact))


def _rounding(expected: Tensor, exact: Tensor, rtol: float) -> float:
    """Return the error that is forgiven: several times the reference's."""
    eps = _eps(expected.dtype)
    ulps = 2.0 if expected.dtype in (torch.float16, torch.bfloat16) else 64.0
    own = (expected.double() - exact)[exact.isfinite()].abs()
    limit = 4.0 * own.max().item() if own.numel() else 0.0
    limit += (rtol + ulps * eps) * _size(exact)
    # Where the right result is 0 throughout, rounding noise is no mistake.
    return limit + 4.0 * min(eps, _eps(torch.float32))


def _compare_elements(
    got: Tensor, exact: Tensor, limit: float
) -> Problem | None:
    """Compare within a limit; infinities must be equal."""
    if (bad := got.isnan() & ~exact.isnan()).any():
        return Problem("nan", f"has NaN{_first(bad, got, exact)}")
    same = (got == exact) | (got.isnan() & exact.isnan())
    near = exact.isfinite() & ((got - exact).abs() <= limit)
    return _difference(~(same | near), got, exact)


def _difference(
    wrong: Tensor, got: Tensor, expected: Tensor
) -> Problem | None:
    if not wrong.any():
        return None
    return Problem("value", f"differs{_first(wrong, got, expected)}")


def describe(x: Any) -> str:
    """Describe a result in a few words: shape, dtype and some elements."""
    if x is None:
        return "None (was there a return?)"
    if isinstance(x, Tensor):
        if x.dim() == 0:
            return f"{x.item():.4g}"
        return f"{tuple(x.shape)} {_dtype(x)} {_elements(x)}"
    if isinstance(x, tuple | list):
        return f"{type(x).__name__} of " + "; ".join(map(describe, x[:4]))
    if isinstance(x, float):
        return f"{x:.4g}"
    text = repr(x)
    return text if len(text) <= 60 else f"a {type(x).__name__}"


def _elements(x: Tensor, most: int = 6) -> str:
    flat = x.detach().flatten()[:most].tolist()
    shown = [f"{n:.4g}" if isinstance(n, float) else str(n) for n in flat]
    return "[" + ", ".join(shown) + (", …]" if x.numel() > most else "]")


def _first(bad: Tensor, got: Tensor, expected: Tensor) -> str:
    """Return `` at [0, 2]: got 0.5, expected 1``, the first bad element."""
    if bad.dim() == 0:
        return f": got {got.item():.4g}, expected {expected.item():.4g}"
    at = tuple(bad.nonzero()[0].tolist())
    a, b = (_elements(x[at])[1:-1] for x in (got, expected))
    return f" at {list(at)}: got {a}, expected {b}"


def _is_number(x: Any) -> bool:
    if isinstance(x, Tensor):
        return x.dim() == 0 and x.dtype != torch.bool
    return isinstance(x, Real) and not isinstance(x, bool)


def _size(x: Tensor) -> float:
    """Return the largest finite element, in absolute value."""
    finite = x[x.isfinite()]
    return finite.abs().max().item() if finite.numel() else 0.0


def _eps(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).eps


def _dtype(x: Tensor) -> str:
    return str(x.dtype).removeprefix("torch.")
