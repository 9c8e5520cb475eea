"""Count what a call of attention costs, and its cache."""

from __future__ import annotations

from numbers import Real
from typing import NamedTuple

import torch
from torch import Tensor

from attn import arguments


def kv_cache_bytes(
    batch: int,
    seq_len: int,
    num_layers: int,
    num_kv_heads: int,
    head_dim: int,
    dtype: torch.dtype = torch.bfloat16,
) -> int:
    """Count the bytes of a key/value cache.

    ``2 * batch * seq_len * num_layers * num_kv_heads * head_dim`` elements:
    2 for keys and values. The number of query heads does not matter.

    Args:
        batch, seq_len: sequences, ``B``, and tokens of each, ``S``.
        num_layers: layers that keep a cache.
        num_kv_heads, head_dim, dtype: of keys and of values, ``Hkv``, ``D``.

    Returns:
        Bytes. Divide by ``2 ** 30`` for GiB.

    Example:
        >>> size = attn.cost.kv_cache_bytes(
        ...     batch=1, seq_len=8192, num_layers=32, num_kv_heads=8,
        ...     head_dim=128,
        ... )
        >>> size / 2**30  # GiB, for the 8B model of Llama 3
        1.0

    Source: Pope et al. 2022, "Efficiently scaling Transformer inference",
    section 3.3.
    """
    check_sizes(batch=batch, seq_len=seq_len, num_layers=num_layers)
    check_sizes(num_kv_heads=num_kv_heads, head_dim=head_dim)
    tokens = batch * seq_len * num_layers
    return 2 * tokens * num_kv_heads * head_dim * bytes_of(dtype)


@arguments.named()
def attention_parameters(
    embed_dim: int,
    num_heads: int,
    num_kv_heads: int | None = None,
    head_dim: int | None = None,
    *,
    bias: bool = False,
) -> int:
    """Count the parameters of one attention layer's four projections.

    Args:
        embed_dim: ``E``.
        num_heads: ``H``.
        num_kv_heads: ``Hkv``; ``H`` (MHA) when None, 1 for MQA.
        head_dim: ``D``; ``E / H`` when None.
        bias: count a bias for each.

    Returns:
        Elements (not bytes): ``2 * E * H * D + 2 * E * Hkv * D``.

    Example:
        >>> attn.cost.attention_parameters(embed_dim=4096, num_heads=32)
        67108864
        >>> attn.cost.attention_parameters(4096, 32, num_kv_heads=8)
        41943040
    """
    num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
    check_sizes(embed_dim=embed_dim)
    if head_dim is not None:
        check_sizes(head_dim=head_dim)
    check_heads(num_heads, num_kv_heads)
    if head_dim is None:
        if embed_dim % num_heads:
            raise ValueError(
                f"embed_dim must be a multiple of num_heads, {num_heads}, or "
                f"head_dim given; got {embed_dim}"
            )
        head_dim = embed_dim // num_heads
    rows = (num_heads + 2 * num_kv_heads) * head_dim
    weights = embed_dim * (rows + num_heads * head_dim)
    return weights + (rows + embed_dim if bias else 0)


class AttentionCost(NamedTuple):
    """Operations and memory traffic of one call.

    Example:
        >>> cost = attn.cost.attention_cost(1, 1, 4096, 32, 8, 128)
        >>> cost.flops, cost.bytes
        (67108864, 16793600)
        >>> round(cost.intensity)  # FLOPs a byte: decoding waits for memory
        4
    """

    flops: int  # floating-point operations
    bytes: int  # read and written

    @property
    def intensity(self) -> float:
        """Return the FLOPs for each byte."""
        return self.flops / self.bytes


@arguments.named()
def attention_cost(
    batch: int,
    q_len: int,
    kv_len: int,
    num_heads: int,
    num_kv_heads: int,
    head_dim: int,
    dtype: torch.dtype = torch.bfloat16,
    *,
    is_causal: bool = False,
    window: int | None = None,
    fused: bool = True,
) -> AttentionCost:
    """Count the two matrix products of attention, without projections.

    Reading a prompt (prefill) is ``q_len = kv_len``, causal; one step of
    decoding is ``q_len = 1``.

    Args:
        batch: ``B``.
        q_len: ``L``.
        kv_len: ``S``.
        num_heads: ``H``.
        num_kv_heads: ``Hkv``.
        head_dim, dtype: of queries, keys and values, ``D``.
        is_causal: count only pairs that may attend, the queries being the
            last tokens.
        window: with ``is_causal``, keys that each query sees, its own
            included; all when None.
        fused: keep the scores on the chip (FlashAttention). Otherwise the
            ``(B, H, L, S)`` scores cross the bus four times: written, read
            and written by the softmax, read.

    Returns:
        ``flops``, ``4 * D`` for each query head and pair; ``bytes`` of
        query, key, value and output, each once, and of the scores.

    Example:
        >>> prefill = attn.cost.attention_cost(
        ...     1, 4096, 4096, num_heads=32, num_kv_heads=8, head_dim=128,
        ...     is_causal=True,
        ... )
        >>> round(prefill.flops / 1e9), prefill.bytes / 2**20  # GFLOPs, MiB
        (137, 80.0)

    Source: Dao et al. 2022, "FlashAttention", section 3; Williams et al.
    2009 (roofline).
    """
    check_sizes(batch=batch, q_len=q_len, kv_len=kv_len, head_dim=head_dim)
    check_heads(num_heads, num_kv_heads)
    if not is_causal:
        why = "without is_causal, which counts all pairs"
        arguments.absent(why, window=window)
    pairs, read = q_len * kv_len, kv_len
    if is_causal:
        pairs = causal_pairs(q_len, kv_len)
        if window is not None:
            check_sizes(window=window)
            pairs -= causal_pairs(q_len, kv_len - window)  # those out of sight
            read = min(kv_len, q_len + window - 1) if window * q_len else 0
    flops = 4 * batch * num_heads * pairs * head_dim
    elements = 2 * num_heads * q_len * head_dim  # query and output
    elements += 2 * num_kv_heads * read * head_dim  # key and value
    if not fused:
        elements += 4 * num_heads * q_len * kv_len
    return AttentionCost(flops, batch * elements * bytes_of(dtype))


def causal_pairs(q_len: int, kv_len: int) -> int:
    """Count what the last queries see: ``kv_len``, ``kv_len - 1``, …, 0."""
    last, first = max(kv_len, 0), max(kv_len - q_len, 0)
    return (last * (last + 1) - first * (first + 1)) // 2


def roofline(intensity: float, peak: float, bandwidth: float) -> float:
    """Return the highest rate that a machine allows at this intensity.

    Args:
        intensity: FLOPs for each byte.
        peak: FLOP/s of the machine.
        bandwidth: bytes a second from its memory.

    Returns:
        FLOP/s: the lower of the two roofs.

    Example:
        >>> h100 = {"peak": 989e12, "bandwidth": 3.35e12}  # bf16
        >>> attn.cost.roofline(4.0, **h100) / 1e12  # TFLOP/s, by memory
        13.4

    Source: Williams et al. 2009.
    """
    named = {"intensity": intensity, "peak": peak, "bandwidth": bandwidth}
    for name, x in named.items():
        value = x.item() if isinstance(x, Tensor) and x.ndim == 0 else x
        if not isinstance(value, Real) or not value >= 0:
            raise ValueError(f"{name} must be a number, 0 or more; got {x!r}")
    return min(peak, intensity * bandwidth)


def check_heads(num_heads: int, num_kv_heads: int) -> None:
    """Require as many query heads for each key head."""
    check_sizes(num_heads=num_heads, num_kv_heads=num_kv_heads)
    if not num_kv_heads or not num_heads or num_heads % num_kv_heads:
        raise ValueError(
            "num_heads must be a multiple of num_kv_heads (H % Hkv == 0); "
            f"got {num_heads} and {num_kv_heads}"
        )


def bytes_of(dtype: torch.dtype) -> int:
    """Return the size of an element."""
    if not isinstance(dtype, torch.dtype):
        raise TypeError(f"dtype must be a torch.dtype; got {dtype!r}")
    return dtype.itemsize


def check_sizes(**sizes: int) -> None:
    """Require integers of 0 or more."""
    for name, size in sizes.items():
        arguments.count(name, size, 0)
