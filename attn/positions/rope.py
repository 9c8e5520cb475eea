"""RoPE: queries and keys turn with their position.

A head is a list of pairs of numbers, and pair ``i`` turns by its own angle
for each step along the sequence. The product of a turned query and a turned
key depends on the distance between them alone.

Which numbers make a pair is a matter of custom: see ``pairing.py``.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from attn.positions.frequencies import RopeFrequencies, rope_frequencies

Tables = tuple[Tensor, Tensor]


def rope_tables(
    positions: Tensor,
    frequencies: Tensor | RopeFrequencies,
    attention_factor: float | None = None,
    *,
    interleaved: bool = False,
) -> Tables:
    """Cosine and sine of the angle of every number of a head.

    Each angle stands twice, once for either number of its pair.

    Args:
        positions: any numbers, ``(L,)`` or ``(B, L)``: arbitrary ids, an
            offset while decoding, restarts at 0.
        frequencies: what ``rope_frequencies`` gives, or the radians a
            position alone, ``(R / 2,)``.
        attention_factor: factor on both tables; that of ``frequencies``
            when None, else 1.
        interleaved: numbers ``2i`` and ``2i + 1`` are a pair, not ``i`` and
            ``i + R / 2``; see ``convert_pairing``.

    Returns:
        ``cos`` and ``sin``, ``(L, R)`` or ``(B, L, R)``, float32 whatever
        the input: in bfloat16, positions 256 and 257 are the same.

    Source: Su et al. 2021, section 3.4.2.
    """
    if isinstance(frequencies, tuple):
        inv_freq, own_factor = frequencies
    else:
        inv_freq, own_factor = frequencies, 1.0
    if inv_freq.dim() != 1:
        raise ValueError(
            f"frequencies has shape {tuple(inv_freq.shape)}: it needs one "
            "axis, an entry for each pair"
        )
    if positions.dtype in (torch.float16, torch.bfloat16):
        raise TypeError(
            f"positions has dtype {positions.dtype}, which cannot count: it "
            "needs integers (or float32)"
        )
    factor = own_factor if attention_factor is None else attention_factor
    angle = positions[..., None].float() * inv_freq.float()  # (..., L, R/2)
    if interleaved:
        angle = angle.repeat_interleave(2, -1)  # (..., L, R)
    else:
        angle = torch.cat([angle, angle], -1)  # (..., L, R)
    return angle.cos() * factor, angle.sin() * factor


def apply_rope(
    x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool = False
) -> Tensor:
    """Turn the pairs of every head by the angle of their position.

    Args:
        x: queries or keys, ``(..., H, L, D)``; or one head, ``(L, D)``.
        cos, sin: tables for the ``L`` positions, ``(L, R)``, ``(B, L, R)``
            with positions for each row, or of the rank of ``x``. Numbers
            of a head from ``R`` on stay as they are (partial rotary).
        interleaved: the custom about pairs, of ``x`` and of the tables.

    Returns:
        The shape and dtype of ``x``; computed in float32 (float64).

    Raises:
        ValueError: the tables do not fit ``x``, or follow the other custom
            (looked at on the CPU).

    Source: Su et al. 2021, equation 34; transformers
    ``apply_rotary_pos_emb``.
    """
    cos, sin = _fit("cos", cos, x), _fit("sin", sin, x)
    if cos.shape[-1] != sin.shape[-1]:
        raise ValueError(
            f"sin has width {sin.shape[-1]} and cos {cos.shape[-1]}: they "
            "need the same"
        )
    _check_custom(cos, interleaved)
    width = cos.shape[-1]
    dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
    turning = x[..., :width].to(dtype)  # (..., L, R)
    if interleaved:
        first, second = turning[..., 0::2], turning[..., 1::2]
        quarter_turn = torch.stack([-second, first], -1).flatten(-2)
    else:
        first, second = turning.chunk(2, -1)
        quarter_turn = torch.cat([-second, first], -1)
    out = (turning * cos + quarter_turn * sin).to(x.dtype)
    return torch.cat([out, x[..., width:]], -1) if width < x.shape[-1] else out


def _fit(name: str, table: Tensor, x: Tensor) -> Tensor:
    """The table with a head axis where it has a batch axis."""
    if table.dim() < 2 or x.dim() < 2:
        raise ValueError(
            f"{name} has shape {tuple(table.shape)} and x {tuple(x.shape)}: "
            "they need (..., L, R) and (..., L, D)"
        )
    length, width = table.shape[-2:]
    if width % 2 or width > x.shape[-1]:
        raise ValueError(
            f"{name} has width {width} and x head_dim {x.shape[-1]}: it "
            "needs an even number, at most the head_dim"
        )
    if length != x.shape[-2]:
        raise ValueError(
            f"{name} has {length} positions and x {x.shape[-2]}: they need "
            "the same"
        )
    if table.dim() == x.dim() - 1 and x.dim() > 3:
        table = table.unsqueeze(-3)  # (B, 1, L, R)
    batch, wanted = table.shape[:-2], x.shape[:-2]
    if batch and (
        len(batch) != len(wanted)
        or any(n not in (1, m) for n, m in zip(batch, wanted, strict=True))
    ):
        raise ValueError(
            f"{name} has shape {tuple(table.shape)} and x {tuple(x.shape)}: "
            "it needs (L, R), (B, L, R), or axes that broadcast to x's"
        )
    return table


def _check_custom(cos: Tensor, interleaved: bool) -> None:
    """Both numbers of a pair turn by one angle: in which order are they?"""
    if cos.device.type != "cpu" or torch.compiler.is_compiling():
        return
    row = cos.detach().reshape(-1, cos.shape[-1])[-1:]  # of one position
    half = [row[:, : row.shape[1] // 2], row[:, row.shape[1] // 2 :]]
    neighbours = [row[:, 0::2], row[:, 1::2]]
    said, other = (neighbours, half) if interleaved else (half, neighbours)
    if torch.equal(*other) and not torch.equal(*said):
        raise ValueError(
            f"cos was made for interleaved={not interleaved} and apply_rope "
            f"got interleaved={interleaved}: they need the same (see "
            "rope_tables and convert_pairing)"
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
        interleaved: the custom about pairs, see ``apply_rope``.
    """

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
        self.interleaved = interleaved
        self._law = {
            "head_dim": head_dim,
            "base": base,
            "type": type,
            **scaling,
        }
        rope_frequencies(**self._law)  # says now what is wrong

    def frequencies(self, positions: Tensor) -> RopeFrequencies:
        """The frequencies for an input with these positions."""
        law = {**self._law, "device": positions.device}
        if law["type"] in ("dynamic", "longrope") and positions.numel():
            law["seq_len"] = int(positions.max()) + 1
        return rope_frequencies(**law)

    def forward(self, positions: Tensor) -> Tables:
        """Position ids, ``(L,)`` or ``(B, L)``, to ``cos`` and ``sin``.

        Returns:
            Two float32 tables, ``(L, R)`` or ``(B, L, R)``.
        """
        return rope_tables(
            positions,
            self.frequencies(positions),
            interleaved=self.interleaved,
        )

    def extra_repr(self) -> str:
        law = {**self._law, "interleaved": self.interleaved}
        return ", ".join(f"{name}={x!r}" for name, x in law.items())


class NoRope(nn.Module):
    """No positions at all, in the place of a rotary module of transformers.

    ``model.rotary_emb = NoRope(head_dim)`` makes a Llama forget the order
    of its input: every angle is 0.

    Args:
        head_dim: ``D``.
    """

    def __init__(self, head_dim: int):
        super().__init__()
        self.head_dim = head_dim

    def forward(
        self, x: Tensor, position_ids: Tensor, layer_type: str | None = None
    ) -> Tables:
        """The signature of transformers' rotary modules.

        Args:
            x: gives dtype and device.
            position_ids: ``(B, L)``; their values do not matter.
            layer_type: does not matter either.

        Returns:
            ``cos`` of ones and ``sin`` of zeros, ``(B, L, D)``.
        """
        shape = (*position_ids.shape, self.head_dim)
        one = torch.ones(shape, dtype=x.dtype, device=x.device)
        return one, torch.zeros_like(one)
