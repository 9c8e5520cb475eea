"""Count what latent attention costs: its cache, and both ways to compute."""

from __future__ import annotations

import torch

from attn import arguments
from attn.cost.attention import (
    AttentionCost,
    bytes_of,
    causal_pairs,
    check_sizes,
)


def latent_cache_bytes(
    batch: int,
    seq_len: int,
    num_layers: int,
    kv_lora_rank: int,
    qk_rope_head_dim: int,
    index_head_dim: int = 0,
    dtype: torch.dtype = torch.bfloat16,
) -> int:
    """Count the bytes of a cache of latents.

    A token has one latent and one rotated key for all heads, whatever their
    number: ``kv_lora_rank + qk_rope_head_dim`` elements a layer.

    Args:
        batch, seq_len: sequences, ``B``, and tokens of each, ``S``.
        num_layers: layers that keep a cache.
        kv_lora_rank: ``R``.
        qk_rope_head_dim: ``r``.
        index_head_dim: of an indexer's key, which is cached too; 0 without.
        dtype: of all of them.

    Returns:
        Bytes. Divide by ``2 ** 30`` for GiB.

    Example:
        >>> size = attn.cost.latent_cache_bytes(
        ...     batch=1, seq_len=131072, num_layers=61, kv_lora_rank=512,
        ...     qk_rope_head_dim=64,
        ... )
        >>> round(size / 2**30, 2)  # GiB, for DeepSeek-V3
        8.58

    Source: DeepSeek-AI 2024, "DeepSeek-V2", section 2.1.
    """
    check_sizes(batch=batch, seq_len=seq_len, num_layers=num_layers)
    check_sizes(
        kv_lora_rank=kv_lora_rank,
        qk_rope_head_dim=qk_rope_head_dim,
        index_head_dim=index_head_dim,
    )
    width = kv_lora_rank + qk_rope_head_dim + index_head_dim
    return batch * seq_len * num_layers * width * bytes_of(dtype)


@arguments.named()
def latent_attention_cost(
    batch: int,
    q_len: int,
    kv_len: int,
    num_heads: int,
    kv_lora_rank: int,
    qk_nope_head_dim: int,
    qk_rope_head_dim: int,
    v_head_dim: int,
    dtype: torch.dtype = torch.bfloat16,
    *,
    absorb: bool,
    is_causal: bool = True,
) -> AttentionCost:
    """Count latent attention from cached latents to the output of each head.

    *Expanded*: every latent becomes a key and a value for each head, then
    attention between heads of ``n + r`` and ``v``. *Absorbed*: the
    up-projections move to the queries and to the outputs, and all heads
    share one key of ``R + r``, whose first ``R`` elements are the value.

    ========= ===================== ========================
    FLOPs     for each token, head  for each pair, head
    ========= ===================== ========================
    expanded  ``2 R (n + v)`` a key ``2 (n + r + v)``
    absorbed  as many a **query**   ``2 (2 R + r)``
    ========= ===================== ========================

    With many keys, absorbing costs fewer FLOPs for up to
    ``R (n + v) / (2 R - n - v)`` new queries: 170 at DeepSeek-V3's sizes.

    Args:
        batch, q_len, kv_len: ``B``, ``L``, and ``S``, the new ones included.
        num_heads: ``H``.
        kv_lora_rank: width of a latent, ``R``.
        qk_nope_head_dim: ``n``.
        qk_rope_head_dim: ``r``.
        v_head_dim: ``v``.
        dtype: of all tensors.
        absorb: which of the two.
        is_causal: count only pairs that may attend, the queries being the
            last tokens.

    Returns:
        ``flops``; and ``bytes`` of latents, up-projections, queries and
        outputs, each once. Expanded keys and values are written and read.

    Example:
        >>> sizes = (1, 1, 4096, 128, 512, 128, 64, 128)  # DeepSeek-V3
        >>> for absorb in (False, True):
        ...     cost = attn.cost.latent_attention_cost(*sizes, absorb=absorb)
        ...     print(round(cost.flops / 1e9, 2), "GFLOPs")
        137.77 GFLOPs
        1.17 GFLOPs

    Source: DeepSeek-AI 2024, "DeepSeek-V2", section 2.1.
    """
    R, n, r, v = kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim, v_head_dim
    check_sizes(batch=batch, q_len=q_len, kv_len=kv_len, num_heads=num_heads)
    check_sizes(
        kv_lora_rank=R, qk_nope_head_dim=n, qk_rope_head_dim=r, v_head_dim=v
    )
    pairs = causal_pairs(q_len, kv_len) if is_causal else q_len * kv_len
    up_projected = q_len if absorb else kv_len
    width = 2 * R + r if absorb else n + r + v
    macs = num_heads * (up_projected * R * (n + v) + pairs * width)
    elements = kv_len * (R + r) + num_heads * q_len * (n + r + v)
    if not absorb:
        elements += 2 * num_heads * kv_len * (n + r + v)
    elements = batch * elements + num_heads * R * (n + v)
    return AttentionCost(2 * batch * macs, elements * bytes_of(dtype))
