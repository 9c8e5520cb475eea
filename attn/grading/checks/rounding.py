"""Decide how far a right result may be off: by rounding, and no more."""

import math

import torch
from torch import Tensor


def forgiven_error(
    expected: Tensor,
    exact: Tensor,
    perturbed: Tensor | None,
    rtol: float,
    noise: float,
) -> float:
    """Return the error that is forgiven: several times the reference's own.

    Args:
        expected: the reference's result in the case's dtype.
        exact: the same in float64.
        perturbed: the same in float64, of inputs moved by float32's rounding.
        rtol: of a result drawn at random, relative to its largest element.
        noise: what rounding may leave where the right result is 0.
    """
    if perturbed is not None:
        finite = exact.isfinite() & perturbed.isfinite()
        moved = max_abs((perturbed.double() - exact)[finite])
        noise = max(noise, min(8.0 * moved, 1e-3 * max_abs(exact)))
    eps = epsilon(expected.dtype)
    ulps = 2.0 if expected.dtype in (torch.float16, torch.bfloat16) else 64.0
    own = (expected.double() - exact)[exact.isfinite()].abs()
    limit = 4.0 * own.max().item() if own.numel() else 0.0
    limit += (rtol + ulps * eps) * max_abs(exact)
    # Where the right result is 0 throughout, rounding noise is no mistake.
    return limit + max(4.0 * min(eps, epsilon(torch.float32)), noise)


def close(got: Tensor, expected: Tensor, rtol: float) -> bool:
    """Return whether two tensors differ by ``rtol`` of the largest element.

    Infinities must be in the same places.
    """
    finite = expected.isfinite()
    if not torch.equal(finite, got.isfinite()):
        return False
    if not finite.any():
        return True
    largest = expected[finite].abs().max()
    return bool(((got - expected)[finite].abs() <= rtol * largest).all())


def max_abs(x: Tensor) -> float:
    """Return the largest finite element, in absolute value."""
    if not x.numel():
        return 0.0
    largest = x.abs().max().item()
    if math.isfinite(largest):
        return largest
    finite = x[x.isfinite()]
    return finite.abs().max().item() if finite.numel() else 0.0


def epsilon(dtype: torch.dtype) -> float:
    """Return the distance from 1 to the next larger number of a dtype."""
    return torch.finfo(dtype).eps
