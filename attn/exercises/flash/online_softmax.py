"""Cases, properties and correct variants of ``flash-online_softmax``."""

import math
from collections.abc import Iterator

import torch
from torch import Generator, Tensor

from attn import functional
from attn.exercises.spec import Case, Exercise, Property

Blocks = tuple[list[Tensor], list[Tensor]]


def online_softmax(scores, values):
    """Call the reference with lists of blocks."""
    return functional.online_softmax(zip(scores, values, strict=True))


def _cases(g: Generator) -> Iterator[Case]:
    def blocks(*lead: int, sizes: list[int], Dv: int = 4) -> Blocks:
        """Draw scores and values; no row is masked throughout a block."""
        scores = [torch.randn(*lead, n, generator=g) for n in sizes]
        values = [torch.randn(*lead[:-1], n, Dv, generator=g) for n in sizes]
        return scores, values

    stage = "there is one block: a softmax"
    yield Case(stage, blocks(3, sizes=[5]))
    yield Case(stage, blocks(1, sizes=[1]))

    stage = "the largest score is in the first block"
    scores, values = blocks(3, sizes=[4, 3, 4])
    scores[0][:, 1] += 9
    yield Case(stage, (scores, values))

    stage = "the scores rise from block to block"
    scores, values = blocks(3, sizes=[4, 4, 2])
    yield Case(stage, ([s + 3 * i for i, s in enumerate(scores)], values))

    yield Case("the blocks have different sizes", blocks(3, sizes=[2, 5, 1]))

    stage = "there are more axes in front"
    yield Case(stage, blocks(2, 3, 4, sizes=[3, 5]))
    yield Case(stage, blocks(2, 2, sizes=[2, 2], Dv=2))

    stage = "the scores are around 100, or -100: exp overflows, or is 0"
    for sign in (1.0, -1.0):
        scores, values = blocks(3, sizes=[3, 3, 3])
        scores = [s + sign * (110 + 9 * i) for i, s in enumerate(scores)]
        # An lse of 130, kept in float32, has lost a few digits.
        yield Case(stage, (scores, values), rtol=1e-4)

    stage = "the rows are far apart"
    scores, values = blocks(3, sizes=[3, 3])
    low = torch.tensor([[0.0], [-110.0], [-220.0]])
    yield Case(stage, ([s + low for s in scores], values), rtol=1e-4)

    stage = "some keys are masked with -inf"
    scores, values = blocks(4, sizes=[3, 4, 3])
    scores[1][:, :2] = scores[2][1, 1] = -math.inf
    yield Case(stage, (scores, values))

    for where, blocks_masked in (
        ("in the first block", [0]),
        ("in the last block", [2]),
        ("throughout", [0, 1, 2]),
    ):
        scores, values = blocks(3, sizes=[3, 3, 2])
        for i in blocks_masked:
            scores[i][1] = -math.inf
        yield Case(f"a row is fully masked {where}", (scores, values))

    stage = "the blocks are views of one tensor"
    whole = torch.randn(6, 9, 2, generator=g).movedim(-1, 0)  # (2, 6, 9)
    value = torch.randn(2, 4, 9, generator=g).mT
    parts = list(whole.split(4, -1)), list(value.split(4, -2))
    yield Case(stage, parts)

    stage = "there are many blocks, and memory for one"
    many = blocks(4, sizes=[3] * 8)
    # Eight blocks of scores, and of values, are 192 elements.
    yield Case(stage, many, max_live=128)


exercise = Exercise(
    id="flash-online_softmax",
    points=3,
    reference=online_softmax,
    cases=_cases,
    properties=(
        Property(
            "Two things are returned: the output and the lse.",
            lambda case, out: isinstance(out, tuple) and len(out) == 2,
        ),
        Property(
            "All scores, or all weights, are in memory at once: torch.cat "
            "and a softmax are right, and what this chapter is about to "
            "avoid. Of the blocks that have gone by, three things are "
            "enough to remember.",
            lambda case, out: case.max_live is None,
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
    out, lse = 0.0, torch.full(scores[0].shape[:-1], -math.inf)
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


@exercise.equivalent("backwards through the blocks")
def _backwards(scores, values):
    return online_softmax(scores[::-1], values[::-1])


@exercise.equivalent("two passes")
def _two_passes(scores, values):
    top = scores[0].amax(-1, keepdim=True)
    for s in scores[1:]:
        top = torch.maximum(top, s.amax(-1, keepdim=True))
    safe = top.masked_fill(top == -math.inf, 0.0)
    out, total = 0.0, 0.0
    for s, v in zip(scores, values, strict=True):
        w = (s - safe).exp()
        out, total = out + w @ v, total + w.sum(-1, keepdim=True)
    lse = (safe + torch.as_tensor(total).log())[..., 0]
    return out / torch.where(total > 0, total, 1.0), lse


@exercise.equivalent("a sum that starts at 1")
def _from_one(scores, values):
    lead = scores[0].shape[:-1]
    top = torch.full((*lead, 1), -math.inf)
    total, out = torch.ones(*lead, 1), 0.0
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
