"""Decoding and ragged batches.

``decode_attention`` reads a cache once for all heads that share it;
``varlen_attention`` takes sequences stored end to end, to train on them too.
Triton is imported by the first call.
"""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor

from attn import arguments, tracing
from attn.functional import validation
from attn.functional.inputs import AttentionInputs, validate
from attn.functional.validation import Window
from attn.kernels.attention import Band, band_of, unsupported_reasons
from attn.kernels.configs import (
    UNBOUNDED,
    Options,
    dummy_pointers,
    shape_constants,
    tiles,
)

__all__ = ["decode_attention", "varlen_attention"]

MAX_ROWS = 64  # query rows of a group, which share a tile


@arguments.named()
def decode_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    lengths: Tensor | None = None,
    *,
    is_causal: bool = True,
    scale: float | None = None,
    softcap: float | None = None,
    sinks: Tensor | None = None,
    window: int | None = None,
    splits: int | None = None,
    return_lse: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Compute attention of the newest tokens over a cache.

    Row ``b`` of the cache holds ``lengths[b]`` tokens, of which the queries
    are the last ``L``. Whatever follows them in the cache is never used.
    It is for generating: there are no gradients.

    Args:
        query: ``(B, H, L, D)``, ``L`` small; ``G * L`` at most 64.
        key: ``(B, Hkv, S, D)``.
        value: ``(B, Hkv, S, Dv)``.
        lengths: tokens of each row, integers ``(B,)``; ``S`` when None.
        is_causal: mask the keys after the query's own position.
        scale, softcap, sinks: as in ``attn.scaled_dot_product_attention``.
        window: keys before its own that a token attends to; None for all.
        splits: chunks that the keys are split into; chosen when None.
        return_lse: also return the log of each denominator, without sink.

    Returns:
        ``(B, H, L, Dv)``; with ``return_lse`` also ``(B, H, L)``, float32.

    Raises:
        TypeError, ValueError: an argument is wrong.

    Example:
        >>> from attn.kernels import decode_attention
        >>> query = torch.randn(2, 4, 1, 16)  # 2 texts, a new token each
        >>> key, value = torch.randn(2, 2, 2, 10, 16)
        >>> out = decode_attention(query, key, value, torch.tensor([10, 7]))
        >>> out.shape
        torch.Size([2, 4, 1, 16])

    Source: Dao et al. 2023, "Flash-Decoding".
    """
    inputs = validate(
        query, key, value, scale=scale, enable_gqa=True, softcap=softcap,
        sinks=sinks,
    )  # fmt: skip
    _require_support(inputs)
    validation.no_grad(
        "fused_attention, or varlen_attention for rows that differ in length",
        query=query, key=key, value=value, sinks=sinks,
    )  # fmt: skip
    if not query.dim() == key.dim() == value.dim() == 4:
        raise ValueError(
            "query, key and value must have four axes, (B, H, L, D); got "
            f"{query.dim()}, {key.dim()} and {value.dim()}"
        )
    query, key, value = map(inputs.to_4d, (query, key, value))
    B, H, L, _ = query.shape
    Hkv, S, Dv = key.shape[1], *value.shape[-2:]
    group = inputs.group_size
    if group * L > MAX_ROWS:
        raise ValueError(
            f"query must have G * L of at most {MAX_ROWS}; got {group} * {L}: "
            "fused_attention has no such limit"
        )
    if lengths is None:
        lengths = query.new_full((B,), S, dtype=torch.int32)
    else:
        lengths, _ = _integers("lengths", lengths, (B,), most=S)
    validation.window(None if window is None else (window, None))
    out = query.new_empty(B, H, L, Dv)
    lse = query.new_empty(B, H, L, dtype=torch.float32)
    if not (out.numel() and S):
        out.zero_(), lse.fill_(-torch.inf)
        return (out, lse) if return_lse else out
    import triton

    from attn.kernels.decode import decode_split, merge_splits

    tile = tiles("decode", query, value, L, S)
    del tile["BLOCK_L"]
    block_s = tile["BLOCK_S"]
    splits = splits or _default_splits(S, block_s, B * Hkv)
    kv_chunk_size = triton.cdiv(triton.cdiv(S, splits), block_s) * block_s
    splits = triton.cdiv(S, kv_chunk_size)
    rows = max(16, triton.next_power_of_2(group * L))
    part = query.new_empty(B, Hkv, splits, rows, Dv, dtype=torch.float32)
    part_lse = part.new_empty(B, Hkv, splits, rows)
    options = Options(
        None, None, inputs.sinks, lengths, inputs.scale, softcap or 0.0,
        UNBOUNDED if window is None else min(window, UNBOUNDED),
        0 if is_causal else UNBOUNDED,
    )  # fmt: skip
    constants = shape_constants(query, key, value)
    decode_split[(splits, Hkv, B)](
        query, key, value, part, part_lse, lengths,
        options.scale, options.softcap, options.left, options.right,
        kv_chunk_size, L, *query.stride(), *key.stride(), *value.stride(),
        **constants, **options.constants, **tile, ROWS=rows,
    )  # fmt: skip
    merge_splits[(group * L, Hkv, B)](
        part, part_lse, *dummy_pointers(query, inputs.sinks), out, lse,
        splits, L, *out.stride()[:3], *lse.stride()[:2],
        GROUP=group, ROWS=rows, DV=Dv, BLOCK_DV=constants["BLOCK_DV"],
        BLOCK_N=triton.next_power_of_2(splits),
        HAS_SINKS=sinks is not None, num_warps=4,
    )  # fmt: skip
    return (out, lse) if return_lse else out


@arguments.named()
def varlen_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int,
    *,
    is_causal: bool = False,
    scale: float | None = None,
    softcap: float | None = None,
    sinks: Tensor | None = None,
    window: Window | None = None,
    q_offset: int | Tensor | None = None,
    return_lse: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Compute attention within each of several sequences stored end to end.

    Sequence ``i`` has the queries ``cu_seqlens_q[i]`` to
    ``cu_seqlens_q[i + 1]`` and the keys ``cu_seqlens_k[i]`` to
    ``cu_seqlens_k[i + 1]``, and attends to no other sequence. Query, key,
    value and sinks have gradients.

    Args:
        query: ``(T, H, D)``, all queries.
        key: ``(U, Hkv, D)``, all keys.
        value: ``(U, Hkv, Dv)``.
        cu_seqlens_q, cu_seqlens_k: the start of each sequence, and the end of
            the last one; integers ``(B + 1,)``.
        max_seqlen_q: queries of the longest sequence, or more.
        is_causal, scale, softcap, sinks, window: as in
            ``attn.scaled_dot_product_attention``, within a sequence.
        q_offset: position of each sequence's first query among its keys,
            an int or ``(B,)``; 0 when None.
        return_lse: also return the log of each denominator, without sink.

    Returns:
        ``(T, H, Dv)``; with ``return_lse`` also ``(H, T)``, float32.

    Raises:
        TypeError, ValueError: an argument is wrong.

    Example:
        >>> from attn.kernels import varlen_attention
        >>> x = torch.randn(8, 2, 16)  # texts of 3 and 5 tokens, end to end
        >>> starts = torch.tensor([0, 3, 8], dtype=torch.int32)
        >>> out = varlen_attention(x, x, x, starts, starts, 5)
        >>> first = x[:3].transpose(0, 1)  # (H, L, D)
        >>> exact = attn.attention(first, first, first).transpose(0, 1)
        >>> torch.allclose(out[:3], exact, atol=1e-5)
        True

    Source: flash-attn ``flash_attn_varlen_func``.
    """
    for name, x in (("query", query), ("key", key), ("value", value)):
        if x.dim() != 3:
            raise ValueError(
                f"{name} must have three axes, (tokens, heads, head_dim); got "
                f"{x.dim()}"
            )
    query, key, value = (x.transpose(0, 1)[None] for x in (query, key, value))
    inputs = validate(
        query, key, value, is_causal=is_causal, scale=scale, enable_gqa=True,
        softcap=softcap, sinks=sinks, window=window, q_offset=0,
    )  # fmt: skip
    _require_support(inputs)
    band = band_of(inputs)
    assert isinstance(band, Band)
    B = max(cu_seqlens_q.numel() - 1, 0)
    cu_q, longest_q = _starts("cu_seqlens_q", cu_seqlens_q, B, inputs.q_len)
    cu_k, longest_k = _starts("cu_seqlens_k", cu_seqlens_k, B, inputs.kv_len)
    if max_seqlen_q < longest_q:
        raise ValueError(
            f"max_seqlen_q must be {longest_q} or more, the queries of the "
            f"longest sequence; got {max_seqlen_q}"
        )
    start = validation.q_offset(q_offset, query, torch.Size((B,)))
    if isinstance(start, int):
        start = cu_q.new_full((B,), start)
    start = start.to(torch.int32).expand(B).contiguous()
    from attn.kernels.forward import forward

    out, lse = forward(
        query, key, value, None, None, inputs.sinks, start,
        inputs.scale, inputs.softcap or 0.0, band.left, band.right,
        cu_q, cu_k, max_seqlen_q, longest_k,
    )  # fmt: skip
    out = out[0].transpose(0, 1)
    return (out, lse[0]) if return_lse else out


def _require_support(inputs: AttentionInputs) -> None:
    if reasons := unsupported_reasons(inputs):
        is_double = inputs.query.dtype == torch.float64
        raise (TypeError if is_double else ValueError)("; ".join(reasons))


def _default_splits(kv_len: int, block_s: int, programs: int) -> int:
    """Return how many chunks keep a GPU busy, each of several tiles."""
    busy = 256  # programs; a large GPU has 132 processors
    most = math.ceil(kv_len / (4 * block_s))
    return max(1, min(most, math.ceil(busy / programs), 64))


def _integers(
    name: str, x: Tensor, shape: tuple[int, ...], most: int
) -> tuple[Tensor, list[int]]:
    """Return integers from 0 to ``most`` as kernels read them, and a list."""
    if x.shape != shape or x.is_floating_point():
        raise ValueError(
            f"{name} must be integers of shape {shape}; got {x.dtype} of "
            f"shape {tuple(x.shape)}"
        )
    tracing.require_values("which the kernel is launched for", **{name: x})
    values = x.tolist()  # on a GPU, this waits for it
    if values and not 0 <= min(values) <= max(values) <= most:
        raise ValueError(
            f"{name} must be from 0 to {most}, the tokens that there are; got "
            f"{min(values)} to {max(values)}"
        )
    return x.to(torch.int32).contiguous(), values


def _starts(
    name: str, starts: Tensor, batch: int, tokens: int
) -> tuple[Tensor, int]:
    """Return the starts as kernels read them, and the longest length."""
    starts, values = _integers(name, starts, (batch + 1,), most=tokens)
    if values != sorted(values) or (values[0], values[-1]) != (0, tokens):
        raise ValueError(f"{name} must rise from 0 to {tokens}; got {values}")
    return starts, max((b - a for a, b in pairwise(values)), default=0)
