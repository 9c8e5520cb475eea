"""RoPE: rotate queries and keys by their position.

A head is a list of pairs, and pair ``i`` rotates by its own angle for each
step along the sequence. The product of a rotated query and a rotated key
depends on the distance between them alone.

``layout.py`` says which elements make a pair, ``rope_modules.py`` has the
modules that go from position ids to tables.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attn import arguments, tracing
from attn.positions.rope_scaling import RopeFrequencies

RopeTables = tuple[Tensor, Tensor]


@arguments.named()
def rope_tables(
    positions: Tensor,
    frequencies: Tensor | RopeFrequencies,
    attention_factor: float | None = None,
    *,
    interleaved: bool = False,
) -> RopeTables:
    """Return cosine and sine of the angle of every element of a head.

    Each angle is there twice, once for either element of its pair.

    Args:
        positions: ``(L,)`` or ``(B, L)``, any numbers: arbitrary ids, an
            offset while decoding, restarts at 0.
        frequencies: the result of ``rope_frequencies``, or its ``inv_freq``
            alone, ``(R / 2,)``.
        attention_factor: factor on both tables; that of ``frequencies``
            when None, 1 without any.
        interleaved: elements ``2i`` and ``2i + 1`` are a pair, not ``i`` and
            ``i + R / 2``; see ``convert_pairing``.

    Returns:
        ``cos`` and ``sin``, ``(L, R)`` or ``(B, L, R)``, float32 whatever
        the input: in bfloat16, positions 256 and 257 are the same.

    Example:
        >>> positions = torch.tensor([0, 1])
        >>> cos, sin = attn.rope_tables(positions, attn.rope_frequencies(4))
        >>> cos  # each angle twice: elements 0 and 2 are a pair
        tensor([[1.0000, 1.0000, 1.0000, 1.0000],
                [0.5403, 0.9999, 0.5403, 0.9999]])

    Source: Su et al. 2021, section 3.4.2.
    """
    arguments.real("positions", positions)
    if isinstance(frequencies, Tensor):
        frequencies = RopeFrequencies(frequencies)
    need = "those of rope_frequencies, or their inv_freq"
    arguments.instance("frequencies", frequencies, RopeFrequencies, need)
    inv_freq, factor = frequencies
    if inv_freq.dim() != 1:
        raise ValueError(
            "frequencies must have one axis, an entry for each pair; got "
            f"shape {tuple(inv_freq.shape)}"
        )
    if positions.dtype in (torch.float16, torch.bfloat16):
        raise TypeError(
            f"positions must be integers or float32; got {positions.dtype}, "
            "which cannot count"
        )
    factor = factor if attention_factor is None else attention_factor
    angle = positions[..., None].float() * inv_freq.float()  # (..., L, R/2)
    if interleaved:
        angle = angle.repeat_interleave(2, -1)  # (..., L, R)
    else:
        angle = torch.cat([angle, angle], -1)  # (..., L, R)
    return angle.cos() * factor, angle.sin() * factor


@arguments.named()
def apply_rope(
    x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool = False
) -> Tensor:
    """Rotate the pairs of every head by the angle of their position.

    Args:
        x: queries or keys, ``(..., H, L, D)``; or one head, ``(L, D)``.
        cos, sin: tables for the ``L`` positions, ``(L, R)``, ``(B, L, R)``
            with positions for each row, or of the rank of ``x``. Elements
            of a head after the first ``R`` stay as they are (partial
            rotary).
        interleaved: the layout of ``x`` and of the tables.

    Returns:
        The shape and dtype of ``x``; computed in float32 (float64).

    Raises:
        ValueError: the tables do not fit ``x``, or have the other layout
            (checked on the CPU).

    Example:
        >>> positions = torch.tensor([0, 1, 2])
        >>> cos, sin = attn.rope_tables(positions, attn.rope_frequencies(2))
        >>> x = torch.tensor([[1.0, 0.0]]).expand(3, 2)
        >>> attn.apply_rope(x, cos, sin)  # one radian a position
        tensor([[ 1.0000,  0.0000],
                [ 0.5403,  0.8415],
                [-0.4161,  0.9093]])

    Source: Su et al. 2021, equation 34; transformers
    ``apply_rotary_pos_emb``.
    """
    for name, one in {"x": x, "cos": cos, "sin": sin}.items():
        arguments.real(name, one)
        if not one.is_floating_point():
            raise TypeError(f"{name} must be floating; got {one.dtype}")
        arguments.same_device(name, one, "x", x)
    check_layout(cos, interleaved)
    return rotate_pairs(x, cos, sin, interleaved)


def rotate_pairs(
    x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool
) -> Tensor:
    """Compute ``apply_rope`` with tables whose layout was checked."""
    cos, sin = _fit("cos", cos, x), _fit("sin", sin, x)
    width = cos.shape[-1]
    if width != sin.shape[-1]:
        raise ValueError(
            f"sin must have the width of cos, {width}; got {sin.shape[-1]}"
        )
    dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
    rotating = x if width == x.shape[-1] else x[..., :width]  # (..., L, R)
    rotating = rotating.to(dtype)
    if interleaved:
        first, second = rotating[..., 0::2], rotating[..., 1::2]
        quarter_turn = torch.stack([-second, first], -1).flatten(-2)
    else:
        first, second = rotating.chunk(2, -1)
        quarter_turn = torch.cat([-second, first], -1)
    out = (rotating * cos + quarter_turn * sin).to(x.dtype)
    return torch.cat([out, x[..., width:]], -1) if width < x.shape[-1] else out


def _fit(name: str, table: Tensor, x: Tensor) -> Tensor:
    """Return the table, with a head axis where it has a batch axis."""
    if table.dim() < 2 or x.dim() < 2:
        raise ValueError(
            f"{name} must have shape (..., L, R) and x (..., L, D); got "
            f"{tuple(table.shape)} and {tuple(x.shape)}"
        )
    length, width = table.shape[-2:]
    if width % 2 or width > x.shape[-1]:
        raise ValueError(
            f"{name} must have an even width, at most the head_dim of x, "
            f"{x.shape[-1]}; got {width}"
        )
    if length != x.shape[-2]:
        raise ValueError(
            f"{name} must have one row for each position of x, "
            f"{x.shape[-2]}; got {length}"
        )
    if table.dim() == 2:
        return table
    if table.dim() == x.dim() - 1 and x.dim() > 3:
        table = table.unsqueeze(-3)  # (B, 1, L, R)
    batch, expected = table.shape[:-2], x.shape[:-2]
    if len(batch) != len(expected) or any(
        n not in (1, m) for n, m in zip(batch, expected, strict=False)
    ):
        raise ValueError(
            f"{name} must be (L, R), (B, L, R) or broadcast to x, "
            f"{tuple(x.shape)}; got {tuple(table.shape)}"
        )
    return table


def check_layout(cos: Tensor, interleaved: bool) -> None:
    """Refuse a table of the other layout: equal angles give it away.

    A table remembers that it passed, as all layers of a model use one.
    """
    if tracing.in_graph() or not cos.is_cpu or cos.dim() < 2:
        return
    table: Any = cos
    if getattr(table, "layout_checked", None) == interleaved:
        return
    if not (cos.numel() and tracing.has_values(cos)):
        return
    row = cos[(-1,) * (cos.dim() - 1)].tolist()  # of one position
    middle = len(row) // 2
    halves = row[:middle] == row[middle:]
    neighbours = row[0::2] == row[1::2]
    own, other = (neighbours, halves) if interleaved else (halves, neighbours)
    if other and not own:
        raise ValueError(
            f"cos must be made with interleaved={interleaved}, as apply_rope "
            f"is called; got a table of interleaved={not interleaved}: see "
            "rope_tables and convert_pairing"
        )
    table.layout_checked = interleaved
