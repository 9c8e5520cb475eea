"""The kernels for serving: one new token at a time, and ragged batches.

``decode_attention`` reads a cache once for all heads that share it;
``varlen_attention`` takes sequences that lie end to end. Neither has
gradients: they are for models that write, not for models that learn.
"""

from __future__ import annotations

import torch
import triton
from torch import Tensor

from attn.functional import validation
from attn.functional.inputs import validate
from attn.kernels.configs import config_of
from attn.kernels.decode import decode_split, merge_splits
from attn.kernels.forward import attention_forward
from attn.kernels.launch import (
    FAR,
    Extras,
    Options,
    arch_of,
    blocks,
    can_run,
    constants,
)

__all__ = ["decode_attention", "varlen_attention"]

MAX_ROWS = 64  # queries of a group that fit one tile


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
    """Attention of the newest tokens over a cache.

    Row ``b`` of the cache holds ``lengths[b]`` tokens, of which the queries
    are the last ``L``. What lies behind them is never used.

    Args:
        query: ``(B, H, L, D)``, ``L`` small; ``G * L`` at most 64.
        key: ``(B, Hkv, S, D)``.
        value: ``(B, Hkv, S, Dv)``.
        lengths: tokens of each row, integers ``(B,)``; ``S`` when None.
        is_causal: a new token sees itself and what came before it.
        scale, softcap, sinks: as in ``attn.scaled_dot_product_attention``.
        window: keys before itself that a token sees; all when None.
        splits: stretches that the keys are cut into; chosen when None.
        return_lse: also return the log of each denominator, without sink.

    Returns:
        ``(B, H, L, Dv)``; with ``return_lse`` also ``(B, H, L)``, float32.

    Raises:
        TypeError, ValueError: an argument does not fit.

    Source: Dao et al. 2023, "Flash-Decoding".
    """
    inputs = validate(
        query,
        key,
        value,
        scale=scale,
        enable_gqa=True,
        softcap=softcap,
        sinks=sinks,
    )
    _check_device(query)
    if not query.dim() == key.dim() == value.dim() == 4:
        raise ValueError(
            f"query has {query.dim()} axes: decode_attention needs "
            "(B, H, L, D), and key and value likewise"
        )
    query, key, value = map(inputs.to_4d, (query, key, value))
    B, H, L, D = query.shape
    Hkv, S, Dv = key.shape[1], *value.shape[-2:]
    group = inputs.group_size
    if group * L > MAX_ROWS:
        raise ValueError(
            f"query has {L} tokens and {group} heads in a group: "
            f"decode_attention needs G * L of at most {MAX_ROWS}"
        )
    lengths = _lengths(lengths, query, S)
    if window is not None and window < 0:
        raise ValueError(f"window is {window}: it needs 0 or more")
    out = query.new_empty(B, H, L, Dv)
    lse = query.new_empty(B, H, L, dtype=torch.float32)
    if not out.numel() or not S:
        return (
            (out.zero_(), lse.fill_(-torch.inf))
            if return_lse
            else (out.zero_())
        )
    size, arch = query.element_size(), arch_of(query)
    config = config_of("decode", max(D, Dv), size, arch)
    _, block_s = blocks(config, L, S)
    splits = _splits(S, block_s, B * Hkv) if splits is None else splits
    stretch = triton.cdiv(triton.cdiv(S, splits), block_s) * block_s
    splits = triton.cdiv(S, stretch)
    rows = max(16, triton.next_power_of_2(group * L))
    wide = max(16, triton.next_power_of_2(Dv))
    part = query.new_empty(B, Hkv, splits, rows, Dv, dtype=torch.float32)
    part_lse = part.new_empty(B, Hkv, splits, rows)
    decode_split[(splits, Hkv, B)](
        query, key, value, part, part_lse, lengths.to(torch.int32),
        inputs.scale, softcap or 1.0, FAR if window is None else window,
        stretch, L, *query.stride(), *key.stride(), *value.stride(),
        GROUP=group, ROWS=rows, D=D, DV=Dv, BLOCK_S=block_s,
        BLOCK_D=max(16, triton.next_power_of_2(D)), BLOCK_DV=wide,
        CAUSAL=is_causal, WINDOWED=window is not None,
        HAS_CAP=softcap is not None,
        PRECISION="ieee" if query.dtype == torch.float32 else "tf32",
        num_warps=config.num_warps, num_stages=config.num_stages,
    )  # fmt: skip
    merge_splits[(group * L, Hkv, B)](
        part, part_lse, query if sinks is None else sinks, out, lse, splits,
        L, *out.stride()[:3], *lse.stride()[:2],
        GROUP=group, ROWS=rows, DV=Dv, BLOCK_DV=wide,
        BLOCK_N=triton.next_power_of_2(splits), HAS_SINKS=sinks is not None,
        num_warps=4,
    )  # fmt: skip
    return (out, lse) if return_lse else out


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
    window: tuple[int | None, int | None] | None = None,
    q_offset: Tensor | None = None,
    return_lse: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Attention within each of several sequences that lie end to end.

    Sequence ``i`` has the queries ``cu_seqlens_q[i]`` to
    ``cu_seqlens_q[i + 1]``, and likewise its keys. Nobody sees another's.

    Args:
        query: ``(T, H, D)``, all queries.
        key: ``(U, Hkv, D)``, all keys.
        value: ``(U, Hkv, Dv)``.
        cu_seqlens_q, cu_seqlens_k: where sequences begin, and the end of
            the last one; integers ``(B + 1,)``.
        max_seqlen_q: queries of the longest sequence, or more.
        is_causal, scale, softcap, sinks, window: as in
            ``attn.scaled_dot_product_attention``, within a sequence.
        q_offset: place of each sequence's first query among its keys,
            ``(B,)``; 0 when None.
        return_lse: also return the log of each denominator, without sink.

    Returns:
        ``(T, H, Dv)``; with ``return_lse`` also ``(H, T)``, float32.

    Raises:
        TypeError, ValueError: an argument does not fit.

    Source: flash-attn ``flash_attn_varlen_func``.
    """
    for name, x in (("query", query), ("key", key), ("value", value)):
        if x.dim() != 3:
            raise ValueError(
                f"{name} has {x.dim()} axes: varlen_attention needs "
                "(tokens, heads, head_dim)"
            )
    q, k, v = (x.transpose(0, 1)[None] for x in (query, key, value))
    inputs = validate(
        q, k, v, scale=scale, enable_gqa=True, softcap=softcap, sinks=sinks
    )
    _check_device(query)
    ends = {"cu_seqlens_q": (cu_seqlens_q, len(query))}
    ends["cu_seqlens_k"] = (cu_seqlens_k, len(key))
    for name, (x, end) in ends.items():
        _check_ends(name, x, end)
    if cu_seqlens_q.shape != cu_seqlens_k.shape:
        raise ValueError(
            f"cu_seqlens_k has {len(cu_seqlens_k)} entries and cu_seqlens_q "
            f"{len(cu_seqlens_q)}: they need the same"
        )
    longest = int(cu_seqlens_q.diff().max()) if len(cu_seqlens_q) > 1 else 0
    if max_seqlen_q < longest:
        raise ValueError(
            f"max_seqlen_q is {max_seqlen_q}: a sequence has {longest} queries"
        )
    B = len(cu_seqlens_q) - 1
    if q_offset is None:
        q_offset = torch.zeros(B, dtype=torch.int32, device=query.device)
    if q_offset.shape != (B,) or q_offset.is_floating_point():
        raise ValueError(
            f"q_offset is {q_offset.dtype} of shape {tuple(q_offset.shape)}: "
            f"it needs integers ({B},)"
        )
    left, right = validation.window(window) or (None, None)
    right = right if not is_causal else min(0, FAR if right is None else right)
    options = Options(
        inputs.scale,
        softcap or 0.0,
        FAR if left is None else left,
        FAR if right is None else right,
    )
    (T, H, _), Dv = query.shape, value.shape[-1]
    out = query.new_empty(T, H, Dv)
    lse = query.new_empty(H, T, dtype=torch.float32)
    if out.numel() and B:
        size, arch = query.element_size(), arch_of(query)
        config = config_of("forward", max(q.shape[-1], Dv), size, arch)
        block_l, block_s = blocks(config, max_seqlen_q, max(len(key), 1))
        o = out.transpose(0, 1)[None]  # (1, H, T, Dv)
        extras = Extras(sinks=sinks)
        attention_forward[(triton.cdiv(max_seqlen_q, block_l), H, B)](
            q, k, v, o, lse, q, q, q if sinks is None else sinks,
            q_offset.to(torch.int32), cu_seqlens_q.to(torch.int32),
            cu_seqlens_k.to(torch.int32), options.scale,
            options.softcap or 1.0, options.left, options.right, H, 0, 0,
            0, *q.stride()[1:], 0, *k.stride()[1:], 0, *v.stride()[1:],
            0, *o.stride()[1:3], 0, 0, 0, 0, 0, lse.stride(0),
            **constants(q, k, v, options, extras),
            BLOCK_L=block_l, BLOCK_S=block_s, VARLEN=True,
            num_warps=config.num_warps, num_stages=config.num_stages,
        )  # fmt: skip
    return (out, lse) if return_lse else out


def _lengths(lengths: Tensor | None, query: Tensor, kv_len: int) -> Tensor:
    """Checked, which on a GPU means to wait for it; all keys when None."""
    B = query.shape[0]
    if lengths is None:
        return torch.full((B,), kv_len, device=query.device)
    if lengths.shape != (B,) or lengths.is_floating_point():
        raise ValueError(
            f"lengths is {lengths.dtype} of shape {tuple(lengths.shape)}: it "
            f"needs integers ({B},)"
        )
    if lengths.numel() and not 0 <= int(lengths.min()) <= int(lengths.max()):
        raise ValueError(f"lengths has {int(lengths.min())}: it needs 0 to S")
    if lengths.numel() and int(lengths.max()) > kv_len:
        raise ValueError(
            f"lengths has {int(lengths.max())}: the cache has {kv_len} tokens"
        )
    return lengths


def _splits(kv_len: int, block: int, programs: int) -> int:
    """As many stretches as keep a machine busy, each of a few tiles."""
    busy = 256  # programs; a large GPU has 132 processors
    most = triton.cdiv(kv_len, 4 * block)
    return max(1, min(most, triton.cdiv(busy, programs), 64))


def _check_device(query: Tensor) -> None:
    reason = can_run(query.device)
    if reason:
        raise ValueError(reason)
    if query.dtype == torch.float64:
        raise TypeError("query is float64: the kernels need at most float32")


def _check_ends(name: str, ends: Tensor, tokens: int) -> None:
    if ends.dim() != 1 or not len(ends) or ends.is_floating_point():
        raise ValueError(
            f"{name} is {ends.dtype} of shape {tuple(ends.shape)}: it needs "
            "integers (B + 1,)"
        )
    good = int(ends[0]) == 0 and int(ends[-1]) == tokens
    if not good or bool((ends.diff() < 0).any()):
        raise ValueError(
            f"{name} is {ends.tolist()}: it needs to rise from 0 to {tokens}"
        )
