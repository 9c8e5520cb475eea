"""Cases and properties of the two rotations, which differ in their pairs.

Frequencies are odd multiples of 1 / 1024: every angle is exact in float32,
so that an answer that computes it in float64 is right too, and most of them
are not exact in bfloat16.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from attn.exercises.draw import Draw
from attn.exercises.spec import Case, Property
from attn.exercises.symmetry import heads, is_view
from attn.positions import apply_rope, rope_tables


def reference(interleaved: bool) -> Callable[..., Tensor]:
    """Return ``attn``'s tables and rotation as one function."""

    def rotate(x: Tensor, positions: Tensor, inv_freq: Tensor) -> Tensor:
        tables = rope_tables(positions, inv_freq, interleaved=interleaved)
        return apply_rope(x, *tables, interleaved)

    return rotate


def cases(g: Draw) -> Iterator[Case]:
    """Draw the cases of either layout."""

    def freq(pairs: int) -> Tensor:
        """Draw a different frequency for each pair, none of them 0 or 1."""
        order = torch.randperm(400, generator=g)[:pairs]
        return (2 * order + 81.0).sort(descending=True).values / 1024

    def order(length: int, most: int = 40) -> Tensor:
        return torch.randint(1, most, (length,), generator=g)

    when = "all positions are 0, so nothing rotates"
    yield Case(when, (g.randn(3, 8), torch.zeros(3).long(), freq(4)))

    when = "one feature is 1, at position 1: a golden vector"
    for feature in (0, 1, 5):
        x = torch.zeros(1, 8)
        x[0, feature] = 1.0
        yield Case(when, (x, torch.tensor([1]), freq(4)))

    when = "there is one pair"
    yield Case(when, (g.randn(5, 2), torch.arange(5), freq(1)))

    when = "there are several pairs"
    yield Case(when, (g.randn(5, 8), torch.arange(5), freq(4)))
    yield Case(when, (g.randn(4, 6), torch.arange(4), freq(3)))

    when = "the positions do not start at 0"
    yield Case(when, (g.randn(5, 8), torch.arange(7, 12), freq(4)))
    yield Case(when, (g.randn(1, 8), torch.tensor([13]), freq(4)))

    when = "the positions are out of order, or repeated"
    yield Case(when, (g.randn(6, 8), order(6), freq(4)))

    when = "there are heads and a batch"
    yield Case(when, (g.randn(2, 3, 5, 8), order(5), freq(4)))
    yield Case(when, (g.randn(4, 5, 6), order(5), freq(3)))

    when = "axes have the same length"
    yield Case(when, (g.randn(4, 4, 4, 4), order(4), freq(2)))
    yield Case(when, (g.randn(2, 8, 8, 8), order(8), freq(4)))

    when = "each sequence has its own positions"
    rows = torch.tensor([[0, 1, 2, 3, 4], [0, 0, 0, 1, 2]]) + order(2)[:, None]
    yield Case(when, (g.randn(2, 3, 5, 8), rows, freq(4)))
    yield Case(when, (g.randn(1, 3, 4, 6), order(4)[None], freq(3)))

    when = "there are as many sequences as heads, each with its own positions"
    rows = torch.stack([order(5) for _ in range(3)])
    yield Case(when, (g.randn(3, 3, 5, 8), rows, freq(4)))

    when = "only a part of each head rotates"
    yield Case(when, (g.randn(2, 3, 5, 8), order(5), freq(2)))
    yield Case(when, (g.randn(5, 10), order(5), freq(3)))

    when = "the positions are beyond 256"
    far = torch.tensor([255, 256, 257, 258, 1023])
    yield Case(when, (g.randn(5, 8), far, freq(4)))

    when = "x is bfloat16"
    yield Case(when, (g.randn(2, 5, 8).bfloat16(), torch.arange(5), freq(4)))

    when = "x is bfloat16 and the positions are beyond 256"
    yield Case(when, (g.randn(5, 8).bfloat16(), far, freq(4)))

    when = "x is a view of another tensor"
    yield Case(when, (g.randn(2, 5, 3, 8).transpose(1, 2), order(5), freq(4)))
    yield Case(when, (g.randn(3, 1, 8).expand(3, 5, 8), order(5), freq(4)))

    when = "gradients flow back"
    inputs = (g.randn(2, 5, 8), order(5), freq(4))
    yield Case(when, inputs, grad=("args.0",))  # inv_freq is not trained


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
