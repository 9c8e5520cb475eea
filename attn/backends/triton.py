"""The book's Triton kernels as backends: what is measured, and variants.

On a GPU the kernels compute what PyTorch's function does not support;
everything else they compute only after ``autotune`` has compared. In the
interpreter they are for tests, and never selected.

``triton_split_kv`` computes the newest tokens over a cache: the keys of a row
are divided among programs, whose results are merged. ``triton_tma`` loads its
tiles by tensor descriptors (``attn.kernels.variants``), ``triton_persistent``
too, in a grid of as many programs as the GPU runs at a time. Neither was
measured: ``make gpu`` tries both, and so does ``autotune``.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from attn.backends.registry import TRACING, Attention, Reason, Reasons
from attn.backends.sdpa import masks_nothing
from attn.functional.inputs import AttentionInputs
from attn.kernels import attention

__all__ = ["KERNELS", "tunable"]

tma = functools.partial(attention.fused, variant="tma")
persistent = functools.partial(attention.fused, variant="persistent")


def tunable(inputs: AttentionInputs) -> bool:
    """Return whether timing the kernels is meaningful."""
    return inputs.query.is_cuda


def interpreted(inputs: AttentionInputs) -> str | None:
    """Return why the kernel is not preferred."""
    return None if tunable(inputs) else "the interpreter is for tests"


def unmeasured(inputs: AttentionInputs) -> str:
    """Return why a variant must be measured first."""
    measure = "it was not measured here: attn.api.autotune(...) compares"
    return interpreted(inputs) or measure


def without_descriptors(inputs: AttentionInputs) -> list[str]:
    """Return why the variants cannot compute a call."""
    if reasons := attention.unsupported_reasons(inputs):
        return reasons
    from attn.kernels.variants import descriptor_reasons

    query, key, value = map(inputs.to_4d, inputs.qkv)
    return descriptor_reasons(query=query, key=key, value=value)


def unsplittable(inputs: AttentionInputs) -> list[str]:
    """Return why the split-KV kernels cannot compute a call."""
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


def split_kv(inputs: AttentionInputs, return_lse: bool = False) -> Any:
    """Compute split-KV decoding on validated inputs."""
    from attn.kernels import decode_attention

    visible = _visible(inputs)
    assert visible is not None
    kv_len, mask = visible
    query, key, value = inputs.qkv
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


#: In auto's order: the function, why it cannot, and why it comes later.
KERNELS: dict[str, tuple[Attention, Reasons, Reason]] = {
    "triton_split_kv": (split_kv, unsplittable, unmeasured),
    "triton": (attention.fused, attention.unsupported_reasons, interpreted),
    "triton_tma": (tma, without_descriptors, unmeasured),
    "triton_persistent": (persistent, without_descriptors, unmeasured),
}
