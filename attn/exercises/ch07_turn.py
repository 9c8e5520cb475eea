"""What the two rotations of chapter 07 share: inputs, and steps to replace.

Frequencies are multiples of 1 / 256, so that every angle is exact in
float32 and an answer that computes it in float64 is right too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Generator, Tensor

from attn.exercises.spec import Case, Property
from attn.positions import apply_rope, rope_tables

Answer = Callable[[Tensor, Tensor, Tensor], Tensor]


def reference(interleaved: bool) -> Answer:
    """``attn``'s tables and rotation, in one call."""

    def rotate(x: Tensor, positions: Tensor, inv_freq: Tensor) -> Tensor:
        table = rope_tables(positions, inv_freq, interleaved=interleaved)
        return apply_rope(x, *table, interleaved)

    return rotate


def cases(g: Generator) -> Iterator[Case]:
    """From one turn by nothing to a batch of bfloat16 heads."""

    def randn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=g)

    def freq(pairs: int) -> Tensor:
        """Different for each pair, none of them 0 or 1."""
        order = torch.randperm(200, generator=g)[:pairs]
        return (order + 20.0).sort(descending=True).values / 256

    def order(length: int, most: int = 40) -> Tensor:
        return torch.randint(1, most, (length,), generator=g)

    stage = "all positions are 0, so nothing turns"
    yield Case(stage, (randn(3, 8), torch.zeros(3).long(), freq(4)))

    stage = "one feature is 1, at position 1: a golden vector"
    for feature in (0, 1, 5):
        x = torch.zeros(1, 8)
        x[0, feature] = 1.0
        yield Case(stage, (x, torch.tensor([1]), freq(4)))

    stage = "there is one pair"
    yield Case(stage, (randn(5, 2), torch.arange(5), freq(1)))

    stage = "there are several pairs"
    yield Case(stage, (randn(5, 8), torch.arange(5), freq(4)))
    yield Case(stage, (randn(4, 6), torch.arange(4), freq(3)))

    stage = "the positions do not start at 0"
    yield Case(stage, (randn(5, 8), torch.arange(7, 12), freq(4)))
    yield Case(stage, (randn(1, 8), torch.tensor([13]), freq(4)))

    stage = "the positions are out of order, or repeated"
    yield Case(stage, (randn(6, 8), order(6), freq(4)))

    stage = "there are heads and a batch"
    yield Case(stage, (randn(2, 3, 5, 8), order(5), freq(4)))
    yield Case(stage, (randn(4, 5, 6), order(5), freq(3)))

    stage = "axes have the same length"
    yield Case(stage, (randn(4, 4, 4, 4), order(4), freq(2)))
    yield Case(stage, (randn(2, 8, 8, 8), order(8), freq(4)))

    stage = "each sequence has positions of its own"
    rows = torch.tensor([[0, 1, 2, 3, 4], [0, 0, 0, 1, 2]]) + order(2)[:, None]
    yield Case(stage, (randn(2, 3, 5, 8), rows, freq(4)))
    yield Case(stage, (randn(1, 3, 4, 6), order(4)[None], freq(3)))

    stage = "there are as many sequences as heads, each with its positions"
    rows = torch.stack([order(5) for _ in range(3)])
    yield Case(stage, (randn(3, 3, 5, 8), rows, freq(4)))

    stage = "only a part of each head turns"
    yield Case(stage, (randn(2, 3, 5, 8), order(5), freq(2)))
    yield Case(stage, (randn(5, 10), order(5), freq(3)))

    stage = "the positions are beyond 256"
    far = torch.tensor([255, 256, 257, 258, 1023])
    yield Case(stage, (randn(5, 8), far, freq(4)))

    stage = "x is bfloat16"
    yield Case(stage, (randn(2, 5, 8).bfloat16(), torch.arange(5), freq(4)))

    stage = "x is bfloat16 and the positions are beyond 256"
    yield Case(stage, (randn(5, 8).bfloat16(), far, freq(4)))

    stage = "x is a view of another tensor"
    yield Case(stage, (randn(2, 5, 3, 8).transpose(1, 2), order(5), freq(4)))
    yield Case(stage, (randn(3, 1, 8).expand(3, 5, 8), order(5), freq(4)))

    stage = "gradients flow back"
    inputs = (randn(2, 5, 8), order(5), freq(4))
    yield Case(stage, inputs, grad=("args.0",))  # nobody learns inv_freq


def _norm_is_kept(case: Case, out: object) -> bool:
    x = case.args[0]
    if not isinstance(out, Tensor) or out.shape != x.shape:
        return True
    a, b = (t.float().norm(dim=-1) for t in (x, out))
    return torch.allclose(a, b, rtol=0.02, atol=0.02)


def _still_at_zero(case: Case, out: object) -> bool:
    x, positions, _ = case.args
    if bool(positions.any()) or not isinstance(out, Tensor):
        return True
    return out.shape != x.shape or torch.allclose(out.float(), x.float())


PROPERTIES = (
    Property(
        "At position 0 nothing turns: the result should be x.", _still_at_zero
    ),
    Property(
        "A rotation keeps the length of every vector, and here it changes: "
        "look at the signs and at which numbers meet which.",
        _norm_is_kept,
    ),
)


def angles_of(positions: Tensor, inv_freq: Tensor, x: Tensor) -> Tensor:
    return positions[..., None] * inv_freq.float()


def with_heads(angle: Tensor, x: Tensor) -> Tensor:
    return angle[:, None] if angle.dim() == 3 else angle


def _cut(turning: Tensor, interleaved: bool) -> Any:
    if interleaved:
        return turning[..., 0::2], turning[..., 1::2]
    return turning.chunk(2, -1)


def _glue(a: Tensor, b: Tensor, interleaved: bool) -> Tensor:
    if interleaved:
        return torch.stack([a, b], -1).flatten(-2)
    return torch.cat([a, b], -1)


def rotated(a: Tensor, b: Tensor, cos: Tensor, sin: Tensor) -> Any:
    return a * cos - b * sin, a * sin + b * cos


def _rest(turned: Tensor, x: Tensor) -> Tensor:
    return torch.cat([turned, x[..., turned.shape[-1] :]], -1)


def turn(
    interleaved: bool,
    *,
    angles: Any = angles_of,
    heads: Any = with_heads,
    cut: Any = _cut,
    glue: Any = _glue,
    rotate: Any = rotated,
    rest: Any = _rest,
    narrow: bool = True,
) -> Answer:
    """The right answer, every step of which can be exchanged."""

    def answer(x: Tensor, positions: Tensor, inv_freq: Tensor) -> Tensor:
        angle = heads(angles(positions, inv_freq, x), x)
        size = 2 * len(inv_freq)
        a, b = cut(x[..., :size].float(), interleaved)
        a, b = rotate(a, b, angle.cos(), angle.sin())
        turned = glue(a, b, interleaved)
        return rest(turned.to(x.dtype) if narrow else turned, x)

    return answer


def tokens_counted(positions: Tensor, inv_freq: Tensor, x: Tensor) -> Tensor:
    """Counts the tokens at hand, whatever the positions say."""
    return torch.arange(x.shape[-2])[:, None] * inv_freq.float()


def coarse_angles(positions: Tensor, inv_freq: Tensor, x: Tensor) -> Tensor:
    """Angles in the dtype of x."""
    angle = positions.to(x.dtype)[..., None] * inv_freq.to(x.dtype)
    return angle.float()


def degrees_for_radians(
    positions: Tensor, inv_freq: Tensor, x: Tensor
) -> Tensor:
    return angles_of(positions, inv_freq, x) * math.pi / 180


def positions_of_first_row(
    positions: Tensor, inv_freq: Tensor, x: Tensor
) -> Tensor:
    row = positions[0] if positions.dim() == 2 else positions
    return angles_of(row, inv_freq, x)
