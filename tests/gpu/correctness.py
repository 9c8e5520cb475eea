"""Check the kernels against a float64 reference, on this machine's GPU.

A result may be at most twice as far from float64 as the readable reference in
the same dtype, plus a few roundings. The distance is that of the worst row,
so that one wrong row among thousands is not averaged away.
"""

import math
from itertools import product
from typing import Any

import torch
from torch import Tensor

from attn.kernels import configs
from tests.gpu.kernel_calls import VARIANTS, Check, run

#: By their names in the registry; no configuration selects them.
FORWARD_VARIANTS = tuple(f"triton_{x}" for x in configs.VARIANTS[1:])
#: ``(D, Dv)``: rows of ``attn.kernels.configs``, then sizes padded to them.
HEADS = ((128, 128), (64, 64), (256, 256), (32, 32), (16, 16), (80, 72))


def checks(dry: bool = False) -> list[Check]:
    """List the checks, the most important first.

    Args:
        dry: every kernel and variant once, at the smallest sizes.
    """
    dtypes = ("bfloat16", "float16", "float32")
    calls = [("attention", v) for v in VARIANTS]
    calls += product(("decode", "varlen"), ("causal", "all"))
    if dry:
        calls += [(kernel, "all") for kernel in FORWARD_VARIANTS]
        calls += [("linear", "causal")]
        return [
            Check(*call, dtypes[i % 3], 16, 8, 1, 2, 1, 18, 35)
            for i, call in enumerate(calls)
        ]
    kernels = ("attention", "decode", "varlen", "linear")
    found = [
        Check(kernel, "causal", dtype, *head)
        for head, dtype, kernel in product(HEADS, dtypes, kernels)
    ]
    found += [
        Check(kernel, "causal", "bfloat16", *head)
        for head, kernel in product(HEADS[:3], FORWARD_VARIANTS)
    ]
    long = {"B": 1, "H": 2, "Hkv": 1, "L": 4096, "S": 4096}
    found += [
        Check("attention", "causal", dtype, *head, **long)
        for head, dtype in product(HEADS[:3], dtypes)
    ]
    return found + [
        Check(*call, dtype, *head)
        for head, dtype in product(HEADS[:2], dtypes[::2])
        for call in calls
        if call[1] != "causal"
    ]


def check(check: Check) -> dict[str, Any]:
    """Run a check.

    Returns:
        The check's fields, ``errors`` (by result: ``[error, limit]``),
        ``repeatable`` and ``right``.
    """
    ours, again, reference, exact = run(check)
    errors = {
        name: [
            distance(ours[name], exact[name]),
            2 * distance(reference[name], exact[name])
            # A gradient is computed from values rounded three times.
            + few_roundings(ours[name].dtype) * (1 + 2 * (name[:2] == "d_")),
        ]
        for name in exact
    }
    repeatable = all(torch.equal(ours[n], again[n]) for n in ours)
    right = repeatable and all(
        error <= limit < math.inf for error, limit in errors.values()
    )
    return {
        **check._asdict(),
        "errors": {n: [min(x, 1e9) for x in e] for n, e in errors.items()},
        "repeatable": repeatable,
        "right": right,
    }


def distance(x: Tensor, exact: Tensor) -> float:
    """Compute the worst row's error, relative to its length or a typical one.

    Args:
        x: ``(..., D)``, any float dtype.
        exact: the expected values in float64, with the same infinities.

    Returns:
        0 or more; infinity if an element is NaN or wrongly infinite.
    """
    x, exact = x.detach().double(), exact.detach().double()
    finite = exact.isfinite()
    if not torch.equal(x[~finite], exact[~finite]):
        return float("inf")
    x, exact = (t.where(finite, 0.0) for t in (x, exact))
    error, size = ((t * t).sum(-1) for t in (x - exact, exact))
    if not error.numel():
        return 0.0
    if not error.isfinite().all():
        return float("inf")
    size = size.clamp(min=max(float(size.mean()), 1e-30))
    return float((error / size).max()) ** 0.5


def few_roundings(dtype: torch.dtype) -> float:
    """Return the error that another order of operations may cause."""
    several = 64 if dtype == torch.float32 else 4
    return several * torch.finfo(dtype).eps
