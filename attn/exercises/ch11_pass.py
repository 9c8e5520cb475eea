"""Exercise ``flash-online_softmax``: one pass over the keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Generator, Tensor

from attn import functional
from attn.exercises.spec import Case, Exercise, Property

INF = float("inf")


def online_softmax(
    scores: list[Tensor], values: list[Tensor]
) -> tuple[Tensor, Tensor]:
    """The reference, with lists of blocks."""
    return functional.online_softmax(zip(scores, values, strict=True))


def _cases(g: Generator) -> Iterator[Case]:
    def blocks(*lead: int, sizes: Any, Dv: int = 4, spread: float = 1.0):  # noqa: N803
        """Scores and values; every row sees something in each block."""
        scores = [spread * torch.randn(*lead, n, generator=g) for n in sizes]
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

    stage = "the blocks have different sizes"
    yield Case(stage, blocks(3, sizes=[2, 5, 1]))

    stage = "there are more axes in front"
    yield Case(stage, blocks(2, 3, 4, sizes=[3, 5]))
    yield Case(stage, blocks(2, 2, sizes=[2, 2], Dv=2))

    stage = "the scores are around 100, or -100: exp overflows, or is 0"
    for sign in (1.0, -1.0):
        scores, values = blocks(3, sizes=[3, 3, 3])
        scores = [s + sign * (110 + 9 * i) for i, s in enumerate(scores)]
        # Whoever keeps an lse of 130 in float32 has lost a few digits.
        yield Case(stage, (scores, values), rtol=1e-4)

    stage = "the rows lie far apart"
    scores, values = blocks(3, sizes=[3, 3])
    low = torch.tensor([[0.0], [-110.0], [-220.0]])
    yield Case(stage, ([s + low for s in scores], values), rtol=1e-4)

    stage = "some keys are masked with -inf"
    scores, values = blocks(4, sizes=[3, 4, 3])
    scores[1][:, :2] = -INF
    scores[2][1, 1] = -INF
    yield Case(stage, (scores, values))

    stage = "a row sees nothing in the first block"
    scores, values = blocks(3, sizes=[3, 3, 2])
    scores[0][1] = -INF
    yield Case(stage, (scores, values))

    stage = "a row sees nothing in the last block"
    scores, values = blocks(3, sizes=[3, 3, 2])
    scores[2][0] = -INF
    yield Case(stage, (scores, values))

    stage = "a row sees nothing at all"
    scores, values = blocks(3, sizes=[3, 2])
    for s in scores:
        s[2] = -INF
    yield Case(stage, (scores, values))

    stage = "the blocks are views of one tensor"
    whole = torch.randn(6, 9, 2, generator=g).movedim(-1, 0)  # (2, 6, 9)
    value = torch.randn(2, 4, 9, generator=g).mT
    parts = list(whole.split(4, -1)), list(value.split(4, -2))
    yield Case(stage, parts)

    stage = "there are many blocks, and room for one"
    given = blocks(4, sizes=[3] * 8)
    yield Case(stage, given, max_numel=16)  # the output, or a block of values


def _rows_of_ones(case: Case, out: Any) -> bool:
    return isinstance(out, tuple) and len(out) == 2


exercise = Exercise(
    id="flash-online_softmax",
    points=3,
    reference=online_softmax,
    cases=_cases,
    hints=(
        "For one block: top is its largest score, total the sum of "
        "exp(score - top), out the weights times the values. What has to "
        "happen to total and out when the next block has a larger top?",
        "Everything that was measured from the old top is too large by "
        "exp(new - old): multiply total and out by exp(old - new). Start "
        "with top = -inf, total = 0, out = 0.",
        "new = maximum(top, s.amax(-1, keepdim=True)). If new is still -inf, "
        "use 0 in its place in both exp, or you compute -inf - -inf. At the "
        "end: out / total and top + log(total), with care where total is 0.",
    ),
    properties=(
        Property(
            "Two things are returned: the output and the lse.", _rows_of_ones
        ),
        Property(
            "All scores, or all weights, are in memory at once: torch.cat "
            "and a softmax are right, and what this chapter is about to "
            "avoid. Three things are enough to remember of the blocks that "
            "have gone by.",
            lambda case, out: case.max_numel is None,
        ),
    ),
)


def passing(
    scores: list[Tensor],
    values: list[Tensor],
    *,
    fade=lambda top, new: (top - new).exp(),
    fade_out=None,
    start=-INF,
    larger=torch.maximum,
    safe=True,
    divide=lambda out, total, count: out / total.masked_fill(total == 0, 1),
    log=lambda top, total: top + total.log(),
    axis=-1,
):
    """A right answer whose steps can be replaced by wrong ones."""
    lead = scores[0].shape[:-1]
    dtype = values[0].dtype
    top = torch.full((*lead, 1), start, dtype=dtype)
    total = torch.zeros(*lead, 1, dtype=dtype)
    out = torch.zeros(*lead, values[0].shape[-1], dtype=dtype)
    for s, v in zip(scores, values, strict=True):
        new = larger(top, s.amax(axis, keepdim=True))
        base = new.masked_fill(new == -INF, 0.0) if safe else new
        weights = (s - base).exp()
        shrink = fade(top, base)
        total = total * shrink + weights.sum(-1, keepdim=True)
        out = out * (fade_out or fade)(top, base) + weights @ v
        top = new
    out = divide(out, total, len(scores))
    return out, log(top, total)[..., 0]


@exercise.misconception(
    "the old sums are not corrected", exposed_by="rising scores"
)
def no_fade(scores, values):
    """Each block is measured from its own maximum, and then all are added
    up as if they had been measured from the same one. With a larger score
    in a later block, what came before weighs too much. By which factor is
    the old sum too large?"""
    return passing(scores, values, fade=lambda top, new: 1.0)


@exercise.misconception(
    "the output is not corrected", exposed_by="rising scores"
)
def no_fade_out(scores, values):
    """total shrinks when a larger score turns up, and out does not. Both
    were measured from the old maximum. Which of the two lines lacks the
    factor?"""
    return passing(scores, values, fade_out=lambda top, new: 1.0)


@exercise.misconception("the sum is not corrected", exposed_by="rising scores")
def no_fade_total(scores, values):
    """out shrinks when a larger score turns up, and total does not: the
    weights no longer sum to 1, and the output is too small. Which of the two
    lines lacks the factor?"""
    return passing(
        scores,
        values,
        fade=lambda top, new: 1.0,
        fade_out=lambda top, new: (top - new).exp(),
    )


@exercise.misconception(
    "corrected the wrong way round", exposed_by="rising scores"
)
def grows(scores, values):
    """exp(new - old) is above 1: what was seen before grows, instead of
    shrinking. A larger maximum makes every old weight smaller. Which
    difference is negative?"""

    def fade(top, new):
        return (new - top.masked_fill(top == -INF, 0.0)).exp()

    return passing(scores, values, fade=fade)


@exercise.misconception(
    "the maximum of the newest block alone", exposed_by="falling scores"
)
def newest(scores, values):
    """The maximum forgets: it is that of the last block, not of all so far.
    The factor exp(old - new) is then above 1 when scores fall, which is
    right on paper and overflows when they fall far. How does the largest of
    all so far follow from the old one and the block?"""
    return passing(scores, values, larger=lambda top, new: new)


@exercise.misconception(
    "it starts at 0 instead of minus infinity", exposed_by="scores of -110"
)
def starts_at_zero(scores, values):
    """A running maximum that starts at 0 is never below 0. When all scores
    are far below, every weight is exp(-110) = 0, and 0 / 0 follows. What
    is the maximum of nothing?"""
    return passing(scores, values, start=0.0)


@exercise.misconception("no maximum is taken off", exposed_by="scores of 110")
def unsafe(scores, values):
    """exp(110) is infinity in float32. The sum over blocks needs no maximum
    on paper; the numbers do. What do you take off before exp?"""
    return passing(
        scores,
        values,
        larger=lambda top, new: torch.zeros_like(top),
        start=0.0,
    )


@exercise.misconception(
    "minus infinity minus minus infinity", exposed_by="a row that sees nothing"
)
def nan(scores, values):
    """As long as a row has seen nothing its maximum is -inf, and -inf - -inf
    is NaN, which stays. What finite number may stand for the maximum there,
    so that exp(-inf - it) is 0?"""
    return passing(scores, values, safe=False)


@exercise.misconception("never divided by the sum", exposed_by="any input")
def not_normalised(scores, values):
    """out is the sum of exp(score - top) * value. The weights sum to total,
    not to 1. What is left to do after the last block?"""
    return passing(scores, values, divide=lambda out, total, count: out)


@exercise.misconception(
    "the mean of the blocks' results", exposed_by="two blocks"
)
def mean_of_blocks(scores, values):
    """Each block gets a softmax of its own, and the results are averaged.
    A block with small scores then counts as much as one with large ones.
    What is the weight of a whole block beside another?"""
    parts = [passing([s], [v]) for s, v in zip(scores, values, strict=True)]
    out = sum(p[0] for p in parts) / len(parts)
    logs = torch.stack([p[1] for p in parts])
    return out, logs.logsumexp(0)


@exercise.misconception("only the last block counts", exposed_by="two blocks")
def last(scores, values):
    """The sums start anew with every block, so the result is that of the
    last one. Which lines belong in front of the loop?"""
    return passing(scores[-1:], values[-1:])


@exercise.misconception("lse is the maximum", exposed_by="the second result")
def lse_is_top(scores, values):
    """The second result is top alone. The log of a sum of exp(score) is top
    plus the log of total. What is log(exp(top) * total)?"""
    return passing(scores, values, log=lambda top, total: top)


@exercise.misconception(
    "lse without the maximum", exposed_by="the second result"
)
def lse_is_log(scores, values):
    """log(total) is the lse of scores from which top has been taken off. What
    has to be added again?"""
    return passing(
        scores,
        values,
        log=lambda top, total: (
            total.log() + 0 * top.masked_fill(top == -INF, 0)
        ),
    )


@exercise.misconception("lse in base 2", exposed_by="the second result")
def base_two(scores, values):
    """log2 is what a GPU computes, and what kernels keep inside. The contract
    is the natural log. Which of the two does torch.log give?"""
    return passing(scores, values, log=lambda top, total: top + total.log2())


@exercise.misconception(
    "one maximum for all rows", exposed_by="rows far apart"
)
def one_maximum(scores, values):
    """s.amax() is the largest score of all rows. A row that lies 100 below
    has nothing but zeros. Along which axis is the maximum of a row?"""
    return passing(
        scores,
        values,
        larger=lambda top, new: torch.maximum(top, new.amax().expand_as(top)),
    )


@exercise.equivalent("logs alone")
def _logs(scores, values):
    out, lse = None, None
    for s, v in zip(scores, values, strict=True):
        own = s.logsumexp(-1, keepdim=True)
        new = own if lse is None else torch.logaddexp(lse, own)
        safe = new.masked_fill(new == -INF, 0.0)
        part = (s - safe).exp() @ v
        out = part if out is None else out * (lse - safe).exp() + part
        lse = new
    return out, lse[..., 0]


@exercise.equivalent("normalised all the time")
def _normalised(scores, values):
    out, lse = 0.0, torch.full(scores[0].shape[:-1], -INF)
    for s, v in zip(scores, values, strict=True):
        dead = (s == -INF).all(-1, keepdim=True)
        part = s.masked_fill(dead, 0.0).softmax(-1).masked_fill(dead, 0.0) @ v
        own = s.logsumexp(-1)
        new = torch.logaddexp(lse, own)
        safe = new.masked_fill(new == -INF, 0.0)
        out = out * (lse - safe).exp()[..., None]
        out = out + part * (own - safe).exp()[..., None]
        lse = new
    return out, lse


@exercise.equivalent("backwards through the blocks")
def _backwards(scores, values):
    return passing(scores[::-1], values[::-1])


@exercise.equivalent("two passes")
def _two_passes(scores, values):
    top = scores[0].amax(-1, keepdim=True)
    for s in scores[1:]:
        top = torch.maximum(top, s.amax(-1, keepdim=True))
    safe = top.masked_fill(top == -INF, 0.0)
    out, total = 0.0, 0.0
    for s, v in zip(scores, values, strict=True):
        w = (s - safe).exp()
        out, total = out + w @ v, total + w.sum(-1, keepdim=True)
    lse = (safe + torch.as_tensor(total).log())[..., 0]
    return out / torch.where(total > 0, total, 1.0), lse


@exercise.equivalent("a sum that starts at 1")
def _from_one(scores, values):
    lead = scores[0].shape[:-1]
    top, total, out = torch.full((*lead, 1), -INF), torch.ones(*lead, 1), 0.0
    for s, v in zip(scores, values, strict=True):
        new = torch.maximum(top, s.amax(-1, keepdim=True))
        base = new.masked_fill(new == -INF, 0.0)
        fade = (top - base).exp()  # 0 the first time: the 1 is gone
        w = (s - base).exp()
        total, out = total * fade + w.sum(-1, keepdim=True), out * fade + w @ v
        top = new
    seen = top > -INF
    lse = (top + total.log()).masked_fill(~seen, -INF)
    return out / total.masked_fill(~seen, 1.0), lse[..., 0]
