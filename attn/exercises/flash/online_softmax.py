"""Cases, properties and correct variants of ``flash-online_softmax``."""

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

    for sign in (1.0, -1.0):
        when = f"the scores are around {sign * 20_000:.0f}"
        _, values = blocks(3, sizes=[3, 3, 3])
        # Far apart, so that one key has all the weight, without rounding.
        order = torch.rand(3, 9, generator=g).argsort(-1)
        whole = sign * 20_000 + 150.0 * order
        yield Case(when, (list(whole.split(3, -1)), values))

    when = "the rows are far apart"
    scores, values = blocks(3, sizes=[3, 3])
    low = torch.tensor([[0.0], [-110.0], [-220.0]])
    yield Case(when, ([s + low for s in scores], values), rtol=1e-4)

    when = "some keys are masked with -inf"
    scores, values = blocks(4, sizes=[3, 4, 3])
    scores[1][:, :2] = scores[2][1, 1] = -math.inf
    yield Case(when, (scores, values))

    for when, masked in entries(MASKED):
        scores, values = blocks(3, sizes=[3, 3, 2])
        for i in masked:
            scores[i][1] = -math.inf
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


@exercise.equivalent("logs alone")
def _logs(scores, values):
    out, lse = None, None
    for s, v in zip(scores, values, strict=True):
        own = s.logsumexp(-1, keepdim=True)
        new = own if lse is None else torch.logaddexp(lse, own)
        safe = new.masked_fill(new == -math.inf, 0.0)
        part = (s - safe).exp() @ v
        out = part if out is None else out * (lse - safe).exp() + part
        lse = new
    return out, lse[..., 0]


@exercise.equivalent("normalised all the time")
def _normalised(scores, values):
    out, lse = 0.0, torch.tensor(-math.inf)
    for s, v in zip(scores, values, strict=True):
        dead = (s == -math.inf).all(-1, keepdim=True)
        part = s.masked_fill(dead, 0.0).softmax(-1).masked_fill(dead, 0.0) @ v
        own = s.logsumexp(-1)
        new = torch.logaddexp(lse, own)
        safe = new.masked_fill(new == -math.inf, 0.0)
        out = out * (lse - safe).exp()[..., None]
        out = out + part * (own - safe).exp()[..., None]
        lse = new
    return out, lse


@exercise.equivalent("one key at a time")
def _one_key(scores, values):
    top, total, out = -math.inf, 0.0, 0.0
    for block, rows in zip(scores, values, strict=True):
        for n in range(block.shape[-1]):
            s, v = block[..., n : n + 1], rows[..., n : n + 1, :]
            new = torch.maximum(torch.as_tensor(top), s)
            safe = torch.where(new.isinf(), 0.0, new)
            fade, weight = (top - safe).exp(), (s - safe).exp()
            total, out = total * fade + weight, out * fade + weight * v
            top = new
    return out / total.clamp(min=1e-30), (top + total.log()).squeeze(-1)


@exercise.equivalent("a column of ones keeps the sum")
def _ones(scores, values):
    top, both = torch.tensor(-math.inf), 0.0
    for s, v in zip(scores, values, strict=True):
        v = torch.cat([v, torch.ones_like(v[..., :1])], -1)
        old, top = top, torch.maximum(top, s.amax(-1, keepdim=True))
        safe = top.masked_fill(top == -math.inf, 0.0)
        both = both * (old - safe).exp() + (s - safe).exp() @ v
    out, total = both[..., :-1], both[..., -1:]
    dead = total == 0
    return out / (total + dead), (top + total.log())[..., 0]


@exercise.equivalent("a lowest finite maximum")
def _lowest(scores, values):
    top, total, out = None, 0.0, 0.0
    for s, v in zip(scores, values, strict=True):
        own = s.amax(-1, keepdim=True).clamp(min=torch.finfo(s.dtype).min)
        new = own if top is None else torch.maximum(top, own)
        fade = 0.0 if top is None else (top - new).exp()
        w = (s - new).exp()
        total, out = total * fade + w.sum(-1, keepdim=True), out * fade + w @ v
        top = new
    out = torch.where(total > 0, out / total, 0.0)
    return out, (top + total.log()).flatten(-2)


@exercise.equivalent("a sum that starts at 1")
def _from_one(scores, values):
    top, total, out = torch.tensor(-math.inf), torch.ones(1), 0.0
    for s, v in zip(scores, values, strict=True):
        new = torch.maximum(top, s.amax(-1, keepdim=True))
        base = new.masked_fill(new == -math.inf, 0.0)
        fade = (top - base).exp()  # 0 the first time: the 1 is gone
        w = (s - base).exp()
        total, out = total * fade + w.sum(-1, keepdim=True), out * fade + w @ v
        top = new
    masked = top == -math.inf
    lse = (top + total.log()).masked_fill(masked, -math.inf)
    return out / total.masked_fill(masked, 1.0), lse[..., 0]
