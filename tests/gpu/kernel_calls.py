"""Call a kernel, and the reference in the same dtype and in float64.

The kernel runs twice, and allocated memory is filled with NaN first. Both an
element that is never written and a race become visible.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from attn import api, functional, masks
from attn.linear import linear_attention

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


class Check(NamedTuple):
    """One call of one kernel, in the book's alphabet of sizes."""

    kernel: str  # "attention" (also backward), "decode", …
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


Results = dict[str, Tensor]


class Runs(NamedTuple):
    """Results of one call by name; a row is the last axis."""

    ours: Results
    again: Results
    reference: Results  # in the dtype of the check
    exact: Results  # in float64, from the same rounded inputs


def run(check: Check) -> Runs:
    """Run the calls of a check."""
    return _CALLS.get(check.kernel, _attention)(check)


def _attention(check: Check) -> Runs:
    from attn.kernels import fused_attention

    kernel: Callable[..., Any] = fused_attention
    if check.kernel != "attention":
        kernel = functools.partial(api.attention, impl=check.kernel)
    inputs = _qkv(check)
    options = _options(check)
    sinks = options.pop("sinks", None)
    if sinks is not None:
        inputs["sinks"] = sinks
    shape = check.B, check.H, check.L
    cotangents = [_draw(check, 10, *shape, *x) for x in ((check.Dv,), ())]

    def call(function: Callable[..., Any], dtype: torch.dtype) -> Results:
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

    return _runs(call, kernel, check)


def _decode(check: Check) -> Runs:
    from attn.kernels import decode_attention

    B, S = check.B, check.S
    L = 1 if check.variant == "causal" else 3
    inputs = _qkv(check._replace(L=L))
    sinks = _draw(check, 7, check.H)
    lengths = torch.tensor([S, max(S // 3, L)] * B, device=_device())[:B]
    near: dict[str, Any] = {}
    if check.variant == "all":
        near = {"window": S // 4, "softcap": 2.0}

    def call(function: Callable[..., Any], dtype: torch.dtype) -> Results:
        q, k, v = (x.to(dtype, copy=True) for x in inputs.values())
        own = dict(near)
        if check.variant == "all":
            own["sinks"] = sinks.to(dtype)
        if function is decode_attention:
            for b, length in enumerate(lengths.tolist()):  # must not be read
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

    return _runs(call, decode_attention, check)


def _varlen(check: Check) -> Runs:
    from attn.kernels import varlen_attention

    many, few = check.L, check.L // 3
    q_lengths, k_lengths = [few, 1, many, 0, 5], [check.S, 2, many, 3, 1]
    q = _draw(check, 1, sum(q_lengths), check.H, check.D)
    k = _draw(check, 2, sum(k_lengths), check.Hkv, check.D)
    v = _draw(check, 3, sum(k_lengths), check.Hkv, check.Dv)
    sinks = _draw(check, 7, check.H)
    ends = [
        torch.tensor([0, *n], device=_device()).cumsum(0).to(torch.int32)
        for n in (q_lengths, k_lengths)
    ]
    options: dict[str, Any] = {"is_causal": True}
    if check.variant == "all":
        options |= {"window": (check.S // 4, 0), "softcap": 2.0}

    def call(function: Callable[..., Any], dtype: torch.dtype) -> Results:
        tensors = [x.detach().to(dtype).requires_grad_() for x in (q, k, v)]
        own = dict(options)
        if check.variant == "all":
            own["sinks"] = sinks.to(dtype)
        if function is varlen_attention:
            out, lse = function(*tensors, *ends, many, return_lse=True, **own)
        else:
            own |= {"q_offset": 0, "enable_gqa": True, "return_lse": True}
            lengths = q_lengths, k_lengths, k_lengths
            pairs = zip(tensors, lengths, strict=True)
            single = (x.transpose(0, 1).split(n, 1) for x, n in pairs)
            parts = (function(*x, **own) for x in zip(*single, strict=True))
            outs, lses = zip(*parts, strict=True)
            out, lse = torch.cat(outs, 1).transpose(0, 1), torch.cat(lses, 1)
        seed = _draw(check, 10, *out.shape).to(out.dtype)
        found = torch.autograd.grad(out, tensors, seed)
        grads = zip(("d_query", "d_key", "d_value"), found, strict=True)
        return {"out": out, "lse": lse[..., None], **dict(grads)}

    return _runs(call, varlen_attention, check)


def _linear(check: Check) -> Runs:
    from attn.kernels import linear_attention_chunks

    B, H, L, D, Dv = check.B, check.H, check.L, check.D, check.Dv
    tokens = [_draw(check, seed, B, check.Hkv, L, D) for seed in (1, 2)]
    tokens.append(_draw(check, 3, B, H, L, Dv))
    g = -F.softplus(_draw(check, 4, B, H, L).float())
    start = _draw(check, 5, B, H, D, Dv)

    def call(function: Callable[..., Any], dtype: torch.dtype) -> Results:
        wide = torch.promote_types(dtype, torch.float32)
        out, state = function(
            *(x.to(dtype) for x in tokens),
            g.to(wide),
            initial_state=start.to(wide),
        )
        # The kernel multiplies in the dtype of the check.
        return {"out": out, "state": state.to(dtype)}

    definition = functools.partial(linear_attention, output_final_state=True)
    return _runs(call, linear_attention_chunks, check, definition)


_CALLS: dict[str, Callable[[Check], Runs]] = {
    "attention": _attention,
    "decode": _decode,
    "varlen": _varlen,
    "linear": _linear,
}


def _runs(
    call: Callable[[Callable[..., Any], torch.dtype], Results],
    kernel: Callable[..., Any],
    check: Check,
    reference: Callable[..., Any] = functional.scaled_dot_product_attention,
) -> Runs:
    dtype = getattr(torch, check.dtype)
    with _filled_with_nan():
        ours, again = call(kernel, dtype), call(kernel, dtype)
    same, exact = call(reference, dtype), call(reference, torch.float64)
    return Runs(ours, again, same, exact)


@contextlib.contextmanager
def _filled_with_nan() -> Iterator[None]:
    """Fill newly allocated memory with NaN."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)


def _draw(check: Check, seed: int, *shape: int) -> Tensor:
    """Draw on the CPU, so that every machine gets the same numbers."""
    g = torch.Generator().manual_seed(seed)
    numbers = torch.randn(shape, generator=g)
    return numbers.to(_device(), getattr(torch, check.dtype))


def _device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def _qkv(check: Check) -> Results:
    shapes = {
        "query": (check.B, check.H, check.L, check.D),
        "key": (check.B, check.Hkv, check.S, check.D),
        "value": (check.B, check.Hkv, check.S, check.Dv),
    }
    return {
        name: _draw(check, seed, *shape)
        for seed, (name, shape) in enumerate(shapes.items())
    }


def _options(check: Check) -> dict[str, Any]:
    """Return a variant's arguments."""
    B, H, L, S = check.B, check.H, check.L, check.S
    last = {"q_offset": S - L}
    rows = torch.tensor([S - L, 2] * B, device=_device())[:B]
    causal: dict[str, Any] = {"is_causal": True}
    seen = _draw(check, 5, B, S) > -0.5
    return {
        "plain": {},
        "causal": causal,
        "causal, last": causal | last,
        "offset by row": causal | {"q_offset": rows},
        "window": {"window": (S // 4, S // 9), **last},
        "softcap": causal | {"softcap": 1.5},
        "sinks": causal | {"sinks": _draw(check, 7, H)},
        "bool mask": {"attn_mask": _draw(check, 6, B, 1, L, S) > -0.3},
        "additive mask": {"attn_mask": _draw(check, 8, L, S)},
        "padding": {"attn_mask": masks.causal() & masks.padding(seen), **last},
        "all": {
            "attn_mask": _draw(check, 9, L, S) > -0.3,
            "window": (S // 2, 0),
            "softcap": 2.0,
            "sinks": _draw(check, 7, H),
            "scale": 0.3,
            "q_offset": 4,
        },
    }[check.variant]
