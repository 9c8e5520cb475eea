"""Count what attention costs: parameters, operations, bytes, and the cache.

Everything here is counted, not measured. A multiplication with its addition
is two floating-point operations (FLOPs); a byte is a byte that has to cross
the memory bus once; nothing is rounded.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

__all__ = [
    "PUBLISHED",
    "AttentionCost",
    "ModelShape",
    "attention_cost",
    "attention_parameters",
    "kv_cache_bytes",
    "roofline",
]


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

    Source: Pope et al. 2022, "Efficiently scaling Transformer inference",
    section 3.3.
    """
    _check(batch=batch, seq_len=seq_len, num_layers=num_layers)
    _check(num_kv_heads=num_kv_heads, head_dim=head_dim)
    tokens = batch * seq_len * num_layers
    return 2 * tokens * num_kv_heads * head_dim * dtype.itemsize


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
        embed_dim, num_heads: ``E`` and ``H``.
        num_kv_heads: ``Hkv``; ``H`` (MHA) when None, 1 for MQA.
        head_dim: ``D``; ``E / H`` when None.
        bias: count a bias for each.

    Returns:
        Elements (not bytes): ``2 * E * H * D + 2 * E * Hkv * D``.
    """
    num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
    _check(embed_dim=embed_dim, num_heads=num_heads, num_kv_heads=num_kv_heads)
    if head_dim is None:
        if num_heads == 0 or embed_dim % num_heads:
            raise ValueError(
                f"embed_dim must be a multiple of num_heads, {num_heads}, or "
                f"head_dim given; got {embed_dim}"
            )
        head_dim = embed_dim // num_heads
    rows = (num_heads + 2 * num_kv_heads) * head_dim
    weights = embed_dim * (rows + num_heads * head_dim)
    return weights + (rows + embed_dim if bias else 0)


class AttentionCost(NamedTuple):
    """Operations and memory traffic of one call."""

    flops: int  # floating-point operations
    bytes: int  # read and written

    @property
    def intensity(self) -> float:
        """Return the FLOPs for each byte."""
        return self.flops / self.bytes


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
    fused: bool = True,
) -> AttentionCost:
    """Count the two matrix products of attention, without projections.

    Reading a prompt (prefill) is ``q_len = kv_len``, causal; one step of
    decoding is ``q_len = 1``.

    Args:
        batch, q_len, kv_len: ``B``, ``L`` and ``S``.
        num_heads, num_kv_heads: ``H`` and ``Hkv``.
        head_dim, dtype: of queries, keys and values, ``D``.
        is_causal: count only pairs that may attend, the queries being the
            last tokens.
        fused: keep the scores on the chip (FlashAttention). Otherwise the
            ``(B, H, L, S)`` scores cross the bus four times: written, read
            and written by the softmax, read.

    Returns:
        ``flops``, ``4 * D`` for each query head and pair; ``bytes`` of
        query, key, value and output, each once, and of the scores.

    Source: Dao et al. 2022, "FlashAttention", section 3; Williams et al.
    2009 (roofline).
    """
    _check(batch=batch, q_len=q_len, kv_len=kv_len, num_heads=num_heads)
    _check(num_kv_heads=num_kv_heads, head_dim=head_dim)
    pairs = q_len * kv_len
    if is_causal:
        first = kv_len - q_len + 1  # keys of the first query
        seen = range(max(first, 0), kv_len + 1)
        pairs = (seen[0] + seen[-1]) * len(seen) // 2 if q_len else 0
    flops = 4 * batch * num_heads * pairs * head_dim
    elements = 2 * num_heads * q_len * head_dim  # query and output
    elements += 2 * num_kv_heads * kv_len * head_dim  # key and value
    if not fused:
        elements += 4 * num_heads * q_len * kv_len
    return AttentionCost(flops, batch * elements * dtype.itemsize)


def roofline(intensity: float, peak: float, bandwidth: float) -> float:
    """Return the highest rate that a machine allows at this intensity.

    Args:
        intensity: FLOPs for each byte.
        peak: FLOP/s of the machine.
        bandwidth: bytes a second from its memory.

    Returns:
        FLOP/s: the lower of the two roofs.

    Source: Williams et al. 2009.
    """
    return min(peak, intensity * bandwidth)


class ModelShape(NamedTuple):
    """The attention of a published model."""

    num_layers: int
    embed_dim: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    source: str
    window: int | None = None  # tokens in its sliding window
    windowed_layers: int = 0  # layers that have it

    def cache_bytes(
        self, batch: int, seq_len: int, dtype: torch.dtype = torch.bfloat16
    ) -> int:
        """Count the bytes of its cache, cut to the window if it has one."""
        short = seq_len if self.window is None else min(seq_len, self.window)
        full = self.num_layers - self.windowed_layers
        heads = (self.num_kv_heads, self.head_dim, dtype)
        return kv_cache_bytes(batch, seq_len, full, *heads) + kv_cache_bytes(
            batch, short, self.windowed_layers, *heads
        )


_META = "Llama 3 report, Grattafiori et al. 2024, table 3"
#: Shapes of published models, by name.
PUBLISHED = {
    "GPT-2": ModelShape(12, 768, 12, 12, 64, "transformers GPT2Config"),
    "Llama-2-7B": ModelShape(32, 4096, 32, 32, 128, "its config.json"),
    # Falcon's config says num_kv_heads 71; multi_query makes that 1.
    "Falcon-7B": ModelShape(
        32, 4544, 71, 1, 64, "its config.json, multi_query"
    ),
    "Llama-2-70B": ModelShape(80, 8192, 64, 8, 128, "its config.json"),
    "Mistral-7B-v0.1": ModelShape(
        32, 4096, 32, 8, 128, "Jiang et al. 2023, table 1", 4096, 32
    ),
    "Llama-3-8B": ModelShape(32, 4096, 32, 8, 128, _META),
    "Llama-3-70B": ModelShape(80, 8192, 64, 8, 128, _META),
    "Gemma-2-9B": ModelShape(
        42, 3584, 16, 8, 256, "Gemma 2 report, 2024, table 1", 4096, 21
    ),
    "Qwen3-8B": ModelShape(
        36, 4096, 32, 8, 128, "its model card and config.json"
    ),
}


def _check(**sizes: int) -> None:
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, int) or size < 0:
            raise ValueError(f"{name} must be an int, 0 or more; got {size!r}")
