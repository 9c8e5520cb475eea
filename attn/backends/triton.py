"""The book's own Triton kernels as implementations, where they can run.

On a GPU they are exact, and nobody has measured there yet how fast they are:
what torch cannot be told goes to them, and the rest after ``warmup`` has
compared. In the interpreter they are for tests, and never taken.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from attn.backends.registry import ONE_GRAPH
from attn.backends.sdpa import hides_nothing
from attn.functional.inputs import Call

__all__ = [
    "on_gpu",
    "run_decode",
    "run_fused",
    "slower_decode",
    "slower_fused",
    "why_not_decode",
    "why_not_fused",
]


def on_gpu(call: Call) -> bool:
    """Whether to measure the kernels tells anything."""
    return call.query.is_cuda


def why_not_fused(call: Call) -> list[str]:
    """Why the kernels cannot take a call."""
    try:
        from attn.kernels import why_not
    except ImportError as error:
        return [
            f"{error.name or 'triton'} is not installed: pip install triton"
        ]
    return why_not(call)


def slower_fused(call: Call) -> str | None:
    """Who waits for the interpreter?"""
    return None if on_gpu(call) else "the interpreter is for tests"


def run_fused(call: Call, return_lse: bool = False) -> Any:
    """FlashAttention: prompts, training."""
    from attn.kernels import fused_call

    return fused_call(call, return_lse)


# --- decoding: the newest tokens over a cache --------------------------------


def why_not_decode(call: Call) -> list[str]:
    """Why the split-KV kernels cannot take a call."""
    if torch.compiler.is_compiling():
        return [ONE_GRAPH]
    lacks = why_not_fused(call)
    if lacks:
        return lacks
    from attn.kernels.serving import MOST_ROWS

    rows = call.group_size * call.q_len
    if rows > MOST_ROWS:
        lacks.append(f"a group has {rows} queries: it takes {MOST_ROWS}")
    if call.attn_mask is not None:
        lacks.append("attn_mask is a tensor: it needs rules alone")
    if _seen(call) is None:
        lacks.append(
            f"{call.mask} at q_offset {call.q_offset} is not what the last "
            "tokens see: it needs causal rules, a window at most, and "
            f"q_offset={call.kv_len - call.q_len} or less"
        )
    if call.wants_gradient:
        lacks.append("a tensor requires a gradient: it gives none")
    return lacks


def slower_decode(call: Call) -> str:
    """Why it has to be compared first."""
    if not on_gpu(call):
        return "the interpreter is for tests"
    return "nobody measured it here: attn.api.warmup(...) does, and compares"


def run_decode(call: Call, return_lse: bool = False) -> Any:
    """Split-KV: the keys of a row are shared out, and merged again."""
    from attn.kernels import decode_attention

    seen = _seen(call)
    assert seen is not None
    query, key, value = map(call.four_axes, (call.query, call.key, call.value))
    out, lse = decode_attention(
        query,
        key[:, :, : seen.keys],
        value[:, :, : seen.keys],
        is_causal=seen.is_causal,
        scale=call.scale,
        softcap=call.softcap,
        sinks=call.sinks,
        window=seen.window,
        return_lse=True,
    )
    shape = call.scores_shape[:-1]
    out = out.reshape(*shape, out.shape[-1])
    return (out, lse.reshape(shape)) if return_lse else out


class _Seen(NamedTuple):
    """What the queries see, when they are the last of the first ``keys``."""

    keys: int
    is_causal: bool
    window: int | None


def _seen(call: Call) -> _Seen | None:
    from attn.kernels import band_of

    if hides_nothing(call):
        return _Seen(call.kv_len, is_causal=False, window=None)
    band, start = band_of(call.mask, call.query.device), call.q_offset
    if isinstance(band, str) or band.valid is not None or band.right != 0:
        return None
    if not isinstance(start, int) or not 0 <= start <= (
        call.kv_len - call.q_len
    ):
        return None
    window = None if band.left >= call.kv_len else band.left
    return _Seen(start + call.q_len, is_causal=True, window=window)
