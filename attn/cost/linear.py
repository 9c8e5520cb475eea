"""Count what a layer with a state costs, and its state."""

from __future__ import annotations

import torch

from attn import arguments
from attn.cost.attention import AttentionCost, bytes_of, check_sizes


@arguments.named()
def linear_cost(
    batch: int,
    seq_len: int,
    num_heads: int,
    head_dim: int,
    value_dim: int | None = None,
    dtype: torch.dtype = torch.bfloat16,
    *,
    delta: bool = False,
    chunk_size: int | None = 64,
) -> AttentionCost:
    """Count the products of linear attention or the delta rule.

    Each token writes to the state and reads it, ``4 D Dv`` operations a head;
    in the delta rule it also reads what its key has, ``2 D Dv``. A chunk of
    ``C`` tokens multiplies these by the state at once and adds the products
    inside the chunk: ``2 C (D + Dv)`` for each token, and in the delta rule
    ``2 C D + (C - 1) Dv`` for the triangular system. Decays, norms and
    projections are not counted.

    Args:
        batch: ``B``.
        seq_len: ``L``.
        num_heads: heads of the value, ``H``.
        head_dim, value_dim: ``D``, and ``Dv``; ``D`` when None.
        dtype: of queries, keys, values and outputs; gates and state are
            float32.
        delta: the delta rule.
        chunk_size: ``C``; None counts token by token, as in decoding.

    Returns:
        ``flops``; ``bytes`` of query, key, value, output, gates and, read and
        written, the state, each once, as in one fused kernel.

    Example:
        >>> for length in (1024, 65536):
        ...     linear = attn.cost.linear_cost(1, length, 16, 128)
        ...     pairs = attn.cost.attention_cost(
        ...         1, length, length, 16, 16, 128, is_causal=True
        ...     )
        ...     print(length, round(pairs.flops / linear.flops, 1))
        1024 2.7
        65536 170.7

    Source: Yang et al. 2023, "Gated Linear Attention" (the chunked form).
    """
    value_dim = head_dim if value_dim is None else value_dim
    check_sizes(batch=batch, seq_len=seq_len, num_heads=num_heads)
    check_sizes(head_dim=head_dim, value_dim=value_dim)
    L, D, Dv = seq_len, head_dim, value_dim
    flops = (6 if delta else 4) * L * D * Dv
    if chunk_size is not None:
        check_sizes(chunk_size=chunk_size)
        if not chunk_size:
            raise ValueError("chunk_size must be 1 or more, or None; got 0")
        whole, rest = divmod(L, chunk_size)
        for count, C in ((whole, chunk_size), (1, rest)):
            flops += count * 2 * C * C * (D + Dv)
            if delta and C:
                flops += count * C * (2 * C * D + (C - 1) * Dv)
    gates = (2 if delta else 1) * L
    tokens = 2 * L * (D + Dv) * bytes_of(dtype)
    kept = (gates + 2 * D * Dv) * torch.float32.itemsize
    heads = batch * num_heads
    return AttentionCost(heads * flops, heads * (tokens + kept))


def state_bytes(
    batch: int,
    num_layers: int,
    num_heads: int,
    head_dim: int,
    value_dim: int | None = None,
    dtype: torch.dtype = torch.float32,
) -> int:
    """Count the bytes of the states of linear attention.

    ``batch * num_layers * num_heads * head_dim * value_dim`` elements,
    whatever the number of tokens. The tail of a short convolution, ``K - 1``
    tokens, is not counted.

    Args:
        batch, num_layers: sequences, ``B``, and layers with a state.
        num_heads: heads of the value, ``H``.
        head_dim, value_dim, dtype: ``D``, ``Dv`` (``D`` when None), and the
            state's own dtype.

    Returns:
        Bytes.

    Example:
        >>> state = attn.cost.state_bytes(1, 1, 32, 128)
        >>> cache = attn.cost.kv_cache_bytes(1, 1, 1, 2, 256)  # of a token
        >>> state / 2**20, state // cache  # MiB; tokens of softmax attention
        (2.0, 1024)

    Source: transformers ``qwen3_next``, whose sizes the example has.
    """
    value_dim = head_dim if value_dim is None else value_dim
    check_sizes(batch=batch, num_layers=num_layers, num_heads=num_heads)
    check_sizes(head_dim=head_dim, value_dim=value_dim)
    heads = batch * num_layers * num_heads
    return heads * head_dim * value_dim * bytes_of(dtype)
