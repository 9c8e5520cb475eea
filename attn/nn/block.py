"""One layer: attention, a feed-forward, and norms where one puts them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from attn.masks import Mask
from attn.nn.attention import MultiHeadAttention
from attn.nn.feed_forward import FeedForward
from attn.nn.norms import LayerNorm

Make = Callable[[int], nn.Module]
PLACES = ("pre", "post", "sandwich")


class TransformerBlock(nn.Module):
    """Attention, then a feed-forward, each added to what came in.

    ======== ===================================================
    pre      ``x + f(norm(x))``: GPT-2, Llama
    post     ``norm(x + f(x))``: the first Transformer, BERT
    sandwich ``x + post_norm(f(norm(x)))``: Gemma 2
    parallel ``x + attention(norm(x)) + ffn(norm(x))``: GPT-NeoX
    ======== ===================================================

    Args:
        embed_dim: ``E``.
        num_heads: ``H``.
        feed_forward: makes the feed-forward, given ``E``; for instance
            ``functools.partial(SwiGLU, hidden_dim=11008)``.
        norm_layer: makes a norm, given ``E``.
        norm: ``"pre"``, ``"post"`` or ``"sandwich"``.
        parallel: both halves read the same input; with ``"pre"`` only.
        cross_attention: between the two, attend to a ``memory``. It should
            come out of a norm: a pre-norm encoder ends with one.
        dropout: of attention weights and of each half's output.
        attention: every other argument of ``MultiHeadAttention``.

    Raises:
        ValueError: options exclude each other.

    Source: Vaswani et al. 2017; Xiong et al. 2020 (pre and post); Wang and
    Komatsuzaki 2021, GPT-J (parallel).
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        *,
        feed_forward: Make = FeedForward,
        norm_layer: Make = LayerNorm,
        norm: str = "pre",
        parallel: bool = False,
        cross_attention: bool = False,
        dropout: float = 0.0,
        **attention: Any,
    ):
        super().__init__()
        if norm not in PLACES:
            raise ValueError(f"norm is {norm!r}: it needs one of {PLACES}")
        if parallel and (norm != "pre" or cross_attention):
            raise ValueError(
                "parallel is True: it needs norm='pre' and no cross_attention"
            )
        self.norm, self.parallel = norm, parallel
        attention["dropout"] = dropout

        def post() -> nn.Module | None:
            return norm_layer(embed_dim) if norm == "sandwich" else None

        self.attention_norm = norm_layer(embed_dim)
        self.attention = MultiHeadAttention(embed_dim, num_heads, **attention)
        self.attention_post_norm = post()
        self.cross_attention: nn.Module | None = None
        if cross_attention:
            of_self = ("rope", "alibi", "window", "is_causal")
            other = {k: v for k, v in attention.items() if k not in of_self}
            self.cross_attention_norm = norm_layer(embed_dim)
            self.cross_attention = MultiHeadAttention(
                embed_dim, num_heads, **other
            )
            self.cross_attention_post_norm = post()
        self.feed_forward_norm = norm_layer(embed_dim)
        self.feed_forward = feed_forward(embed_dim)
        self.feed_forward_post_norm = post()
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Tensor,
        attn_mask: Tensor | Mask | None = None,
        *,
        memory: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        need_weights: bool = False,
        **others: Any,
    ) -> Any:
        """One layer.

        Args:
            x: ``(B, L, E)``.
            attn_mask: of the self-attention.
            memory: what the cross-attention reads, ``(B, S, E)``.
            memory_key_padding_mask: its padding, True = padding, ``(B, S)``.
            need_weights: return the self-attention's weights too.
            others: arguments of ``MultiHeadAttention.forward`` for the
                self-attention.

        Returns:
            ``(B, L, E)``; with ``need_weights`` also ``(B, H, L, L)``.
        """
        if (memory is None) != (self.cross_attention is None):
            raise ValueError(
                "memory and cross_attention go together: the block has "
                f"{'no' if self.cross_attention is None else 'a'} "
                f"cross-attention and memory is "
                f"{'missing' if memory is None else 'given'}"
            )
        weights: list[Tensor] = []

        def attend(h: Tensor) -> Tensor:
            if not need_weights:
                return self.attention(h, attn_mask=attn_mask, **others)
            out, seen = self.attention(
                h,
                attn_mask=attn_mask,
                need_weights=True,
                average_attn_weights=False,
                **others,
            )
            weights.append(seen)
            return out

        if self.parallel:
            out = x + self.dropout(attend(self.attention_norm(x)))
            ahead = self.feed_forward(self.feed_forward_norm(x))
            x = out + self.dropout(ahead)
        else:
            x = self._add(
                x, attend, self.attention_norm, self.attention_post_norm
            )
            if self.cross_attention is not None:
                look = self.cross_attention
                x = self._add(
                    x,
                    lambda h: look(
                        h, memory, key_padding_mask=memory_key_padding_mask
                    ),
                    self.cross_attention_norm,
                    self.cross_attention_post_norm,
                )
            x = self._add(
                x,
                self.feed_forward,
                self.feed_forward_norm,
                self.feed_forward_post_norm,
            )
        return (x, weights[0]) if need_weights else x

    def _add(
        self,
        x: Tensor,
        half: Callable[[Tensor], Tensor],
        norm: nn.Module,
        post_norm: nn.Module | None,
    ) -> Tensor:
        """Here, and only here, a norm and a residual meet."""
        if self.norm == "post":
            return norm(x + self.dropout(half(x)))
        out = half(norm(x))
        out = out if post_norm is None else post_norm(out)
        return x + self.dropout(out)

    def extra_repr(self) -> str:
        return f"norm={self.norm!r}, parallel={self.parallel}"
