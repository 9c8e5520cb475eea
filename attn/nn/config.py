"""The configuration of a model: one field for each choice, and JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from attn.functional.validation import Window
from attn.nn import config_checks, position_kinds
from attn.nn.config_checks import is_each_layer
from attn.nn.norms import LayerFactory


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class TransformerConfig:
    """Describe a ``Transformer``: one field for each choice.

    ``positions`` and ``is_causal`` have no default: a model without an
    order, or one that sees the future, would train and be wrong.

    Args:
        vocab_size: ``V``.
        embed_dim: ``E``.
        num_layers: number of blocks.
        num_heads: ``H``.
        positions: ``"rope"``, ``"learned"`` (needs ``max_positions``),
            ``"sinusoidal"``, ``"alibi"`` or ``"none"``; or an object, of
            which each model gets a copy: ``Rope(D, base=5e5)``,
            ``NoRope(D)``, ``LearnedPositions``, ``SinusoidalPositions``, a
            module from position ids to vectors that are added. In JSON,
            ``{"rope": {"base": 5e5}}``.
        is_causal: True for a decoder, which predicts; False for an encoder.
        max_positions: the number of ``"learned"`` positions; the others
            have no limit and do not use it.
        num_kv_heads, head_dim, value_dim: as in ``MultiHeadAttention``.
        attention: the implementation of every ``MultiHeadAttention``;
            ``"linear"`` or ``"gated_delta"``, or a class in its place, as in
            ``TransformerBlock``. A sequence has one for each layer, for a
            hybrid; fields that only softmax attention has do not reach the
            layers with a state.
        window, scale: as in ``MultiHeadAttention``, one for all layers, or
            a sequence with one for each.
        softcap, qk_norm, sinks, gate, packed: as in ``MultiHeadAttention``.
        bias, out_bias, ffn_bias: of the query, key and value projections, of
            the output's and of the feed-forward; as ``bias`` when None.
        norm, norm_eps, norm_order: as in ``TransformerBlock``.
        feed_forward, hidden_dim: as in ``TransformerBlock``.
        self_attention, cross_attention, memory_norm: what a block attends
            to, the tokens or a memory, as in ``TransformerBlock``.
        segments: number of learned segment vectors (BERT's token types).
        embed_scale: factor on the token embeddings (the first Transformer
            and Gemma: ``E ** 0.5``).
        embed_norm: a norm after the embeddings (BERT, Bloom).
        head: end with logits; False ends with the hidden states.
        tied: the head shares its weights with the token embeddings.
        final_softcap: squash the logits (Gemma 2).
        dropout: of the embeddings, the attention weights, and each half's
            output; in training only.

    Raises:
        TypeError: a field is unknown (the error suggests one), missing, or
            of a wrong kind.
        ValueError: a value is out of range, or fields contradict each other.

    Example:
        >>> import dataclasses
        >>> config = attn.TransformerConfig(
        ...     vocab_size=256, embed_dim=64, num_layers=2, num_heads=4,
        ...     positions="rope", is_causal=True, num_kv_heads=2,
        ...     norm="rms", feed_forward="swiglu", bias=False,
        ... )
        >>> attn.TransformerConfig.from_json(config.to_json()) == config
        True
        >>> dataclasses.replace(config, positions="alibi").positions
        'alibi'
    """

    vocab_size: int
    embed_dim: int
    num_layers: int = field(metadata={"least": 0})
    num_heads: int
    positions: str | nn.Module | Mapping[str, Any]
    is_causal: bool
    max_positions: int | None = None
    num_kv_heads: int | None = None
    head_dim: int | None = None
    value_dim: int | None = None
    attention: (
        str
        | Callable[..., nn.Module]
        | Sequence[str | Callable[..., nn.Module]]
    ) = "auto"
    window: Window | Sequence[Window | None] | None = None
    scale: float | Sequence[float] | None = None
    softcap: float | None = None
    qk_norm: bool = False
    sinks: bool = False
    gate: bool = False
    packed: bool = False
    bias: bool = True
    out_bias: bool | None = None
    norm: str | LayerFactory = "layer"
    norm_eps: float | None = None
    norm_order: str = "pre"
    feed_forward: str | LayerFactory = "gelu"
    hidden_dim: int | None = None
    ffn_bias: bool | None = None
    self_attention: bool = True
    cross_attention: bool = False
    memory_norm: bool = False
    segments: int = field(default=0, metadata={"least": 0})
    embed_scale: float = 1.0
    embed_norm: bool = False
    head: bool = True
    tied: bool = True
    final_softcap: float | None = None
    dropout: float = 0.0

    def __new__(cls, **given: Any) -> TransformerConfig:
        """Refuse unknown fields, and missing ones that need a word."""
        names = [f.name for f in dataclasses.fields(cls)]
        config_checks.names(given, names)
        return super().__new__(cls)

    def __post_init__(self) -> None:
        for f in dataclasses.fields(self):
            config_checks.kind(f, getattr(self, f.name))
        config_checks.parts(self)
        positions = position_kinds.parse(self.positions, self._sizes)
        object.__setattr__(self, "positions", positions)
        for name in ("window", "scale", "attention"):
            parsed = config_checks.each_layer(self, name)
            object.__setattr__(self, name, parsed)
        config_checks.without_self_attention(self)
        config_checks.layers_with_a_state(self)

    @property
    def _sizes(self) -> dict[str, int | None]:
        """The sizes of positions."""
        return {
            "E": self.embed_dim,
            "head_dim": self.head_dim or self.embed_dim // self.num_heads,
            "max_positions": self.max_positions,
        }

    def build_positions(self) -> position_kinds.ModelPositions:
        """Return new modules for the positions of one model."""
        return position_kinds.build(self.positions, self._sizes)

    def of_layer(self, name: str, layer: int) -> Any:
        """Return ``window``, ``scale`` or ``attention`` of one block."""
        value = getattr(self, name)
        return value[layer] if is_each_layer(name, value) else value

    def to_dict(self) -> dict[str, Any]:
        """Return every field as JSON has it.

        Raises:
            TypeError: a field holds a class or an object of your own.
        """
        plain = self._plain()
        for name, x in plain.items():
            try:
                json.dumps(x, allow_nan=False)
            except (TypeError, ValueError) as error:
                raise TypeError(
                    f"{name} must be a name, a number or positions of attn "
                    f"to be written as JSON; got {getattr(self, name)!r}"
                ) from error
        return json.loads(json.dumps(plain))

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> TransformerConfig:
        """Return the configuration of ``to_dict``, or of a part of it."""
        return cls(**fields)

    def to_json(self) -> str:
        """Return ``to_dict`` as text."""
        return json.dumps(self.to_dict(), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> TransformerConfig:
        """Return the configuration of ``to_json``."""
        return cls.from_dict(json.loads(text))

    def _plain(self) -> dict[str, Any]:
        """Return every field, as JSON has it where it can."""
        values = {
            f.name: getattr(self, f.name) for f in dataclasses.fields(self)
        }
        return values | {"positions": position_kinds.to_plain(self.positions)}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TransformerConfig):
            return NotImplemented
        return self._plain() == other._plain()

    def __repr__(self) -> str:
        """Show what differs from the defaults, a field a line."""
        said = {
            f.name: getattr(self, f.name)
            for f in dataclasses.fields(self)
            if getattr(self, f.name) != f.default
        }
        lines = "".join(f"    {name}={x!r},\n" for name, x in said.items())
        return f"TransformerConfig(\n{lines})"
