"""One layer: attention, a feed-forward, and norms around them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor, nn

from attn import arguments
from attn.masks import Mask
from attn.nn import validation
from attn.nn.attention import MultiHeadAttention
from attn.nn.feed_forward import feed_forward_factory
from attn.nn.linear import STATE_LAYERS, state_layer_class
from attn.nn.norms import LayerFactory, norm_factory

NORM_ORDERS = ("pre", "post", "sandwich", "parallel")
# What a call says about the queries and keys of self-attention alone.
_OF_SELF_ATTENTION = (
    "is_causal",
    "cache",
    "lengths",
    "q_offset",
    "key_positions",
)


class TransformerBlock(nn.Module):
    """Attention, then a feed-forward, each added to its input.

    ======== ===================================================
    pre      ``x + f(norm(x))``: GPT-2, Llama
    post     ``norm(x + f(x))``: the first Transformer, BERT
    sandwich ``x + post_norm(f(norm(x)))``: Gemma 2
    parallel ``x + attention(norm(x)) + ffn(norm(x))``: GPT-NeoX
    ======== ===================================================

    Args:
        embed_dim: ``E``.
        num_heads: ``H``.
        norm_order: a row of the table.
        norm, norm_eps: ``"layer"`` or ``"rms"``, and its epsilon (its own
            when None); or what makes a norm for ``E``.
        feed_forward: ``"gelu"``, ``"gelu_tanh"``, ``"relu"``, ``"silu"``,
            with a gate ``"swiglu"``, ``"geglu"``, ``"geglu_tanh"``,
            ``"reglu"``, or ``"none"``; or what makes one for ``E``.
        hidden_dim: of a feed-forward; as in ``FeedForward`` and ``SwiGLU``
            when None.
        ffn_bias: of a feed-forward; as the attention's ``bias`` when None.
        self_attention: attend to the tokens themselves.
        cross_attention: attend to a ``memory``, after the tokens or, without
            ``self_attention``, instead of them.
        memory_norm: normalise the memory, by a norm of its own. Without,
            it should come normalised: a pre-norm encoder ends with a norm.
        dropout: of attention weights and of each half's output.
        attention: what attends: ``MultiHeadAttention`` with the
            implementation of this name (``impl``); ``"linear"`` or
            ``"gated_delta"``, a layer with a state; or a class with its
            ``forward``, which gets its keywords where they are given.
        options: every other argument of ``MultiHeadAttention``. What is
            about order stays out of the cross-attention: ``rope``,
            ``alibi``, ``window``, and ``is_causal``, which is False unless
            given, as in every layer of PyTorch.

    Raises:
        ValueError: options exclude each other.

    Example:
        >>> block = attn.TransformerBlock(
        ...     embed_dim=64, num_heads=8, norm="rms", feed_forward="swiglu",
        ...     is_causal=True, rope=attn.Rope(head_dim=8),
        ... )
        >>> block(torch.randn(2, 10, 64)).shape
        torch.Size([2, 10, 64])

        Residual and norm inside the attention, as in the first Transformer:
        ``TransformerBlock(E, H, norm_order="post", norm_eps=1e-6,
        feed_forward="none", bias=False)``. With ``self_attention=False,
        cross_attention=True`` its keys and values are the memory.

    Source: Vaswani et al. 2017; Xiong et al. 2020 (pre and post); Wang and
    Komatsuzaki 2021, GPT-J (parallel).
    """

    # None where the block has no such half.
    attention: Any
    cross_attention: Any
    feed_forward: Any
    attention_norm: Any
    feed_forward_norm: Any

    @arguments.named()
    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        *,
        norm_order: str = "pre",
        norm: str | LayerFactory = "layer",
        norm_eps: float | None = None,
        feed_forward: str | LayerFactory = "gelu",
        hidden_dim: int | None = None,
        ffn_bias: bool | None = None,
        self_attention: bool = True,
        cross_attention: bool = False,
        memory_norm: bool = False,
        dropout: float = 0.0,
        attention: str | Callable[..., nn.Module] = "auto",
        **options: Any,
    ):
        super().__init__()
        check_halves(
            norm_order,
            feed_forward,
            self_attention=self_attention,
            cross_attention=cross_attention,
            memory_norm=memory_norm,
        )
        self.norm_order = norm_order
        make_norm = norm_factory(norm, norm_eps)
        bias = options.get("bias", True)
        make_ffn = feed_forward_factory(
            feed_forward, hidden_dim, ffn_bias, bias
        )
        if cross_attention and state_layer_class(attention):
            raise ValueError(
                "cross_attention must be False with a layer that has a state, "
                "which reads no memory; got True"
            )
        if attention in STATE_LAYERS:
            attention = STATE_LAYERS[attention]
        elif isinstance(attention, str):
            validation.implementation("attention", attention)
            attention = partial(MultiHeadAttention, impl=attention)
        if dropout:
            options["dropout"] = dropout
        if norm_eps is not None and options.get("qk_norm"):
            options.setdefault("norm_eps", norm_eps)
        positional = ("rope", "alibi", "window", "is_causal")
        other = {k: options[k] for k in options.keys() - positional}

        def half(name: str, make: Callable[[], nn.Module] | None) -> None:
            """Add a half and its norms; None where there is none."""
            has_post_norm = make and norm_order == "sandwich"
            after = make_norm(embed_dim) if has_post_norm else None
            self.add_module(f"{name}_norm", make and make_norm(embed_dim))
            self.add_module(name, make and make())
            self.add_module(f"{name}_post_norm", after)

        make = partial(attention, embed_dim, num_heads)
        own, cross = partial(make, **options), partial(make, **other)
        half("attention", own if self_attention else None)
        half("cross_attention", cross if cross_attention else None)
        half("feed_forward", make_ffn and partial(make_ffn, embed_dim))
        self.memory_norm = make_norm(embed_dim) if memory_norm else None
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
            attn_mask: as in ``MultiHeadAttention.forward``, of the tokens
                or, without self-attention, of the memory.
            memory: keys and values of the cross-attention, ``(B, S, E)``.
            memory_key_padding_mask: its padding, True = padding, ``(B, S)``.
            need_weights: also return the weights, of the attention that
                ``attn_mask`` is of.
            options: arguments of ``MultiHeadAttention.forward`` for the
                self-attention.

        Returns:
            ``(B, L, E)``; with ``need_weights`` also ``(B, H, L, S)``.

        Raises:
            ValueError: an argument is missing, or has no use.
        """
        arguments.flag("need_weights", need_weights)
        if (memory is None) != (self.cross_attention is None):
            need = "given with" if memory is None else "None without"
            got = "None" if memory is None else "a tensor"
            raise ValueError(
                f"memory must be {need} cross_attention; got {got}"
            )
        if memory is not None and self.memory_norm is not None:
            memory = self.memory_norm(memory)
        if self.attention is None:
            unused = {x: options.get(x) for x in _OF_SELF_ATTENTION}
            arguments.absent("for a block without self_attention", **unused)
        inputs: dict[str, dict[str, Any]] = {
            "attention": options,
            "cross_attention": {
                "key": memory,
                "key_padding_mask": memory_key_padding_mask,
            },
            "feed_forward": {},
        }
        first = "cross_attention" if self.attention is None else "attention"
        inputs[first]["attn_mask"] = attn_mask
        if need_weights:
            inputs[first] |= {
                "need_weights": True,
                "average_attn_weights": False,
            }
        weights, start = None, x
        norm_order, dropout = self.norm_order, self.dropout
        for name, given in inputs.items():
            if (half := getattr(self, name)) is None:
                continue
            norm = getattr(self, f"{name}_norm")
            read = start if norm_order == "parallel" else x
            out = half(read if norm_order == "post" else norm(read), **given)
            if need_weights and name == first:
                out, weights = out
            if norm_order == "sandwich":
                out = getattr(self, f"{name}_post_norm")(out)
            x = x + (dropout(out) if dropout.training else out)
            if norm_order == "post":
                x = norm(x)
        return (x, weights) if need_weights else x

    def extra_repr(self) -> str:
        return f"norm_order={self.norm_order!r}"


def check_halves(
    norm_order: str,
    feed_forward: str | LayerFactory,
    *,
    self_attention: bool,
    cross_attention: bool,
    memory_norm: bool,
) -> None:
    """Require halves that make a block."""
    arguments.choice("norm_order", norm_order, NORM_ORDERS)
    if not (self_attention or cross_attention):
        raise ValueError(
            "self_attention or cross_attention must be True; got False twice"
        )
    if norm_order == "parallel" and (
        cross_attention or feed_forward == "none"
    ):
        raise ValueError(
            "norm_order must not be 'parallel' with cross_attention or "
            "without a feed_forward: both halves read the same input; got "
            f"cross_attention={cross_attention} and "
            f"feed_forward={feed_forward!r}"
        )
    if memory_norm and not cross_attention:
        raise ValueError(
            "memory_norm must be False without cross_attention; got True"
        )
