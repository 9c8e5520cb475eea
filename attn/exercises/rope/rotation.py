"""Cases and properties of the two rotations, which differ in their pairs.

Frequencies are odd multiples of 1 / 1024: every angle is exact in float32,
so that an answer that computes it in float64 is right too, and most of them
are not exact in bfloat16.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from attn.exercises.conditions import gradients, ones, views
from attn.exercises.draw import Draw, entries
from attn.exercises.spec import Case, Property
from attn.exercises.symmetry import heads, is_view
from attn.positions import apply_rope, rope_tables


def reference(interleaved: bool) -> Callable[..., Tensor]:
    """Return ``attn``'s tables and rotation as one function."""

    def rotate(x: Tensor, positions: Tensor, inv_freq: Tensor) -> Tensor:
        tables = rope_tables(positions, inv_freq, interleaved=interleaved)
        return apply_rope(x, *tables, interleaved)

    return rotate


SIZES = {  # pairs, the shape of x, and of the positions
    "the positions are out of order, or repeated": [(4, (6, 8), (6,))],
    "there are heads and a batch": [
        (4, (2, 3, 5, 8), (5,)),
        (3, (4, 5, 6), (5,)),
    ],
    "axes have the same length": [
        (2, (4, 4, 4, 4), (4,)),
        (4, (2, 8, 8, 8), (8,)),
    ],
    "each sequence has its own positions": [
        (4, (2, 3, 5, 8), (2, 5)),
        (3, (1, 3, 4, 6), (1, 4)),
    ],
    "there are as many sequences as heads, each with its own positions": [
        (4, (3, 3, 5, 8), (3, 5)),
    ],
    "only a part of each head rotates": [
        (2, (2, 3, 5, 8), (5,)),
        (3, (5, 10), (5,)),
    ],
}


def cases(g: Draw) -> Iterator[Case]:
    """Draw the cases of either layout."""

    def freq(pairs: int) -> Tensor:
        """Draw a different frequency for each pair, none of them 0 or 1."""
        order = torch.randperm(400, generator=g)[:pairs]
        return (2 * order + 81.0).sort(descending=True).values / 1024

    far = torch.tensor([255, 256, 257, 258, 5003])
    given = {  # a row of x for each position
        "all positions are 0, so nothing rotates": [
            (4, torch.zeros(3).long())
        ],
        "there is one pair": [(1, torch.arange(5))],
        "there are several pairs": [
            (4, torch.arange(5)),
            (3, torch.arange(4)),
        ],
        "the positions do not start at 0": [
            (4, torch.arange(7, 12)),
            (4, torch.tensor([13])),
        ],
        "the positions are beyond 256": [(4, far)],
    }
    for when, (pairs, positions) in entries(given):
        x = g.randn(len(positions), 2 * pairs)
        yield Case(when, (x, positions, freq(pairs)))

    when = "one feature is 1, at position 1: a golden vector"
    for feature in (0, 1, 5):
        x = torch.eye(8)[feature : feature + 1]
        yield Case(when, (x, torch.tensor([1]), freq(4)))

    for when, (pairs, shape, places) in entries(SIZES):
        positions = torch.randint(1, 40, places, generator=g)
        yield Case(when, (g.randn(*shape), positions, freq(pairs)))

    when = "gradients flow back, also where nothing rotates"
    inputs = g.randn(5, 10), torch.arange(5), freq(3)
    yield Case(when, inputs, grad=("args.0",))

    when = "x is bfloat16"
    for pairs, size in ((4, 8), (3, 10)):
        x = g.randn(2, 5, size).bfloat16()
        yield Case(when, (x, torch.arange(5), freq(pairs)))

    when = "x is bfloat16 and the positions are beyond 256"
    yield Case(when, (g.randn(5, 8).bfloat16(), far, freq(4)))


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


# inv_freq is not trained
ALSO = views(), gradients("x"), ones("B H", "B L", "H L")

PROPERTIES = (
    Property(
        "At position 0 nothing rotates: the result should be x.",
        _still_at_zero,
    ),
    Property(
        "A rotation keeps the length of every vector, and here it changes: "
        "look at the signs, and at which two features are a pair.",
        _norm_is_kept,
    ),
)

BREAKS = {
    "position 0": lambda c: c.args[1].any() and (c.args[1][..., 0] != 0).any(),
    "H = 1": lambda c: heads(c) and len(c.args[2]) > 1,
    "L = S": lambda c: c.args[1].dim() == 2,
    "weight = 1": lambda c: 2 * len(c.args[2]) < c.args[0].shape[-1],
    "contiguous strides": is_view,
}
