"""Sequences packed into one row, as FlashAttention takes them."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor, nn

from attn import tracing
from attn.masks import Mask, documents


def packed_mask(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    cu_seq_lens_q: Tensor | None,
    cu_seq_lens_k: Tensor | None,
) -> Mask | None:
    """Return the mask that keeps packed sequences apart; None without them.

    Source: transformers ``DataCollatorWithFlattening``.
    """
    if cu_seq_lens_q is None and cu_seq_lens_k is None:
        return None
    if cu_seq_lens_q is None or cu_seq_lens_k is None:
        raise ValueError(
            "cu_seq_lens_q and cu_seq_lens_k must be given together; got "
            f"cu_seq_lens_{'k' if cu_seq_lens_q is None else 'q'} alone"
        )
    batch, q_len, kv_len = query.shape[0], query.shape[-2], key.shape[-2]
    if batch != 1 or q_len != kv_len:
        raise ValueError(
            "cu_seq_lens_q needs one row of packed sequences, without earlier "
            f"keys in a cache; got {batch} rows of {q_len} queries and "
            f"{kv_len} keys"
        )
    pair = (cu_seq_lens_q, cu_seq_lens_k)
    if tracing.has_values(*pair) and not torch.equal(*pair):
        raise ValueError(
            "cu_seq_lens_q and cu_seq_lens_k must be equal, because each "
            f"sequence attends to itself; got {cu_seq_lens_q.tolist()} and "
            f"{cu_seq_lens_k.tolist()}"
        )
    _check_borders(cu_seq_lens_q, q_len)
    chunk = getattr(getattr(module, "config", None), "attention_chunk_size", 0)
    if chunk and kv_len > chunk:
        raise ValueError(
            f"cu_seq_lens_q needs attention without chunks, which would not "
            f"start where a sequence does; got {kv_len} tokens and chunks of "
            f"{chunk}"
        )
    positions = torch.arange(q_len, device=query.device)
    ends = cu_seq_lens_q[1:].to(query.device)
    return documents(torch.searchsorted(ends, positions, right=True))


def warn_of_leaks(
    module: nn.Module, positions: Tensor | None, kv_len: int
) -> None:
    """Warn where texts are packed, by their positions, and not kept apart.

    Transformers reads positions only without a mask of tokens and without a
    cache; otherwise, with its own attention too, a text sees those before.
    """
    # The first layer speaks for all.
    if getattr(module, "layer_idx", 0) or torch.compiler.is_compiling():
        return
    if positions is None or positions.dim() != 2:
        return
    if positions.shape[1] == kv_len and bool((positions.diff() < 0).any()):
        warnings.warn(
            "position_ids start again within a row, and nothing keeps the "
            "packed texts apart: transformers reads position_ids only without "
            "attention_mask and with use_cache=False. Leave both out, or pass "
            "cu_seq_lens_q and cu_seq_lens_k",
            stacklevel=2,
        )


def _check_borders(borders: Tensor, length: int) -> None:
    """Require integers that go from 0 up to the number of tokens."""
    if borders.dim() != 1 or borders.dtype not in (torch.int32, torch.int64):
        raise TypeError(
            "cu_seq_lens_q must be integers (sequences + 1,); got "
            f"{borders.dtype} of shape {tuple(borders.shape)}"
        )
    if not tracing.has_values(borders):
        return
    ends = borders.tolist()
    if ends[:1] != [0] or ends[-1] != length or ends != sorted(ends):
        raise ValueError(
            f"cu_seq_lens_q must go from 0 up to the {length} tokens; got "
            f"{ends}"
        )
