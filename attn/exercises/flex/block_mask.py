"""Cases and properties of ``flex-block_mask``."""

from collections.abc import Iterator

import torch
from torch import Tensor

from attn import masks
from attn.exercises.conditions import ones, views
from attn.exercises.draw import Draw, entries
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.symmetry import is_view

Four = tuple[Tensor, Tensor, Tensor, Tensor]


def _reference(mask: Tensor, block_size: int) -> Four:
    B, H, L, S = mask.shape
    n = block_size
    rows, columns = -(-L // n), -(-S // n)
    whole = mask.new_zeros(B, H, rows * n, columns * n)
    whole[:, :, :L, :S] = mask
    tiles = whole.view(B, H, rows, n, columns, n)
    any_, all_ = tiles.any(5).any(3), tiles.all(5).all(3)
    return *_listed(any_ & ~all_), *_listed(all_)


def _listed(kind: Tensor) -> tuple[Tensor, Tensor]:
    columns = torch.arange(kind.shape[-1])
    order = (columns + kind.shape[-1] * ~kind).argsort(-1)
    return kind.sum(-1).int(), order.int()


BLOCKS = {  # B, H, rows and columns of blocks, and the size of a block
    "there are rows and columns of blocks": [
        (1, 1, 4, 4, 2),
        (1, 1, 3, 5, 4),
        (1, 1, 5, 2, 3),
    ],
    "every row and head has a mask of its own": [
        (2, 3, 3, 4, 2),
        (3, 2, 2, 3, 3),
        (2, 2, 2, 2, 2),
    ],
}


def _cases(g: Draw) -> Iterator[Case]:
    def blocks(kinds: Tensor, n: int) -> Tensor:
        """Return a mask with blocks of these kinds: 0, 1 partial, 2 full."""
        size = (*kinds.shape[:2], n * kinds.shape[2], n * kinds.shape[3])
        kinds = kinds.repeat_interleave(n, 2).repeat_interleave(n, 3)
        some = torch.rand(size, generator=g) < 0.5
        some[..., ::n, ::n], some[..., 1::n, ::n] = True, False
        return (kinds == 2) | ((kinds == 1) & some)

    def draw(*shape: int) -> Tensor:
        return torch.randint(0, 3, shape, generator=g)

    when = "there is one block, full, empty or partial"
    for mask in (torch.ones(1, 1, 4, 4), torch.zeros(1, 1, 4, 4)):
        yield Case(when, (mask.bool(), 4))
    yield Case(when, (blocks(torch.ones(1, 1, 1, 1), 4), 4))
    for i, j in ((0, 3), (3, 0), (1, 2)):
        lone = torch.zeros(1, 1, 4, 4, dtype=torch.bool)
        lone[..., i, j] = True
        yield Case(when, (lone, 4))
        yield Case(when, (~lone, 4))

    when = "there is one row of blocks"
    kinds = torch.tensor([0, 2, 1, 0, 1, 2])
    order = torch.randperm(6, generator=g)
    yield Case(when, (blocks(kinds[order].view(1, 1, 1, 6), 2), 2))
    yield Case(when, (blocks(kinds.view(1, 1, 1, 6), 3), 3))

    for when, (*shape, n) in entries(BLOCKS):
        yield Case(when, (blocks(draw(*shape), n), n))

    when = "the mask is causal"
    size = g.between(3, 5)
    yield Case(when, (masks.causal().dense(4 * size), 4))
    yield Case(when, (masks.causal().dense(8, 24, q_offset=16), 4))

    when = "the mask is a window"
    window = masks.sliding_window(g.between(5, 7))
    yield Case(when, (window.dense(16), 4))

    when = "the last blocks are cut: L or S is no multiple"
    ones = torch.ones(1, 2, 7, 7, dtype=torch.bool)
    yield Case(when, (ones, 4))
    yield Case(when, (ones[:, :, :4], 4))
    yield Case(when, (ones[..., :4], 4))
    cut = blocks(draw(2, 1, 3, 4), 4)
    yield Case(when, (cut[:, :, :-1, :-2].contiguous(), 4))
    yield Case(when, (cut[:, :, :10, :13].contiguous(), 4))
    yield Case(when, (ones[..., :3, :2].contiguous(), 4))

    when = "a block is one pair"
    yield Case(when, (torch.rand(1, 2, 3, 5, generator=g) < 0.5, 1))

    when = "a block is large: 256 pairs of it are allowed, or 264"
    for full in (32, 33):
        large = torch.zeros(1, 1, 40, 80, dtype=torch.bool)
        large[..., :8, :full] = True
        yield Case(when, (large, 40))
    for n in (32, 64):  # 4095 of 4096 are 1 in float16
        ones = torch.ones(1, 1, n, 2 * n, dtype=torch.bool)
        yield Case(when, (ones, n))
        but_one = ones.clone()
        but_one[..., g.between(0, n - 1), g.between(n, 2 * n - 1)] = False
        yield Case(when, (but_one, n))

    when = "all rows and heads share a mask"
    mask = blocks(draw(1, 1, 3, 4), 2)
    yield Case(when, (mask.expand(2, 3, -1, -1), 2))


def _nothing_lost(case: Case, out: Four) -> bool:
    right = _reference(*case.args)
    return torch.equal((out[0] + out[2]).long(), (right[0] + right[2]).long())


exercise = Exercise(
    id="flex-block_mask",
    points=3,
    reference=_reference,
    cases=_cases,
    returns=(
        "the number of partial blocks",
        "the order of partial blocks",
        "the number of full blocks",
        "the order of full blocks",
    ),
    also=(
        views(),
        ones("B H"),
    ),
    properties=(
        Property(
            "An order must hold every column once, visited or not.",
            lambda case, out: all(
                bool((x.sort(-1).values == torch.arange(x.shape[-1])).all())
                for x in (out[1], out[3])
            ),
        ),
        Property(
            "Partial and full blocks together are not the blocks with "
            "something allowed.",
            _nothing_lost,
        ),
    ),
    breaks={
        "S = 1": lambda c: c.args[0].shape[-1] > 1,
        "H = 1": lambda c: c.args[0].shape[1] > 1,
        "L = S": lambda c: c.args[0].shape[-2] != c.args[0].shape[-1],
        "contiguous strides": is_view,
    },
)
