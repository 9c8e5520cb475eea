"""Solutions of chapter 04. Each signature and docstring is the task."""

import math

import torch
from torch import Tensor, nn


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """Cut each token's features into heads, and move heads forward.

    Features ``h * D`` to ``(h + 1) * D`` of every token are head ``h``.
    The heads become the third axis from the end, so that a matrix
    product over the last two treats each head separately. The check
    uses any number of leading axes, views, and gradients. A mistake
    here makes the wrong tokens attend to each other, and no shape will
    tell.

    Args:
        x: ``(..., L, H * D)``.
        num_heads: ``H``; always divides the features.

    Returns:
        ``(..., H, L, D)``.
    """
    heads = x.unflatten(-1, (num_heads, -1))  # (..., L, H, D)
    return heads.transpose(-3, -2)  # (..., H, L, D)


def merge_heads(x: Tensor) -> Tensor:
    """Put the heads of each token back side by side.

    This is the inverse of ``split_heads``: features ``h * D`` to
    ``(h + 1) * D`` of every token come from head ``h``. The check uses
    any number of leading axes, heads of any size, views, and gradients.
    After this, one linear map can mix what the heads have found.

    Args:
        x: ``(..., H, L, D)``.

    Returns:
        ``(..., L, H * D)``.
    """
    return x.transpose(-3, -2).flatten(-2)  # (..., L, H * D)


class MultiHeadAttention(nn.Module):
    """Several small attentions side by side, mixed by a final map.

    Four ``nn.Linear`` maps from E to E with bias: ``q_proj``,
    ``k_proj``, ``v_proj``, ``out_proj``. Keys and values come from
    ``kv_input``, or from ``x`` itself. Scores are scaled by the size of
    one head. You may use your ``split_heads`` and ``merge_heads``, and
    anything in PyTorch except ``nn.MultiheadAttention`` and its
    function, ``F.multi_head_attention_forward``. The check loads its
    own weights and tries one head, many heads, cross-attention, masks
    (every query has a key), gradients, and several calls.
    """

    def __init__(self, embed_dim: int, num_heads: int):
        """Create the four maps.

        Args:
            embed_dim: ``E``, features of a token.
            num_heads: ``H``; each head has ``D = E // H`` features.
        """
        super().__init__()
        self.num_heads = num_heads
        self.q_proj = nn.Linear(embed_dim, embed_dim)
        self.k_proj = nn.Linear(embed_dim, embed_dim)
        self.v_proj = nn.Linear(embed_dim, embed_dim)
        self.out_proj = nn.Linear(embed_dim, embed_dim)

    def forward(
        self,
        x: Tensor,
        kv_input: Tensor | None = None,
        attn_mask: Tensor | None = None,
    ) -> Tensor:
        """Let every token of ``x`` attend, once in each head.

        Args:
            x: ``(B, L, E)``, float32, the tokens that attend.
            kv_input: ``(B, S, E)``, the tokens attended to; ``x`` if
                None.
            attn_mask: bool, True = may attend, broadcastable to
                ``(B, H, L, S)``.

        Returns:
            ``(B, L, E)``.
        """
        kv = x if kv_input is None else kv_input
        q, k, v = self.q_proj(x), self.k_proj(kv), self.v_proj(kv)
        q, k, v = (split_heads(t, self.num_heads) for t in (q, k, v))
        scores = q @ k.mT / math.sqrt(q.shape[-1])  # (B, H, L, S)
        if attn_mask is not None:
            scores = scores.masked_fill(~attn_mask, -math.inf)
        out = scores.softmax(-1) @ v  # (B, H, L, D)
        return self.out_proj(merge_heads(out))  # (B, L, E)


def pack_projections(
    q: Tensor, k: Tensor, v: Tensor, num_heads: int | None = None
) -> Tensor:
    """Pack three projections into one, so that one product does all.

    Without ``num_heads``: the rows of ``q``, then those of ``k``, then
    ``v``, as ``nn.MultiheadAttention`` stores them. With it: head by
    head, the ``D`` rows of ``q`` for head 0, of ``k`` for head 0, of
    ``v`` for head 0, then head 1, as in GPT-NeoX and Bloom. Rows are
    output features, as in ``nn.Linear.weight``. The check packs weights
    and biases; without ``num_heads`` the row counts may differ.

    Args:
        q, k, v: weights ``(rows, E)``, or biases ``(rows,)``.
        num_heads: ``H``; then all three have ``H * D`` rows.

    Returns:
        All rows in one tensor, ``(all rows, E)`` or ``(all rows,)``.
    """
    if num_heads is None:
        return torch.cat([q, k, v])
    heads = [x.unflatten(0, (num_heads, -1)) for x in (q, k, v)]
    return torch.cat(heads, 1).flatten(0, 1)  # (H, 3 * D, ...) to rows


def attention_dropout(
    weights: Tensor, keep: Tensor, p: float, training: bool
) -> Tensor:
    """Drop attention weights in training, and only in training.

    The coins are tossed for you: ``keep`` is False, with probability
    ``p``, where a weight is dropped. Scale the others up so that each
    weight keeps its mean over many tosses. Outside training nothing
    happens. The inputs stay as they are. The check includes ``p`` of 0
    and of 1, and gradients. A model that answers differently each time
    it is asked has this wrong.

    Args:
        weights: ``(..., L, S)``.
        keep: bool, the shape of ``weights``; False = drop.
        p: probability that a weight is dropped, 0 to 1.
        training: the module's ``self.training``.

    Returns:
        The weights to multiply the values by, ``(..., L, S)``.
    """
    if not training:
        return weights
    if p == 1:
        return torch.zeros_like(weights)  # no weight is left to scale
    return weights * keep / (1 - p)
