"""The lightning indexer: choose keys by a few narrow heads."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from attn import arguments
from attn.functional import index_scores, split_heads
from attn.masks.chosen import choose
from attn.masks.combine import combine_masks
from attn.nn import validation
from attn.nn.norms import LayerNorm, placed
from attn.positions import NoRope, Rope
from attn.positions.rope import rotate_pairs


class LightningIndexer(nn.Module):
    """Score keys for ``masks.top_k``, at a fraction of the attention's cost.

    Its keys have one narrow head, which is cached beside the latents. The
    parameters have the names of DeepSeek-V3.2, whose state dict loads as it
    is. ``functional.indexer_loss`` trains it.

    Args:
        embed_dim: of the tokens, ``E``.
        num_heads, head_dim: of the indexer, ``H`` and ``D``.
        q_dim: size of the queries' input, the latent query of the attention
            (``q_lora_rank``); ``E``, for the tokens themselves, when None.
        rope: rotates the **first** elements of each head, as many as its
            ``head_dim``. DeepSeek-V3.2 has halves here, although its
            attention is interleaved; GLM has interleaved pairs in both.
        top_k: keys that ``LatentAttention`` keeps for each query.
        norm_eps: of the norm of the keys.
        device, dtype: of the parameters.

    Raises:
        ValueError, TypeError: a size is no size, or ``rope`` does not fit.

    Example:
        >>> indexer = attn.nn.LightningIndexer(
        ...     embed_dim=64, num_heads=4, head_dim=16, top_k=8,
        ...     rope=attn.Rope(head_dim=8),
        ... )
        >>> x = torch.randn(2, 20, 64)  # (B, L, E)
        >>> scores = indexer.scores(x)  # (B, L, S), nothing masked
        >>> mask = attn.masks.top_k(scores, indexer.top_k, attn.causal())
        >>> int(mask.dense(20, batch=2).sum(-1).max())
        8

    Source: DeepSeek-AI 2025, "DeepSeek-V3.2", section 2.1; transformers
    ``DeepseekV32Indexer``, which leaves out the Hadamard rotation and FP8.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        head_dim: int,
        *,
        q_dim: int | None = None,
        rope: Rope | NoRope | None = None,
        top_k: int = 2048,
        norm_eps: float = 1e-6,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__()
        q_dim = embed_dim if q_dim is None else q_dim
        arguments.counts(embed_dim=embed_dim, q_dim=q_dim, top_k=top_k)
        arguments.counts(num_heads=num_heads, head_dim=head_dim)
        validation.rope(rope, head_dim, is_part=True)
        self.num_heads, self.head_dim, self.top_k = num_heads, head_dim, top_k
        self.rope = rope
        linear = partial(nn.Linear, bias=False, device=device, dtype=dtype)
        self.wq_b = linear(q_dim, num_heads * head_dim)
        self.wk = linear(embed_dim, head_dim)
        self.k_norm = placed(LayerNorm(head_dim, norm_eps), self.wk.weight)
        self.weights_proj = linear(embed_dim, num_heads)

    def keys(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        """Return the keys of tokens, which a cache may keep, ``(B, S, D)``."""
        key = self.k_norm(self.wk(x))  # (B, S, D)
        return self._rotate(key[:, None], positions)[:, 0]

    def scores(
        self,
        x: Tensor,
        q_resid: Tensor | None = None,
        positions: Tensor | None = None,
        *,
        key: Tensor | None = None,
    ) -> Tensor:
        """Score the keys for each token.

        Args:
            x: the tokens, ``(B, L, E)``.
            q_resid: what the queries are made of, ``(B, L, q_dim)``; ``x``
                when None.
            positions: of the tokens, ``(L,)`` or ``(B, L)``; 0, 1, 2, …
                when None.
            key: of all tokens so far, ``(B, S, D)``; those of ``x`` when
                None.

        Returns:
            ``(B, L, S)``, float32 (float64 for float64), nothing masked.
        """
        key = self.keys(x, positions) if key is None else key
        query = self.wq_b(x if q_resid is None else q_resid)
        query = split_heads(query, self.num_heads)  # (B, H, L, D)
        weights = self.weights_proj(x)  # (B, L, H)
        factor = (self.num_heads * self.head_dim) ** -0.5
        wide = torch.promote_types(weights.dtype, torch.float32)
        query = self._rotate(query, positions)
        return index_scores(query, key, weights.to(wide) * factor)

    def choose(
        self,
        x: Tensor,
        q_resid: Tensor | None = None,
        positions: Tensor | None = None,
        *,
        key: Tensor | None = None,
        limits: Tensor | None = None,
    ) -> Tensor | None:
        """Return a mask of the ``top_k`` keys of each token.

        Args:
            x, q_resid, positions, key: as in ``scores``.
            limits: what may attend, bool, or float with ``-inf``,
                broadcastable to ``(B, H, L, S)``. A key that some head may
                attend to can be chosen.

        Returns:
            ``limits`` without the keys that are not chosen,
            ``(B, 1 or H, L, S)``; ``limits`` itself when all are. Gradients
            reach a float ``limits``, and never the indexer.
        """
        keys = x.shape[1] if key is None else key.shape[1]
        if keys <= self.top_k:
            return limits
        with torch.no_grad():
            scores = self.scores(x, q_resid, positions, key=key)[:, None]
        allowed = limits
        if allowed is not None and allowed.dtype != torch.bool:
            allowed = allowed > -torch.inf
        if allowed is not None and allowed.dim() > 2:
            allowed = allowed.any(-3, keepdim=True)
        chosen = choose(scores, self.top_k, allowed, None)  # (B, 1, L, S)
        mask = combine_masks(limits, chosen)
        assert isinstance(mask, Tensor)
        return mask

    def _rotate(self, x: Tensor, positions: Tensor | None) -> Tensor:
        """Rotate the first elements of heads, ``(B, H, L, D)``."""
        if self.rope is None:
            return x
        if positions is None:
            positions = torch.arange(x.shape[2], device=x.device)
        cos, sin = self.rope(positions)
        return rotate_pairs(x, cos, sin, self.rope.interleaved)

    def extra_repr(self) -> str:
        names = ("num_heads", "head_dim", "top_k")
        return ", ".join(f"{name}={getattr(self, name)}" for name in names)


def take_chosen(
    entries: Tensor, mask: Tensor, top_k: int
) -> tuple[Tensor, Tensor]:
    """Return the entries that one query may attend to, and their mask."""
    mask = mask.expand(entries.shape[0], -1, -1, -1)
    allowed = mask if mask.dtype == torch.bool else mask > -torch.inf
    index = allowed.any(1, keepdim=True).int().topk(top_k).indices
    width = entries.shape[-1]
    taken = entries.gather(2, index.mT.expand(-1, -1, -1, width))
    return taken, mask.gather(-1, index.expand(-1, mask.shape[1], -1, -1))
