"""Say whether a result is right, and what is wrong with it.

A result is judged by its error relative to a float64 run of the reference,
next to the error that the reference itself makes in the case's dtype.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Problem:
    """What is wrong with a result. ``kind`` is one of ``type``, ``shape``,
    ``dtype``, ``nan``, ``value``."""

    kind: str
    text: str


def compare(
    got: Any, honest: Any, truth: Any, what: str = "it", rtol: float = 0.0
) -> Problem | None:
    """Compare a result with the reference's.

    Args:
        got: the learner's result.
        honest: the reference's, in the dtype of the case: it sets type,
            structure, shape and dtype, and an error that is forgivable.
        truth: the reference's in float64.
        what: how the message calls the result.
        rtol: how far a tensor may be off, relative to its largest number,
            when it is drawn at random.

    Returns:
        None when the result is right.
    """
    if isinstance(honest, Mapping):
        return _compare_mapping(got, honest, truth, what)
    if isinstance(honest, tuple | list):
        if not isinstance(got, tuple | list):
            need = f"a {type(honest).__name__} of {len(honest)}"
            return Problem("type", f"{what} is {describe(got)}, not {need}")
        if len(got) != len(honest):
            return Problem(
                "type", f"{what} has {len(got)} entries, not {len(honest)}"
            )
        for i, three in enumerate(zip(got, honest, truth, strict=True)):
            found = compare(*three, what=f"{what}[{i}]", rtol=rtol)
            if found:
                return found
        return None
    if _is_number(honest):
        if not _is_number(got):
            return Problem("type", f"{what} is {describe(got)}, not a number")
        if isinstance(honest, Integral):  # a count is exact
            if bool(got == honest):
                return None
            return Problem("value", f"{what} is {got!r}, not {honest!r}")
        numbers = [
            torch.as_tensor(x, dtype=torch.float64) for x in (got, truth)
        ]
        dtype = got.dtype if isinstance(got, Tensor) else torch.float64
        coarse = torch.float32 if dtype.is_floating_point else torch.float64
        return _compare_values(numbers[0], numbers[1], 0.0, coarse, what)
    if isinstance(honest, Tensor):
        return _compare_tensors(got, honest, truth, what, rtol)
    if got != honest:
        return Problem("value", f"{what} is {got!r}, not {honest!r}")
    return None


def _compare_mapping(
    got: Any, honest: Any, truth: Any, what: str
) -> Problem | None:
    if not isinstance(got, Mapping) or set(got) != set(honest):
        need = "a dict with keys " + ", ".join(map(str, honest))
        return Problem("type", f"{what} is {describe(got)}, not {need}")
    for name in honest:
        found = compare(
            got[name], honest[name], truth[name], f"{what}[{name}]"
        )
        if found:
            return found
    return None


def _compare_tensors(
    got: Any, honest: Tensor, truth: Tensor, what: str, rtol: float
) -> Problem | None:
    if not isinstance(got, Tensor):
        return Problem("type", f"{what} is {describe(got)}, not a tensor")
    if got.shape != honest.shape:
        return Problem(
            "shape",
            f"{what} has shape {tuple(got.shape)}, not {tuple(honest.shape)}",
        )
    if got.dtype != honest.dtype:
        return Problem(
            "dtype", f"{what} has dtype {_short(got)}, not {_short(honest)}"
        )
    if got.device != honest.device:
        return Problem(
            "dtype", f"{what} is on {got.device}, not {honest.device}"
        )
    if not honest.is_floating_point():
        if torch.equal(got, honest):
            return None
        return Problem(
            "value", f"{what} differs{_first(got != honest, got, honest)}"
        )
    finite = truth.isfinite()
    own = (honest.double() - truth.double())[finite].abs()
    forgivable = 0.0
    if own.numel():
        forgivable = 4.0 * own.max().item()
        forgivable += rtol * truth[finite].abs().max().item()
    return _compare_values(
        got.double(), truth.double(), forgivable, honest.dtype, what
    )


def _compare_values(
    got: Tensor,
    truth: Tensor,
    forgivable: float,
    dtype: torch.dtype,
    what: str,
) -> Problem | None:
    if (got.isnan() & ~truth.isnan()).any():
        bad = got.isnan() & ~truth.isnan()
        return Problem("nan", f"{what} has NaN{_first(bad, got, truth)}")
    wrong = ~close(got, truth, forgivable, dtype)
    if not wrong.any():
        return None
    return Problem("value", f"{what} differs{_first(wrong, got, truth)}")


def close(
    got: Tensor, truth: Tensor, forgivable: float, dtype: torch.dtype
) -> Tensor:
    """Element by element: near enough for this dtype, or the same infinity."""
    finite = truth.isfinite()
    size = truth[finite].abs().max().item() if finite.any() else 0.0
    coarse = dtype in (torch.float16, torch.bfloat16)
    ulps = 2.0 if coarse else 64.0
    limit = forgivable + ulps * torch.finfo(dtype).eps * size
    # Where the right result is 0 throughout, rounding noise is no mistake.
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    limit += 4.0 * torch.finfo(wide).eps
    same = (got == truth) | (got.isnan() & truth.isnan())
    return same | (finite & ((got - truth).abs() <= limit))


def alike(a: Any, b: Any) -> bool:
    """Whether two results are the same mistake: loosely equal, NaN and all."""
    if isinstance(a, tuple | list) and isinstance(b, tuple | list):
        return len(a) == len(b) and all(map(alike, a, b))
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return set(a) == set(b) and all(alike(a[k], b[k]) for k in a)
    if _is_number(a) and _is_number(b):
        a, b = torch.as_tensor(float(a)), torch.as_tensor(float(b))
    if not (isinstance(a, Tensor) and isinstance(b, Tensor)):
        return type(a) is type(b) and bool(a == b)
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if not a.is_floating_point():
        return torch.equal(a, b)
    x, y = a.double(), b.double()
    finite = x.isfinite() & y.isfinite()
    odd = ~finite
    if not torch.equal(x[odd].nan_to_num(nan=7.0), y[odd].nan_to_num(nan=7.0)):
        return False
    size = y[finite].abs().max().item() if finite.any() else 0.0
    limit = max(4.0 * torch.finfo(a.dtype).eps, 1e-5) * max(size, 1e-30)
    return bool(((x - y)[finite].abs() <= limit).all())


def describe(x: Any) -> str:
    """A result in a few words: shape, dtype and some numbers."""
    if x is None:
        return "None (was there a return?)"
    if isinstance(x, Tensor):
        if x.dim() == 0:
            return f"{x.item():.4g}"
        return f"{tuple(x.shape)} {_short(x)} {_numbers(x)}"
    if isinstance(x, tuple | list):
        return f"{type(x).__name__} of " + "; ".join(map(describe, x[:4]))
    if isinstance(x, float):
        return f"{x:.4g}"
    text = repr(x)
    return text if len(text) <= 60 else f"a {type(x).__name__}"


def _numbers(x: Tensor, most: int = 6) -> str:
    flat = x.detach().flatten()[:most].tolist()
    shown = [f"{n:.4g}" if isinstance(n, float) else str(n) for n in flat]
    return "[" + ", ".join(shown) + (", …]" if x.numel() > most else "]")


def _first(bad: Tensor, got: Tensor, want: Tensor) -> str:
    """`` at [0, 2]: got 0.5, expected 1``, for the first bad element."""
    if bad.dim() == 0:
        return f": got {got.item():.4g}, expected {want.item():.4g}"
    at = tuple(bad.nonzero()[0].tolist())
    a, b = (_numbers(x[at])[1:-1] for x in (got, want))
    return f" at {list(at)}: got {a}, expected {b}"


def _is_number(x: Any) -> bool:
    if isinstance(x, Tensor):
        return x.dim() == 0 and x.dtype != torch.bool
    return isinstance(x, Real) and not isinstance(x, bool)


def _short(x: Tensor) -> str:
    return str(x.dtype).removeprefix("torch.")
