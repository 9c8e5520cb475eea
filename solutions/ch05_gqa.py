"""Solutions of chapter 05. Each signature and docstring is the task."""

import math

import torch
from torch import Tensor, nn


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    """Give every query head its own copy of the head that it shares.

    Head ``h`` of the result is head ``h // n_rep`` of ``x``: each head
    ``n_rep`` times, one copy after the other. The check uses three or
    more axes, views, one head, an ``n_rep`` of 1, and gradients. Models
    have been ported with the copies in the wrong order: they load, and
    talk nonsense.

    Args:
        x: keys or values, ``(..., Hkv, S, D)``.
        n_rep: query heads per key and value head, at least 1.

    Returns:
        ``(..., Hkv * n_rep, S, D)``.
    """
    return x.repeat_interleave(n_rep, dim=-3)


def grouped_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
) -> Tensor:
    """Compute grouped-query attention without copying keys or values.

    Query head ``h`` reads key and value head ``h // G``, with
    ``G = H // Hkv``, scaled by ``1 / sqrt(D)``. Write the products
    yourself: PyTorch's ``scaled_dot_product_attention`` is refused. The
    check also measures memory: a copy of keys or values for each query
    head is too much. (A product with an expanded tensor copies it
    behind your back.) H = Hkv and Hkv = 1 occur, and gradients. Every
    generated token reads the whole cache; a copy is slower still.

    Args:
        query: ``(B, H, L, D)``.
        key: ``(B, Hkv, S, D)``.
        value: ``(B, Hkv, S, Dv)``.
        attn_mask: bool, True = may attend, broadcastable to
            ``(B, H, L, S)``; every query has a key.

    Returns:
        ``(B, H, L, Dv)``.
    """
    B, H, L, D = query.shape
    Hkv = key.shape[1]
    rows = query.reshape(B, Hkv, -1, D)  # (B, Hkv, G * L, D)
    scores = (rows @ key.mT).view(B, H, L, -1) / math.sqrt(D)
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, -math.inf)
    weights = scores.softmax(-1)  # (B, H, L, S)
    weights = weights.view(B, Hkv, -1, weights.shape[-1])
    return (weights @ value).view(B, H, L, -1)  # (B, H, L, Dv)


class GroupedQueryAttention(nn.Module):
    """The attention layer of Llama, without its rotary positions.

    Four ``nn.Linear`` maps without bias: ``q_proj`` to H heads,
    ``k_proj`` and ``v_proj`` to Hkv heads, ``out_proj`` back to E. A
    head has ``head_dim`` features, which need not be ``E // H``. You
    may use your ``grouped_attention``, and anything in PyTorch. The
    check loads its own weights, varies ``num_kv_heads`` from H (MHA) to
    1 (MQA), passes masks, and compares gradients.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        num_kv_heads: int,
        head_dim: int | None = None,
    ):
        """Create the four maps.

        Args:
            embed_dim: ``E``.
            num_heads: ``H``.
            num_kv_heads: ``Hkv``, a divisor of H.
            head_dim: ``D``; ``E // H`` if None.
        """
        super().__init__()
        self.head_dim = head_dim or embed_dim // num_heads
        q_size = num_heads * self.head_dim
        kv_size = num_kv_heads * self.head_dim
        self.q_proj = nn.Linear(embed_dim, q_size, bias=False)
        self.k_proj = nn.Linear(embed_dim, kv_size, bias=False)
        self.v_proj = nn.Linear(embed_dim, kv_size, bias=False)
        self.out_proj = nn.Linear(q_size, embed_dim, bias=False)

    def forward(
        self, x: Tensor, attn_mask: Tensor | None = None
    ) -> Tensor:
        """Let every token of ``x`` attend where the mask allows.

        Args:
            x: ``(B, L, E)``, float32.
            attn_mask: bool, True = may attend, broadcastable to
                ``(B, H, L, L)``; every query has a key.

        Returns:
            ``(B, L, E)``.
        """

        def heads(x: Tensor) -> Tensor:  # (B, L, H * D) to (B, H, L, D)
            return x.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)

        q, k = heads(self.q_proj(x)), heads(self.k_proj(x))
        v = heads(self.v_proj(x))
        out = grouped_attention(q, k, v, attn_mask)  # (B, H, L, D)
        return self.out_proj(out.transpose(1, 2).flatten(2))


def kv_cache_bytes(
    batch: int,
    seq_len: int,
    num_layers: int,
    num_kv_heads: int,
    head_dim: int,
    dtype: torch.dtype = torch.bfloat16,
) -> int:
    """Return the bytes that the keys and values of a batch take.

    Every layer keeps one key and one value for each token and each
    key/value head. ``dtype.itemsize`` is the size of an element in
    bytes. The check compares exact integers for large models. With this
    you can say which model fits a machine before you buy the machine.

    Args:
        batch: sequences, ``B``.
        seq_len: tokens in each, ``S``.
        num_layers: layers of the model.
        num_kv_heads: ``Hkv``.
        head_dim: ``D``, of keys and of values.
        dtype: of the cache.

    Returns:
        Bytes, an int.
    """
    tokens = batch * seq_len
    elements = 2 * tokens * num_layers * num_kv_heads * head_dim
    return elements * dtype.itemsize


def pool_heads(
    weight: Tensor, num_heads: int, num_kv_heads: int
) -> Tensor:
    """Convert a trained MHA key or value projection to GQA.

    Each new head is the mean of the ``G`` old heads whose queries will
    share it, row by row. The check converts weights and biases, down to
    one head, and compares gradients. A few percent of the original
    training then repairs what averaging has broken.

    Args:
        weight: a ``Linear`` weight ``(H * D, E)`` or bias ``(H * D,)``.
        num_heads: ``H``, the old heads.
        num_kv_heads: ``Hkv``, the new heads; divides H.

    Returns:
        ``(Hkv * D, E)`` or ``(Hkv * D,)``, float32.
    """
    group = num_heads // num_kv_heads
    heads = weight.unflatten(0, (num_kv_heads, group, -1))
    return heads.mean(1).flatten(0, 1)  # (Hkv * D, ...)
