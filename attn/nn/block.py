"""One layer: attention, a feed-forward, and norms around them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor, nn

from attn.masks import Mask
from attn.nn.attention import MultiHeadAttention
from attn.nn.feed_forward import FeedForward
from attn.nn.norms import LayerNorm

LayerFactory = Callable[[int], nn.Module]
NORM_ORDERS = ("pre", "post", "sandwich")


class TransformerBlock(nn.Module):
    """Attention, then a feed-forward, each added to its input.

    ======== ===================================================
    pre      ``x + f(norm(x))``: GPT-2, Llama
    post     ``norm(x + f(x))``: the first Transformer, BERT
    sandwich ``x + post_norm(f(norm(x)))``: Gemma 2
    parallel ``x + attention(norm(x)) + ffn(norm(x))``: GPT-NeoX
    ======== ===================================================

    Args:
        embed_dim, num_heads: ``E`` and ``H``.
        feed_forward, norm_layer: return one for ``E``; for instance
            ``functools.partial(SwiGLU, hidden_dim=11008)``.
        norm: ``"pre"``, ``"post"`` or ``"sandwich"``.
        parallel: both halves read the same input; with ``"pre"`` only.
        cross_attention: between the two, attend to a ``memory``, which
            should be normalised: a pre-norm encoder ends with a norm.
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
        feed_forward: LayerFactory = FeedForward,
        norm_layer: LayerFactory = LayerNorm,
        norm: str = "pre",
        parallel: bool = False,
        cross_attention: bool = False,
        dropout: float = 0.0,
        **attention: Any,
    ):
        super().__init__()
        if norm not in NORM_ORDERS:
            raise ValueError(
                f"norm must be one of {NORM_ORDERS}; got {norm!r}"
            )
        if parallel and (norm != "pre" or cross_attention):
            raise ValueError(
                "parallel must be False with cross_attention and with any "
                f"norm but 'pre'; got norm={norm!r}"
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
            positional = ("rope", "alibi", "window", "is_causal")
            other = {k: attention[k] for k in attention.keys() - positional}
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
        **options: Any,
    ) -> Any:
        """Compute one layer.

        Args:
            x: ``(B, L, E)``.
            memory: keys and values of the cross-attention, ``(B, S, E)``.
            memory_key_padding_mask: its padding, True = padding, ``(B, S)``.
            attn_mask, need_weights, options: arguments of
                ``MultiHeadAttention.forward`` for the self-attention.

        Returns:
            ``(B, L, E)``; with ``need_weights`` also ``(B, H, L, L)``.
        """
        if (memory is None) != (self.cross_attention is None):
            need = "given with" if memory is None else "None without"
            got = "None" if memory is None else "a tensor"
            raise ValueError(
                f"memory must be {need} cross_attention; got {got}"
            )
        options |= {"attn_mask": attn_mask, "need_weights": need_weights}
        weights = None

        def attend(h: Tensor) -> Tensor:
            nonlocal weights
            out = self.attention(h, average_attn_weights=False, **options)
            if need_weights:
                out, weights = out
            return out

        if self.parallel:
            out = x + self.dropout(attend(self.attention_norm(x)))
            hidden = self.feed_forward(self.feed_forward_norm(x))
            x = out + self.dropout(hidden)
        else:
            x = self._add(x, "attention", attend)
            if self.cross_attention is not None:
                padding = {"key_padding_mask": memory_key_padding_mask}
                look_up = partial(self.cross_attention, key=memory, **padding)
                x = self._add(x, "cross_attention", look_up)
            x = self._add(x, "feed_forward", self.feed_forward)
        return (x, weights) if need_weights else x

    def _add(
        self, x: Tensor, name: str, half: Callable[[Tensor], Tensor]
    ) -> Tensor:
        """Add a half's output to its input, with its norms."""
        norm = getattr(self, f"{name}_norm")
        post_norm = getattr(self, f"{name}_post_norm")
        if self.norm == "post":
            return norm(x + self.dropout(half(x)))
        out = half(norm(x))
        out = out if post_norm is None else post_norm(out)
        return x + self.dropout(out)

    def extra_repr(self) -> str:
        return f"norm={self.norm!r}, parallel={self.parallel}"
