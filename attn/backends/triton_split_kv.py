"""The book's split-KV kernels as a backend: the newest tokens over a cache.

The keys of a row are divided among programs, whose results are merged.
"""

from __future__ import annotations

from typing import Any

import torch

from attn.backends.registry import TRACING
from attn.backends.sdpa import masks_nothing
from attn.functional.inputs import AttentionInputs
from attn.kernels import attention

__all__ = ["run", "unsupported_reasons"]


def unsupported_reasons(inputs: AttentionInputs) -> list[str]:
    """Return why the kernels cannot compute a call."""
    if torch.compiler.is_compiling():
        return [TRACING]
    if reasons := attention.unsupported_reasons(inputs):
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
        reasons.append(
            "a tensor requires a gradient: it computes none, use impl='triton'"
        )
    return reasons


def run(inputs: AttentionInputs, return_lse: bool = False) -> Any:
    """Compute split-KV decoding on validated inputs."""
    from attn.kernels import decode_attention

    visible = _visible(inputs)
    assert visible is not None
    kv_len, mask = visible
    query, key, value = inputs.query, inputs.key, inputs.value
    tensors = (query, key[..., :kv_len, :], value[..., :kv_len, :])
    out, lse = decode_attention(
        *map(inputs.to_4d, tensors),
        scale=inputs.scale,
        softcap=inputs.softcap,
        sinks=inputs.sinks,
        return_lse=True,
        **mask,
    )
    out = inputs.from_4d(out)
    return (out, inputs.from_4d(lse)) if return_lse else out


def _visible(inputs: AttentionInputs) -> tuple[int, dict[str, Any]] | None:
    """Return how many keys the queries are the last of, and their mask."""
    if masks_nothing(inputs):
        return inputs.kv_len, {"is_causal": False}
    band, start = attention.band_of(inputs), inputs.q_offset
    if isinstance(band, str) or band.valid is not None or band.right != 0:
        return None
    last = inputs.kv_len - inputs.q_len
    if not isinstance(start, int) or not 0 <= start <= last:
        return None
    window = None if band.left >= inputs.kv_len else band.left
    return start + inputs.q_len, {"is_causal": True, "window": window}
