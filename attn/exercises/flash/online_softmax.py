"""Cases and properties of ``flash-online_softmax``."""

import math
from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from attn import functional
from attn.exercises.conditions import views
from attn.exercises.draw import Draw, entries
from attn.exercises.spec import Case, Exercise, Property

Blocks = tuple[list[Tensor], list[Tensor]]


def online_softmax(scores, values):
    """Call the reference with lists of blocks."""
    return functional.online_softmax(zip(scores, values, strict=True))


SIZES = {  # the axes in front, Dv, and the sizes of the blocks
    "there is one block: a softmax": [((3,), 4, [5]), ((1,), 4, [1])],
    "the blocks have different sizes": [((3,), 4, [2, 5, 1])],
    "there is one query, and one feature": [((1,), 1, [3, 2])],
    "there are more axes in front": [((2, 3, 4), 4, [3, 5])],
    "axes have the same length": [((2, 2), 2, [2, 2])],
}
MASKED = {  # by row 1 of these blocks
    "a row is fully masked in the first block": [[0]],
    "a row is fully masked in the last block": [[2]],
    "a row is fully masked throughout": [[0, 1, 2]],
}


def _cases(g: Draw) -> Iterator[Case]:
    def blocks(*lead: int, sizes: list[int], Dv: int = 4) -> Blocks:
        """Draw scores and values; no row is masked throughout a block."""
        scores = [g.randn(*lead, n) for n in sizes]
        return scores, [g.randn(*lead[:-1], n, Dv) for n in sizes]

    for when, (lead, Dv, sizes) in entries(SIZES):
        yield Case(when, blocks(*lead, sizes=sizes, Dv=Dv))

    when = "the largest score is in the first block"
    scores, values = blocks(3, sizes=[4, 3, 4])
    scores[0][:, 1] += 9
    yield Case(when, (scores, values))

    when = "the scores rise from block to block"
    scores, values = blocks(3, sizes=[4, 4, 2])
    yield Case(when, ([s + 3 * i for i, s in enumerate(scores)], values))

    for sign in (1.0, -1.0):
        when = f"the scores are around {sign * 100:.0f}"
        scores, values = blocks(3, sizes=[3, 3, 3])
        scores = [s + sign * (110 + 9 * i) for i, s in enumerate(scores)]
        # An lse of 130, kept in float32, has lost a few digits.
        yield Case(when, (scores, values), rtol=1e-4)

    for level in (20_000.0, -20_000.0, -2_000_000.0):
        when = f"the scores are around {level:.0f}"
        _, values = blocks(3, sizes=[3, 3, 3])
        # Far apart, so that one key has all the weight, without rounding.
        order = torch.rand(3, 9, generator=g).argsort(-1)
        whole = level + 150.0 * order
        yield Case(when, (list(whole.split(3, -1)), values))

    when = "the rows are far apart"
    scores, values = blocks(3, sizes=[3, 3])
    low = torch.tensor([[0.0], [-110.0], [-220.0]])
    yield Case(when, ([s + low for s in scores], values), rtol=1e-4)
    when = "the heads are far apart"
    scores, values = blocks(3, 2, sizes=[3, 3])
    yield Case(when, ([s + low[..., None] for s in scores], values), rtol=1e-4)

    when = "some keys are masked with -inf"
    scores, values = blocks(4, sizes=[3, 4, 3])
    scores[1][:, :2] = scores[2][1, 1] = -math.inf
    yield Case(when, (scores, values))

    for when, masked in entries(MASKED):
        scores, values = blocks(3, sizes=[3, 3, 2])
        for i in masked:
            scores[i][1] = -math.inf
        yield Case(when, (scores, values))

    when = "a row of one head is fully masked in the first block"
    scores, values = blocks(2, 3, 4, sizes=[3, 3])
    scores[0][1, 2, 3] = -math.inf
    yield Case(when, (scores, values))

    when = "all rows are fully masked"
    scores, values = blocks(3, sizes=[3, 2])
    yield Case(when, ([s - math.inf for s in scores], values))

    # 64 blocks of 16 elements. Eighteen are held at most: the state, a block
    # of each kind, and what is left of the block before it.
    when = "there are 64 blocks, and memory for a few"
    yield Case(when, blocks(4, sizes=[4] * 64), max_live=18 * 16)

    when = "each block can be read once"
    once = {"once": ("args.0", "args.1"), "max_live": 18 * 16}
    yield Case(when, blocks(4, sizes=[4] * 64), **once)


exercise = Exercise(
    id="flash-online_softmax",
    points=3,
    reference=online_softmax,
    cases=_cases,
    returns=("the output", "lse"),
    also=(views("the blocks are views of other tensors"),),
    given={"Iterable": Iterable},
    forbids=("scaled_dot_product_attention",),
    properties=(
        Property(
            "Two things are returned: the output and the lse.",
            lambda case, out: isinstance(out, tuple) and len(out) == 2,
        ),
    ),
    breaks={
        "S = 1": lambda c: len(c.args[0]) > 1,
        "contiguous strides": lambda c: not c.args[0][0].is_contiguous(),
    },
)
