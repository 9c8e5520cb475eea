"""Solutions of chapter 10. Each signature and docstring is the task."""

import torch
import torch.nn.functional as F
from attn import apply_rope
from torch import Tensor, nn


class KVCache(nn.Module):
    """Keep the keys and values of every token read so far.

    A call appends those of new tokens and returns all of them, with the
    number that were there before: the position of the first new token.
    It is empty at first. The check feeds a text in chunks of one token
    and of many, in training and evaluation mode and in half precision,
    and makes sure that no later call changes an earlier result. A
    language model that writes has one of these in each layer.
    """

    def __init__(self) -> None:
        """Start without tokens."""
        super().__init__()
        self.key: Tensor | None = None
        self.value: Tensor | None = None

    def forward(
        self, key: Tensor, value: Tensor
    ) -> tuple[Tensor, Tensor, int]:
        """Add new tokens.

        The caller does not change its tensors afterwards.

        Args:
            key: of the new tokens, ``(B, Hkv, L, D)``.
            value: of the new tokens, ``(B, Hkv, L, Dv)``.

        Returns:
            All keys, ``(B, Hkv, S, D)``; all values,
            ``(B, Hkv, S, Dv)``; and ``q_offset``, the number of tokens
            before the new ones, an int.
        """
        q_offset = 0
        if self.key is not None:
            q_offset = self.key.shape[2]
            key = torch.cat([self.key, key], 2)
            value = torch.cat([self.value, value], 2)
        self.key, self.value = key, value
        return key, value, q_offset


def decode_step(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    past_key: Tensor,
    past_value: Tensor,
    cos: Tensor,
    sin: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Let new tokens attend to the past and to each other.

    The past has P tokens; the new ones are at positions P, P + 1, …
    Rotate their queries and keys, ``apply_rope(x, cos, sin)`` with the
    rows of *their* positions, append keys and values to the past, and
    let each new token see all tokens up to itself. PyTorch's attention
    is allowed. The check uses one new token, several, an empty past (a
    prompt), and groups of heads. If only the queries' positions are
    wrong by one, a model writes far worse; if all new ones are, only
    its first words suffer.

    Args:
        query: ``(B, H, L, D)``, not rotated.
        key: ``(B, Hkv, L, D)``, not rotated; Hkv divides H.
        value: ``(B, Hkv, L, Dv)``.
        past_key: ``(B, Hkv, P, D)``, rotated.
        past_value: ``(B, Hkv, P, Dv)``.
        cos: ``(N, D)``, row m for position m.
        sin: ``(N, D)``.

    Returns:
        The output, ``(B, H, L, Dv)``; all keys, rotated, and all
        values, the next step's past.
    """
    P, L = past_key.shape[2], key.shape[2]
    cos, sin = cos[P : P + L], sin[P : P + L]  # (L, D)
    query = apply_rope(query, cos, sin)
    key = torch.cat([past_key, apply_rope(key, cos, sin)], 2)
    value = torch.cat([past_value, value], 2)  # (B, Hkv, P + L, Dv)
    mask = torch.ones(L, P + L, dtype=torch.bool).tril(P)
    out = F.scaled_dot_product_attention(
        query, key, value, mask, enable_gqa=True
    )
    return out, key, value


class StaticCache(nn.Module):
    """Attend over memory of a fixed size that is written in place.

    Memory for ``capacity`` tokens is allocated once, and stays where it
    is. A call writes the new keys and values from ``position`` onwards;
    each new query sees all tokens up to its own position, and nothing
    after it. Keep ``position`` a tensor, never a Python number or a
    slice's bound: a graph that takes it as an input is compiled once
    and serves every step. The check measures memory, writes chunks, and
    goes back to an earlier place.
    """

    def __init__(
        self,
        batch: int,
        num_kv_heads: int,
        capacity: int,
        head_dim: int,
    ) -> None:
        """Allocate the memory, float32.

        Args:
            batch: ``B``.
            num_kv_heads: ``Hkv``.
            capacity: tokens that fit.
            head_dim: ``D``, of keys and of values.
        """
        super().__init__()
        shape = (batch, num_kv_heads, capacity, head_dim)
        self.register_buffer("key", torch.zeros(shape))
        self.register_buffer("value", torch.zeros(shape))

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        position: Tensor,
    ) -> Tensor:
        """Write the new tokens, and attend.

        Args:
            query: ``(B, H, L, D)``, rotated.
            key: ``(B, Hkv, L, D)``, rotated.
            value: ``(B, Hkv, L, D)``.
            position: int64 ``()``, that of the first new token.

        Returns:
            ``(B, H, L, D)``.
        """
        index = position + torch.arange(key.shape[2])  # (L,)
        self.key.index_copy_(2, index, key)
        self.value.index_copy_(2, index, value)
        slots = torch.arange(self.key.shape[2])
        mask = slots <= index[:, None]  # (L, capacity)
        out = F.scaled_dot_product_attention(
            query, self.key, self.value, mask, enable_gqa=True
        )
        return out  # (B, H, L, D)


def sink_cache(
    key: Tensor,
    value: Tensor,
    cos: Tensor,
    sin: Tensor,
    num_sinks: int,
    window: int,
) -> tuple[Tensor, Tensor]:
    """Keep the first and the last tokens, and close the gap.

    Of all tokens read, keep the first ``num_sinks`` and the last
    ``window``, each once, in order. Then rotate the kept keys, with
    ``apply_rope(x, cos, sin)``, by their places *in the cache*: 0, 1,
    2, … without a gap, as StreamingLLM does. The check uses texts
    that are short, long and just long enough, and zeros for either
    number. With this, a model reads a text without end in memory that
    does not grow.

    Args:
        key: of all tokens, ``(B, Hkv, S, D)``, not rotated.
        value: ``(B, Hkv, S, Dv)``.
        cos: ``(N, D)``, row m for place m; N may exceed what is kept.
        sin: ``(N, D)``.
        num_sinks: first tokens to keep, 0 or more.
        window: last tokens to keep, 0 or more.

    Returns:
        The kept keys, rotated, ``(B, Hkv, n, D)``, and the kept values,
        ``(B, Hkv, n, Dv)``.
    """
    S = key.shape[2]
    first = min(num_sinks, S)
    last = max(first, S - window)
    kept = torch.cat([torch.arange(first), torch.arange(last, S)])
    n = len(kept)
    rotated = apply_rope(key[:, :, kept], cos[:n], sin[:n])
    return rotated, value[:, :, kept]


def attention_cost(
    batch: int,
    q_len: int,
    kv_len: int,
    num_heads: int,
    num_kv_heads: int,
    head_dim: int,
    peak: float,
    bandwidth: float,
    dtype: torch.dtype = torch.bfloat16,
    is_causal: bool = False,
) -> tuple[int, int, float, float]:
    """Count what one call of attention costs, and bound its time.

    Count both matrix products, a multiplication with its addition as
    two FLOPs; and query, key, value and output, each moved once: scores
    stay on the chip. The slower of arithmetic and traffic bounds the
    time. The check compares prefill, decoding and chunks, exactly. The
    counts show why more FLOP/s alone would not speed up decoding.

    Args:
        batch: sequences, ``B``.
        q_len: queries in each, ``L``, at most S.
        kv_len: keys in each, ``S``.
        num_heads: query heads, ``H``.
        num_kv_heads: key and value heads, ``Hkv``, a divisor of H.
        head_dim: ``D``, of all four tensors.
        peak: FLOPs a second that the machine computes.
        bandwidth: bytes a second that its memory moves.
        dtype: of all four tensors.
        is_causal: count only pairs that may attend, the queries being
            the last ``L`` of the ``S`` tokens.

    Returns:
        FLOPs, an int; bytes, an int; FLOPs for each byte (arithmetic
        intensity); the least number of seconds.
    """
    before = kv_len - q_len  # keys that every query may see
    pairs = q_len * kv_len
    if is_causal:
        pairs = q_len * before + q_len * (q_len + 1) // 2
    flops = 2 * 2 * batch * num_heads * pairs * head_dim
    rows = num_heads * q_len + num_kv_heads * kv_len
    moved = 2 * batch * rows * head_dim * dtype.itemsize
    seconds = max(flops / peak, moved / bandwidth)
    return flops, moved, flops / moved, seconds
