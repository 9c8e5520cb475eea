"""The book's split-KV kernels as a backend: the newest tokens over a cache.

The keys of a row are divided among programs, whose results are merged.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from attn.backends import triton
from attn.backends.registry import TRACING
from attn.backends.sdpa import masks_nothing
from attn.functional.inputs import AttentionInputs

__all__ = ["deprioritized", "run", "unsupported_reasons"]


def unsupported_reasons(inputs: AttentionInputs) -> list[str]:
    """Return why the kernels cannot compute a call."""
    if torch.compiler.is_compiling():
        return [TRACING]
    reasons = triton.unsupported_reasons(inputs)
    if reasons:
        return reasons
    from attn.kernels.decode_varlen import MAX_ROWS

    rows = inputs.group_size * inputs.q_len
    if rows > MAX_ROWS:
        reasons.append(f"a group has {rows} queries: at most {MAX_ROWS}")
    if inputs.attn_mask is not None:
        reasons.append("attn_mask is a tensor: pass a Mask")
    if _visible(inputs) is None:
        reasons.append(
            f"{inputs.mask} at q_offset {inputs.q_offset} is not a mask of "
            "the last tokens: it must be causal, with a window at most, and "
            f"q_offset {inputs.kv_len - inputs.q_len} or less"
        )
    if inputs.requires_grad:
        reasons.append("a tensor requires a gradient: it computes none")
    return reasons


def deprioritized(inputs: AttentionInputs) -> str:
    """Return why it must be measured first."""
    if not triton.tunable(inputs):
        return "the interpreter is for tests"
    return "it was not measured here: attn.api.autotune(...) compares"


def run(inputs: AttentionInputs, return_lse: bool = False) -> Any:
    """Compute split-KV decoding on validated inputs."""
    from attn.kernels import decode_attention

    visible = _visible(inputs)
    assert visible is not None
    query, key, value = map(
        inputs.to_4d, (inputs.query, inputs.key, inputs.value)
    )
    out, lse = decode_attention(
        query,
        key[:, :, : visible.kv_len],
        value[:, :, : visible.kv_len],
        is_causal=visible.is_causal,
        scale=inputs.scale,
        softcap=inputs.softcap,
        sinks=inputs.sinks,
        window=visible.window,
        return_lse=True,
    )
    out = inputs.from_4d(out)
    return (out, inputs.from_4d(lse)) if return_lse else out


class _Visible(NamedTuple):
    """The keys of queries that are the last of the first ``kv_len``."""

    kv_len: int
    is_causal: bool
    window: int | None


def _visible(inputs: AttentionInputs) -> _Visible | None:
    from attn.kernels import band_of

    if masks_nothing(inputs):
        return _Visible(inputs.kv_len, is_causal=False, window=None)
    band = band_of(inputs.mask, inputs.query.device)
    start = inputs.q_offset
    if isinstance(band, str) or band.valid is not None or band.right != 0:
        return None
    if not isinstance(start, int) or not 0 <= start <= (
        inputs.kv_len - inputs.q_len
    ):
        return None
    window = None if band.left >= inputs.kv_len else band.left
    return _Visible(start + inputs.q_len, is_causal=True, window=window)
