"""Check the kernels against a float64 reference, on the GPU at hand.

A result may be at most twice as far from float64 as the readable reference
is in the same dtype, plus a few roundings. The distance is that of the worst
row, so that one wrong row among thousands is not averaged away. Memory that
nothing has written holds NaN, and every call runs twice: an element that is
never written and a race both show.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

import attn

__all__ = ["Check", "check", "checks", "distance", "few_roundings"]

HALVES = ("bfloat16", "float16")


class Check(NamedTuple):
    """One call of one kernel."""

    kernel: str  # "attention" (forward and backward), "decode" or "varlen"
    variant: str
    dtype: str
    D: int
    Dv: int
    B: int = 2
    H: int = 4
    Hkv: int = 2
    L: int = 300
    S: int = 333

    def __str__(self) -> str:
        size = f"D {self.D}" + f", Dv {self.Dv}" * (self.Dv != self.D)
        length = f"{self.L} x {self.S}"
        return f"{self.kernel}, {self.variant}, {self.dtype}, {size}, {length}"


VARIANTS = (
    "plain",
    "causal",
    "causal, last",
    "offset by row",
    "window",
    "softcap",
    "sinks",
    "bool mask",
    "additive mask",
    "padding",
    "all",
)
#: The rows of ``attn.kernels.configs``, then what is padded to them.
HEADS = ((128, 128), (64, 64), (256, 256), (32, 32), (16, 16), (80, 72))


def checks(dry: bool = False) -> list[Check]:
    """List the checks, the most important first.

    Args:
        dry: every kernel and variant once, as small as can be.
    """
    dtypes = (*HALVES, "float32")
    serving = [(kernel, v) for kernel in ("decode", "varlen") for v in
               ("causal", "all")]  # fmt: skip
    if dry:
        calls = [*(("attention", v) for v in VARIANTS), *serving]
        return [
            Check(*call, dtypes[i % 3], 16, 8, 1, 2, 1, 18, 35)
            for i, call in enumerate(calls)
        ]
    found = [
        Check(kernel, "causal", dtype, *head)
        for head in HEADS
        for dtype in dtypes
        for kernel in ("attention", "decode", "varlen")
    ]
    long = {"B": 1, "H": 2, "Hkv": 1, "L": 4096, "S": 4096}
    found += [
        Check("attention", "causal", dtype, *head, **long)
        for head in HEADS[:3]
        for dtype in dtypes
    ]
    found += [
        Check(*call, dtype, *head)
        for head in HEADS[:2]
        for dtype in ("bfloat16", "float32")
        for call in (*(("attention", v) for v in VARIANTS), *serving)
        if call[1] != "causal"
    ]
    return found


def check(one: Check) -> dict[str, Any]:
    """Run a check.

    Returns:
        The check's fields, ``errors`` (by result: ``[error, limit]``),
        ``repeatable`` and ``right``.
    """
    ours, again, rival, exact = _RUNS[one.kernel](one)
    errors = {
        name: [
            distance(ours[name], exact[name]),
            2 * distance(rival[name], exact[name])
            # What a gradient is made of is rounded three times.
            + few_roundings(ours[name].dtype) * (1 + 2 * (name[:2] == "d_")),
        ]
        for name in exact
    }
    repeatable = all(torch.equal(ours[n], again[n]) for n in ours)
    right = repeatable and all(e <= limit for e, limit in errors.values())
    return {
        **one._asdict(),
        "errors": errors,
        "repeatable": repeatable,
        "right": right,
    }


def distance(x: Tensor, exact: Tensor) -> float:
    """Compute the worst row's error, relative to its length or a typical one.

    Args:
        x: ``(..., D)``, any float dtype.
        exact: the same in float64; infinities must be at the same places.

    Returns:
        0 or more; infinite where a number is missing.
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
    """Return what the order of a kernel's steps may cost."""
    several = 64 if dtype == torch.float32 else 4
    return several * torch.finfo(dtype).eps


# --- one call each: ours, ours again, the reference in this dtype, float64 ---

Results = dict[str, Tensor]
Runs = tuple[Results, Results, Results, Results]


def _attention(one: Check) -> Runs:
    from attn.kernels import fused_attention

    inputs = _qkv(one)
    options = _options(one)
    sinks = options.pop("sinks", None)
    if sinks is not None:
        inputs["sinks"] = sinks
    B, H, L, Dv = one.B, one.H, one.L, one.Dv
    cotangents = [
        _draw(one, 10, *shape) for shape in ((B, H, L, Dv), (B, H, L))
    ]

    def run(function: Callable[..., Any], dtype: torch.dtype) -> Results:
        leaves = {
            n: x.detach().to(dtype).requires_grad_() for n, x in inputs.items()
        }
        own = dict(options)
        mask = own.get("attn_mask")
        if isinstance(mask, Tensor) and mask.is_floating_point():
            own["attn_mask"] = mask.to(dtype)
        out, lse = function(**leaves, enable_gqa=True, return_lse=True, **own)
        finite = lse.masked_fill(lse == -torch.inf, 0.0)
        found = torch.autograd.grad(
            (out, finite),
            tuple(leaves.values()),
            tuple(
                g.to(x.dtype)
                for g, x in zip(cotangents, (out, lse), strict=True)
            ),
        )
        grads = {f"d_{n}": g for n, g in zip(leaves, found, strict=True)}
        if "d_sinks" in grads:
            grads["d_sinks"] = grads["d_sinks"][:, None]
        return {"out": out, "lse": lse[..., None], **grads}

    return _four(run, fused_attention, one)


def _decode(one: Check) -> Runs:
    from attn.kernels import decode_attention

    B, S = one.B, one.S
    L = 1 if one.variant == "causal" else 3
    inputs = _qkv(one._replace(L=L))
    sinks = _draw(one, 7, one.H)
    lengths = torch.tensor([S, max(S // 3, L)] * B, device=_device())[:B]
    near: dict[str, Any] = {}
    if one.variant == "all":
        near = {"window": S // 4, "softcap": 2.0}

    def run(function: Callable[..., Any], dtype: torch.dtype) -> Results:
        q, k, v = (x.to(dtype, copy=True) for x in inputs.values())
        own = dict(near)
        if one.variant == "all":
            own["sinks"] = sinks.to(dtype)
        if function is decode_attention:
            for b, length in enumerate(lengths.tolist()):  # never to be read
                k[b, :, length:] = v[b, :, length:] = float("nan")
            out, lse = function(q, k, v, lengths, return_lse=True, **own)
        else:
            if "window" in own:
                own["window"] = (own["window"], 0)
            rows = [
                function(
                    q[b], k[b, :, :length], v[b, :, :length],
                    is_causal=True, q_offset=length - L,
                    enable_gqa=True, return_lse=True, **own,
                )
                for b, length in enumerate(lengths.tolist())
            ]  # fmt: skip
            out, lse = map(torch.stack, zip(*rows, strict=True))
        return {"out": out, "lse": lse[..., None]}

    return _four(run, decode_attention, one)


def _varlen(one: Check) -> Runs:
    from attn.kernels import varlen_attention

    many, few = one.L, one.L // 3
    q_lengths, k_lengths = [few, 1, many, 0, 5], [one.S, 2, many, 3, 1]
    q = _draw(one, 1, sum(q_lengths), one.H, one.D)
    k = _draw(one, 2, sum(k_lengths), one.Hkv, one.D)
    v = _draw(one, 3, sum(k_lengths), one.Hkv, one.Dv)
    sinks = _draw(one, 7, one.H)
    ends = [
        torch.tensor([0, *n], device=_device()).cumsum(0).to(torch.int32)
        for n in (q_lengths, k_lengths)
    ]
    options: dict[str, Any] = {"is_causal": True}
    if one.variant == "all":
        options |= {"window": (one.S // 4, 0), "softcap": 2.0}

    def run(function: Callable[..., Any], dtype: torch.dtype) -> Results:
        tensors = [x.to(dtype) for x in (q, k, v)]
        own = dict(options)
        if one.variant == "all":
            own["sinks"] = sinks.to(dtype)
        if function is varlen_attention:
            out, lse = function(*tensors, *ends, many, return_lse=True, **own)
        else:
            parts = []
            for i in range(len(q_lengths)):
                mine, theirs = (slice(int(e[i]), int(e[i + 1])) for e in ends)
                places = (mine, theirs, theirs)
                single = (
                    x[place].transpose(0, 1)
                    for x, place in zip(tensors, places, strict=True)
                )
                parts.append(
                    function(
                        *single,
                        q_offset=0,
                        enable_gqa=True,
                        return_lse=True,
                        **own,
                    )  # fmt: skip
                )
            outs, lses = zip(*parts, strict=True)
            out, lse = torch.cat(outs, 1).transpose(0, 1), torch.cat(lses, 1)
        return {"out": out, "lse": lse[..., None]}

    return _four(run, varlen_attention, one)


_RUNS: dict[str, Callable[[Check], Runs]] = {
    "attention": _attention,
    "decode": _decode,
    "varlen": _varlen,
}


def _four(
    run: Callable[[Callable[..., Any], torch.dtype], Results],
    kernel: Callable[..., Any],
    one: Check,
) -> Runs:
    dtype = getattr(torch, one.dtype)
    reference = attn.scaled_dot_product_attention
    with _poison():
        ours, again = run(kernel, dtype), run(kernel, dtype)
    return ours, again, run(reference, dtype), run(reference, torch.float64)


@contextlib.contextmanager
def _poison() -> Iterator[None]:
    """Fill memory that is only allocated with NaN."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)


def _draw(one: Check, seed: int, *shape: int) -> Tensor:
    """Draw on the CPU, the same numbers on every machine, in the dtype."""
    g = torch.Generator().manual_seed(seed)
    numbers = torch.randn(shape, generator=g)
    return numbers.to(_device(), getattr(torch, one.dtype))


def _device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def _qkv(one: Check) -> Results:
    shapes = {
        "query": (one.B, one.H, one.L, one.D),
        "key": (one.B, one.Hkv, one.S, one.D),
        "value": (one.B, one.Hkv, one.S, one.Dv),
    }
    return {
        name: _draw(one, seed, *shape)
        for seed, (name, shape) in enumerate(shapes.items())
    }


def _options(one: Check) -> dict[str, Any]:
    """Return a variant's arguments."""
    B, H, L, S = one.B, one.H, one.L, one.S
    last = {"q_offset": S - L}
    rows = torch.tensor([S - L, 2] * B, device=_device())[:B]
    causal: dict[str, Any] = {"is_causal": True}
    seen = _draw(one, 5, B, S) > -0.5
    return {
        "plain": {},
        "causal": causal,
        "causal, last": causal | last,
        "offset by row": causal | {"q_offset": rows},
        "window": {"window": (S // 4, S // 9), **last},
        "softcap": causal | {"softcap": 1.5},
        "sinks": causal | {"sinks": _draw(one, 7, H)},
        "bool mask": {"attn_mask": _draw(one, 6, B, 1, L, S) > -0.3},
        "additive mask": {"attn_mask": _draw(one, 8, L, S)},
        "padding": {"attn_mask": attn.causal() & attn.padding(seen), **last},
        "all": {
            "attn_mask": _draw(one, 9, L, S) > -0.3,
            "window": (S // 2, 0),
            "softcap": 2.0,
            "sinks": _draw(one, 7, H),
            "scale": 0.3,
            "q_offset": 4,
        },
    }[one.variant]
