"""Exercise ``mask-apply_mask``: a softmax over the allowed keys."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from attn import functional
from attn.exercises.draw import some_allowed
from attn.exercises.spec import Case, Exercise, Property

INF = float("inf")


def _reference(scores: Tensor, mask: Tensor) -> Tensor:
    return functional.softmax(scores.masked_fill(~mask, -INF))


def _cases(g: Generator) -> Iterator[Case]:
    def randn(*shape: int, spread: float = 2.0) -> Tensor:
        return torch.randn(*shape, generator=g) * spread

    def mask(*shape: int) -> Tensor:
        return some_allowed(g, *shape)

    stage = "there is one query"
    yield Case(stage, (randn(1, 6), mask(1, 6)))

    stage = "there are several queries"
    yield Case(stage, (randn(4, 6), mask(4, 6)))
    yield Case(stage, (randn(5, 5), mask(5, 5)))
    yield Case(stage, (randn(3, 4), torch.ones(3, 4).bool()))
    yield Case(stage, (randn(2, 1), torch.ones(2, 1).bool()))

    stage = "there are batch and head axes"
    yield Case(stage, (randn(2, 3, 4, 5), mask(2, 3, 4, 5)))
    yield Case(stage, (randn(3, 3, 3, 3), mask(3, 3, 3, 3)))
    yield Case(stage, (randn(2, 3, 4), mask(2, 3, 4)))

    stage = "the mask is smaller than the scores and broadcasts"
    yield Case(stage, (randn(2, 3, 4, 5), mask(2, 1, 1, 5)))
    yield Case(stage, (randn(2, 2, 4, 4), mask(2, 1, 4, 4)))
    yield Case(stage, (randn(2, 3, 4, 5), mask(4, 5)))
    yield Case(stage, (randn(4, 6), mask(6)))

    stage = "all scores are large (about 100)"
    yield Case(stage, (randn(3, 5, spread=1) + 100, mask(3, 5)))

    stage = "all scores are far below zero (about -20000)"
    allowed = mask(3, 5)
    yield Case(stage, (_one_stands_out(randn(3, 5), allowed) - 2e4, allowed))

    stage = "the scores are in half precision"
    for dtype in (torch.bfloat16, torch.float16):
        yield Case(stage, (randn(3, 5, spread=1).to(dtype), mask(3, 5)))

    dead = mask(4, 5)
    dead[[0, 2]] = False
    stage = "a query may attend to nothing"
    yield Case(stage, (randn(4, 5), dead))
    yield Case(stage, (randn(2, 2, 3, 4), dead[:3, :4].expand(2, 1, 3, 4)))
    column = torch.tensor([[True], [False], [True]])
    yield Case(stage, (randn(3, 4), column))
    yield Case(stage, (randn(1, 4), torch.zeros(1, 4).bool()))

    stage = "gradients flow back"
    yield Case(stage, (randn(3, 5, spread=1), mask(3, 5)), grad=True)

    stage = "gradients flow back and a query may attend to nothing"
    yield Case(stage, (randn(4, 5, spread=1), dead), grad=True)
    yield Case(stage, (randn(2, 3, 4, 5, spread=1), dead), grad=True)

    stage = "half precision, and a query may attend to nothing"
    for dtype in (torch.float16, torch.bfloat16):
        yield Case(stage, (randn(4, 5, spread=1).to(dtype), dead))

    stage = "the scores are float64, or a view of another tensor"
    yield Case(stage, _halves_and_quarters(g))
    yield Case(stage, (randn(5, 4, 3).transpose(0, 2), mask(3, 4, 5)))
    yield Case(stage, (randn(1, 5).expand(4, 5), mask(5, 4).mT | dead))


def _one_stands_out(scores: Tensor, mask: Tensor) -> Tensor:
    """The first allowed key of each row is 40 above the other allowed ones.

    Its weight is then 1, also where float32 has no digits left for a sum:
    exp(scores - logsumexp) is a right answer too.
    """
    later = mask & (mask.cumsum(-1) > 1)
    return scores.masked_fill(later, -40.0)


def _halves_and_quarters(g: Generator) -> tuple[Tensor, Tensor]:
    """Equal scores in float64 and 1, 2 or 4 allowed keys.

    The weights are exact in float32 as well: a softmax in float32 that is
    cast back, as in transformers, is a right answer.
    """
    scores = torch.randint(-3, 4, (3, 1), generator=g).double()
    order = torch.rand(3, 6, generator=g).argsort(-1)  # a rank for each key
    return scores.repeat(1, 6), order < torch.tensor([[1], [2], [4]])


def _forbidden_is_zero(case: Case, out: Tensor) -> bool:
    scores, mask = case.args
    return not bool(out[~mask.expand(scores.shape)].any())


def _sums_to_one(case: Case, out: Tensor) -> bool:
    scores, mask = case.args
    sums = out.double().sum(-1)[mask.expand(scores.shape).any(-1)]
    return torch.allclose(sums, torch.ones_like(sums), atol=0.02)


exercise = Exercise(
    id="mask-apply_mask",
    points=3,
    reference=_reference,
    cases=_cases,
    hints=(
        "Which score makes exp give exactly 0, whatever the other scores "
        "are? Put it where the mask forbids, before the softmax.",
        "masked_fill(~mask, -inf) makes a forbidden key vanish. A row that "
        "is -inf throughout is 0/0, so NaN: find these rows first, from the "
        "mask, with mask.any(-1, keepdim=True).",
        "Give the dead rows any harmless scores before the softmax, 0 for "
        "instance, and set their weights to 0 after it. Both with "
        "masked_fill, which also stops the gradient; a NaN that is made "
        "and then overwritten can come back in the backward pass.",
    ),
    properties=(
        Property(
            "A forbidden key must get a weight of exactly 0, in a query "
            "that may attend to nothing too.",
            _forbidden_is_zero,
        ),
        Property(
            "The weights of a query must sum to 1 over the keys (the last "
            "axis) when it may attend to any of them.",
            _sums_to_one,
        ),
        Property(
            "Weights cannot be negative.",
            lambda case, out: not bool((out < 0).any()),
        ),
    ),
)


def _filled(scores: Tensor, mask: Tensor, fill: float) -> Tensor:
    return torch.softmax(scores.masked_fill(~mask, fill), -1)


@exercise.misconception(
    "True is taken to mean drop", exposed_by="any key that is forbidden"
)
def polarity(scores: Tensor, mask: Tensor) -> Tensor:
    """The weights lie on exactly the keys that are forbidden. masked_fill
    fills where its mask is True, and your mask is True where a query may
    attend. In a language model the loss would fall to almost nothing,
    because it reads the answers. What turns True into False?"""
    return _filled(scores, ~mask, -INF)


@exercise.misconception(
    "forbidden scores are set to 0, or nearly", exposed_by="any mask"
)
def zero_score(scores: Tensor, mask: Tensor) -> Tensor:
    """A score of 0, or of -1e-9, is not a small score: exp(0) is 1. The
    forbidden key keeps an average weight, and in a causal model the future
    comes through, a little damped. This happens when scores are
    multiplied by the mask, and when somebody writes -1e-9 for -1e9. Which
    score has exp equal to 0?"""
    return _filled(scores, mask, 0.0)


@exercise.misconception("the mask is added as 1 and 0", exposed_by="any mask")
def added(scores: Tensor, mask: Tensor) -> Tensor:
    """Adding 1 to the allowed scores multiplies their weights by e, 2.718,
    next to the forbidden ones. That is a preference and not a mask. An
    additive mask has to be 0 where allowed, and what where
    forbidden?"""
    return torch.softmax(scores + mask, -1)


@exercise.misconception(
    "masked after the softmax, not renormalised", exposed_by="any mask"
)
def after(scores: Tensor, mask: Tensor) -> Tensor:
    """The forbidden weights are 0, and the others no longer sum to 1: the
    softmax has already shared some out to keys that you then removed. The
    first tokens of a causal model, which see few keys, would be damped
    most. Can the mask act before the weights are shared out?"""
    return torch.softmax(scores, -1) * mask


@exercise.misconception(
    "0 * -inf is NaN", exposed_by="any key that is allowed"
)
def zero_times_inf(scores: Tensor, mask: Tensor) -> Tensor:
    """You multiply a 0/1 mask by -inf. Where it is 1 that gives -inf, and
    where it is 0 you expect 0: but 0 * inf is NaN, and one NaN in a row
    spreads over the whole row in the softmax. How can you choose between
    0 and -inf, instead of multiplying?"""
    return torch.softmax(scores + (1 - mask.to(scores.dtype)) * -INF, -1)


@exercise.misconception(
    "softmax over the queries, not over the keys", exposed_by="one query"
)
def over_queries(scores: Tensor, mask: Tensor) -> Tensor:
    """The columns sum to 1, and it is the rows that should: each query
    shares itself out over its keys, which lie on the last axis. Models
    train with this bug, only not as well, so nobody notices. Along which
    axis do the weights of one query lie?"""
    return torch.softmax(scores.masked_fill(~mask, -INF), -2)


@exercise.misconception(
    "softmax over the queries (with NaN replaced)", exposed_by="one query"
)
def over_queries_without_nan(scores: Tensor, mask: Tensor) -> Tensor:
    """The columns sum to 1, and it is the rows that should: each query
    shares itself out over its keys, which lie on the last axis. With one
    query each allowed key gets a weight of 1. Along which axis do the
    weights of one query lie?"""
    return over_queries(scores, mask).nan_to_num()


@exercise.misconception(
    "softmax over axis 1, whatever that is",
    exposed_by="scores with four axes",
)
def axis_one(scores: Tensor, mask: Tensor) -> Tensor:
    """dim=1 is the last axis of a matrix, and the head axis of scores
    (B, H, L, S). A fixed axis works until the tensor gets another one;
    F.softmax without dim guesses in the same way. Which number means: the
    last, however many there are?"""
    return torch.softmax(scores.masked_fill(~mask, -INF), 1)


@exercise.misconception(
    "exp without taking off the maximum", exposed_by="scores of 100"
)
def no_maximum(scores: Tensor, mask: Tensor) -> Tensor:
    """Masking exp(scores) and dividing by what is left is right on paper.
    exp(100) does not fit into float32, and inf / inf is NaN; exp(-20000)
    is 0, and 0 / 0 is NaN. torch.softmax takes the largest score off
    first. Can you hand it scores that are masked already?"""
    exps = scores.exp() * mask
    return exps / exps.sum(-1, keepdim=True)


@exercise.misconception(
    "a finite fill that real scores undercut (-1e4, -100)",
    exposed_by="scores of -20000",
)
def undercut(scores: Tensor, mask: Tensor) -> Tensor:
    """Your fill is a number, and real scores can lie below it: then the
    forbidden key has the highest score, and wins. It needs a model with
    large activations and a long text, so no test with random numbers
    shows it, and it has been shipped. Which score is lower than every
    other?"""
    return _filled(scores, mask, -1e4)


@exercise.misconception(
    "a fill that half precision cannot hold (-1e9)",
    exposed_by="float16 scores",
)
def minus_1e9(scores: Tensor, mask: Tensor) -> Tensor:
    """The lowest float16 is -65504, so that -1e9 is an error there; and in
    float32 a query that may attend to nothing gets the mean of everything,
    padding included, because a row of equal scores has equal weights.
    Which fill exists in every float dtype?"""
    return _filled(scores, mask, -1e9)


@exercise.misconception(
    "a large number times the mask is added",
    exposed_by="a row that may attend to nothing",
)
def minus_1e9_added(scores: Tensor, mask: Tensor) -> Tensor:
    """Adding -1e9 where forbidden works while some key is allowed. When
    none is, every score becomes about -1e9, and equal scores have equal
    weights: the row is an average of keys that it must not see. In
    float16 the same line gives -inf, so NaN. What should such a query
    get?"""
    return torch.softmax(scores + (1 - mask.to(scores.dtype)) * -1e9, -1)


@exercise.misconception(
    "a query without keys gets the mean of all (a finite fill)",
    exposed_by="a row that may attend to nothing",
)
def mean_of_all(scores: Tensor, mask: Tensor) -> Tensor:
    """With a finite fill, finfo.min for instance, a row without allowed
    keys has equal scores, and equal scores have equal weights. There is no
    NaN to warn you: the query quietly takes the mean of all values,
    padding and future included. How do you find these rows, and what
    should they get?"""
    return _filled(scores, mask, torch.finfo(scores.dtype).min)


@exercise.misconception(
    "a query without keys gets NaN",
    exposed_by="a row that may attend to nothing",
)
def dead_is_nan(scores: Tensor, mask: Tensor) -> Tensor:
    """Right wherever a key is allowed. A row of -inf only is 0 / 0 in the
    softmax: NaN. Left padding under a causal mask makes such rows in every
    batch; NaN times anything is NaN, and two layers later all tokens have
    it. How do you find these rows, and what should they get?"""
    return _filled(scores, mask, -INF)


@exercise.misconception(
    "the NaN is replaced, but its gradient is not",
    exposed_by="the gradient of a row that may attend to nothing",
)
def nan_gradient(scores: Tensor, mask: Tensor) -> Tensor:
    """The forward pass is clean; the backward pass still goes through the
    softmax that made the NaN, and 0 times NaN is NaN. The loss looks
    healthy, and after one optimiser step every weight is NaN. Can you
    keep the NaN from arising, by giving the dead rows harmless scores
    before the softmax?"""
    bias = torch.zeros(mask.shape, dtype=scores.dtype)
    bias = bias.masked_fill(~mask, -INF)
    return torch.softmax(scores + bias, -1).nan_to_num()


@exercise.misconception(
    "the weights come back in float32", exposed_by="half-precision scores"
)
def returns_float32(scores: Tensor, mask: Tensor) -> Tensor:
    """Computing the softmax in float32 is a good habit; the result must go
    back into the dtype of the scores. Otherwise the product with half
    precision values is an error, or the whole network quietly runs in
    float32 from here on. Where does the cast belong?"""
    return _reference(scores.float(), mask)


@exercise.equivalent("-inf, then NaN replaced by 0")
def nan_to_num(scores: Tensor, mask: Tensor) -> Tensor:
    return _filled(scores, mask, -INF).nan_to_num(0.0)


@exercise.equivalent("torch.where around the softmax")
def where(scores: Tensor, mask: Tensor) -> Tensor:
    filled = torch.where(mask, scores, torch.finfo(scores.dtype).min)
    weights = F.softmax(filled, dim=-1)
    return torch.where(mask, weights, torch.zeros_like(weights))


@exercise.equivalent("lowest number of the dtype, dead rows multiplied by 0")
def lowest(scores: Tensor, mask: Tensor) -> Tensor:
    weights = _filled(scores, mask, torch.finfo(scores.dtype).min)
    return weights * mask.any(-1, keepdim=True).to(scores.dtype)


@exercise.equivalent("mask, softmax, renormalise")
def renormalise(scores: Tensor, mask: Tensor) -> Tensor:
    wide = torch.promote_types(scores.dtype, torch.float32)
    weights = torch.softmax(scores.to(wide), -1) * mask
    total = weights.sum(-1, keepdim=True)
    return (weights / total.clamp_min(1e-30)).to(scores.dtype)


@exercise.equivalent("softmax by hand, in float64")
def by_hand(scores: Tensor, mask: Tensor) -> Tensor:
    x = scores.double().masked_fill(mask.logical_not(), -INF)
    highest = x.amax(-1, keepdim=True)
    exps = (x - highest.masked_fill(highest == -INF, 0.0)).exp()
    total = exps.sum(-1, keepdim=True)
    return (exps / torch.where(total == 0, 1.0, total)).to(scores.dtype)


@exercise.equivalent("softmax in float32, cast back")
def in_float32(scores: Tensor, mask: Tensor) -> Tensor:
    filled = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = torch.softmax(filled, dim=-1, dtype=torch.float32)
    return weights.masked_fill(~mask, 0.0).type_as(scores)


@exercise.equivalent("exp of the distance to logsumexp")
def logsumexp(scores: Tensor, mask: Tensor) -> Tensor:
    dead = (~mask).all(-1, keepdim=True)
    x = scores.masked_fill(~mask, -INF).masked_fill(dead, 0.0)
    lse = torch.logsumexp(x, -1, keepdim=True)
    return (x - lse).exp().masked_fill(dead, 0.0)


@exercise.equivalent("an additive bias, dead rows opened first")
def additive(scores: Tensor, mask: Tensor) -> Tensor:
    alive = mask.any(dim=-1, keepdim=True)
    bias = torch.zeros(mask.shape, dtype=scores.dtype)
    bias.masked_fill_(~(mask | ~alive), -INF)
    return torch.softmax(scores + bias, dim=-1) * alive


@exercise.equivalent("row by row, over the allowed keys only")
def row_by_row(scores: Tensor, mask: Tensor) -> Tensor:
    allowed = mask.expand(scores.shape).reshape(-1, scores.shape[-1])
    rows = []
    for row, keep in zip(
        scores.reshape(-1, scores.shape[-1]), allowed, strict=True
    ):
        out = torch.zeros_like(row)
        if keep.any():
            out = out.masked_scatter(keep, torch.softmax(row[keep], 0))
        rows.append(out + 0 * row)
    return torch.stack(rows).reshape(scores.shape)


@exercise.equivalent("in place, on a copy")
def in_place(scores: Tensor, mask: Tensor) -> Tensor:
    work = scores.clone()
    work.masked_fill_(~mask, -INF)
    weights = work.softmax(-1)
    return weights.masked_fill(~mask, 0)


@exercise.equivalent("attention with the identity for values")
def sdpa(scores: Tensor, mask: Tensor) -> Tensor:
    size = scores.shape[-1]
    eye = torch.eye(size, dtype=torch.float64)
    eye = eye.expand(*scores.shape[:-2], size, size)
    bias = torch.zeros(mask.shape, dtype=torch.float64)
    bias = bias.masked_fill(~mask, -INF)
    if bias.dim() == 1:
        bias = bias[None]
    query = scores.double().masked_fill(~mask, 0)
    out = F.scaled_dot_product_attention(query, eye, eye, bias, scale=1.0)
    return out.to(scores.dtype)
