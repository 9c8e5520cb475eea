"""Modules from position ids to RoPE's tables; one forgets the positions."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from attn import arguments
from attn.positions.frequencies import rope_frequencies
from attn.positions.rope import RopeTables, rope_tables
from attn.positions.rope_scaling import RopeFrequencies
from attn.tracing import (
    in_graph,
    in_transform,
    is_shape_only,
    require_values,
)


class Rope(nn.Module):
    """RoPE as a module: from position ids to tables.

    Nothing to learn or to store; the frequencies stay float32 when the
    model changes its dtype.

    Args:
        head_dim: ``D``.
        base, type, scaling: as in ``rope_frequencies``. Types whose
            frequencies depend on the length of the input (dynamic,
            longrope) take it from the positions of each call.
        interleaved: the layout, see ``apply_rope``.

    Example:
        >>> rope = attn.Rope(head_dim=8, base=500000.0)
        >>> x = torch.randn(2, 1, 8).expand(2, 6, 8)  # one token, 6 times
        >>> query, key = attn.apply_rope(x, *rope(torch.arange(6)))
        >>> scores = query @ key.T
        >>> torch.allclose(scores[1, 0], scores[5, 4], atol=1e-5)
        True
    """

    @arguments.named()
    def __init__(
        self,
        head_dim: int,
        base: float = 10000.0,
        type: str = "default",
        *,
        interleaved: bool = False,
        **scaling: Any,
    ):
        super().__init__()
        self.head_dim, self.interleaved = head_dim, interleaved
        named = {"head_dim": head_dim, "base": base, "type": type}
        self._scaling: dict[str, Any] = {**named, **scaling}
        rope_frequencies(**self._scaling)  # raises now if one is wrong
        self._known: dict[torch.device, RopeFrequencies] = {}

    @property
    def arguments(self) -> dict[str, Any]:
        """The keywords that make another like it."""
        return {**self._scaling, "interleaved": self.interleaved}

    def frequencies(self, positions: Tensor) -> RopeFrequencies:
        """Return the frequencies for an input with these positions."""
        arguments.real("positions", positions)
        device = positions.device
        recorded = in_graph()  # a graph keeps nothing
        if not recorded and device in self._known:
            return self._known[device]
        options = {**self._scaling, "device": device}
        depends = options["type"] in ("dynamic", "longrope")
        if depends and positions.numel() and not is_shape_only(positions):
            require_values("which scale the frequencies", positions=positions)
            options["seq_len"] = int(positions.max()) + 1
        found = rope_frequencies(**options)
        plain = type(found.inv_freq) is Tensor and not (
            recorded or in_transform()
        )
        if plain and not (depends or found.inv_freq.is_inference()):
            self._known[device] = found
        return found

    def forward(self, positions: Tensor) -> RopeTables:
        """Map position ids to ``cos`` and ``sin``, as ``rope_tables``."""
        frequencies = self.frequencies(positions)
        return rope_tables(
            positions, frequencies, interleaved=self.interleaved
        )

    def extra_repr(self) -> str:
        said = self.arguments.items()
        return ", ".join(f"{name}={x!r}" for name, x in said)


class NoRope(nn.Module):
    """No positions, in the place of ``Rope`` or of a rotary module.

    Every angle is 0. ``MultiHeadAttention(…, rope=NoRope(head_dim))`` computes
    what it computes without RoPE, and ``model.rotary_emb =
    NoRope(head_dim)`` makes a Llama of transformers forget the order of its
    input. ``head_dim`` is ``D``.

    Example:
        >>> cos, sin = attn.NoRope(4)(torch.arange(3))
        >>> x = torch.randn(2, 3, 4)
        >>> torch.equal(attn.apply_rope(x, cos, sin), x)
        True
    """

    interleaved = False

    def __init__(self, head_dim: int):
        super().__init__()
        arguments.count("head_dim", head_dim)
        self.head_dim = head_dim

    @property
    def arguments(self) -> dict[str, Any]:
        """The keywords that make another like it."""
        return {"head_dim": self.head_dim}

    def forward(
        self,
        x: Tensor,
        position_ids: Tensor | None = None,
        layer_type: str | None = None,
    ) -> RopeTables:
        """Return the tables of angle 0: ones and zeros, ``(B, L, D)``.

        Args:
            x: alone, position ids, ``(L,)`` or ``(B, L)``, as for ``Rope``;
                the tables are float32. With ``position_ids``, as in
                transformers, it gives their dtype and device.
            position_ids: ``(B, L)``, for the shape.
            layer_type: ignored.
        """
        arguments.real("x", x)
        ids, dtype = position_ids, x.dtype
        if ids is None:
            ids, dtype = x, torch.float32
        shape = (*ids.shape, self.head_dim)
        one = torch.ones(shape, dtype=dtype, device=x.device)
        return one, torch.zeros_like(one)

    def extra_repr(self) -> str:
        return f"head_dim={self.head_dim}"
