"""Exercise ``sdpa-sinks``: attention that may go nowhere."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Generator, Tensor

from attn.exercises.spec import Case, Exercise, Property
from attn.functional import softmax


def sinks(scores: Tensor, sinks: Tensor) -> Tensor:
    """The reference: one more column, thrown away."""
    column = sinks[:, None, None].expand(*scores.shape[:-1], 1)
    return softmax(torch.cat([scores, column], -1))[..., :-1]


def _cases(g: Generator) -> Iterator[Case]:
    def randn(*shape: int, spread: float = 2.0) -> Tensor:
        return torch.randn(*shape, generator=g) * spread

    stage = "there is one head"
    yield Case(stage, (randn(1, 1, 5), randn(1)))
    yield Case(stage, (randn(2, 1, 3, 4), randn(1)))

    stage = "there are several heads, each with its sink"
    yield Case(stage, (randn(3, 4, 5), randn(3)))
    yield Case(stage, (randn(2, 3, 4, 5), randn(3)))
    yield Case(stage, (randn(2, 6, 1, 7), randn(6)))

    stage = "axes have the same length"
    yield Case(stage, (randn(3, 3, 3, 3), randn(3)))
    yield Case(stage, (randn(4, 4, 4), randn(4)))
    yield Case(stage, (randn(2, 4, 3, 4), randn(4)))

    stage = "the sink is far below the scores, so it takes nothing"
    yield Case(stage, (randn(2, 3, 5), torch.tensor([-1000.0, -500.0])))

    stage = "the sink is far above the scores, so it takes everything"
    yield Case(stage, (randn(2, 3, 5), torch.tensor([1000.0, 300.0])))

    stage = "the scores are large"
    ranks = torch.rand(2, 3, 4, generator=g).argsort(-1)  # no ties
    yield Case(stage, ((ranks - 1) * 400.0, torch.tensor([7.0, 600.0])))

    stage = "some scores are -inf"
    masked = randn(2, 3, 4, 5)
    masked[..., 3:] = -torch.inf
    masked[1, :, 2, 0] = -torch.inf
    yield Case(stage, (masked, randn(3)))

    stage = "a query has no key: all its scores are -inf"
    dead = randn(2, 3, 4, 5)
    dead[:, :, 1] = -torch.inf
    yield Case(stage, (dead, randn(3)))

    stage = "there are five axes"
    yield Case(stage, (randn(2, 1, 3, 4, 5), randn(3)))

    stage = "the scores are a view of another tensor"
    yield Case(stage, (randn(5, 4, 3).transpose(0, 2), randn(3)))

    stage = "gradients flow back to scores and sinks"
    yield Case(stage, (randn(2, 3, 4, 5, spread=1), randn(3)), grad=True)

    stage = "gradients flow back and a query has no key"
    dead = randn(2, 3, 5, spread=1)
    dead[:, 1] = -torch.inf
    yield Case(stage, (dead, randn(2)), grad=True)


def _sums_below_one(case: Case, out: Tensor) -> bool:
    return bool((out.sum(-1) <= 1.0001).all())


def _same_shape(case: Case, out: object) -> bool:
    return isinstance(out, Tensor) and out.shape == case.args[0].shape


exercise = Exercise(
    id="sdpa-sinks",
    points=2,
    reference=sinks,
    cases=_cases,
    hints=(
        "Pretend that there is one more key. Its score is the sink of the "
        "head, for every query; after the softmax its weight is dropped.",
        "sinks is (H,), the heads are the third axis from the end: "
        "sinks[:, None, None] is (H, 1, 1). Expand it to one column of the "
        "scores, (..., H, L, 1).",
        "torch.cat([scores, column], -1), a softmax over the last axis, "
        "and all columns but the last. torch's softmax takes care of large "
        "numbers.",
    ),
    properties=(
        Property(
            "The result should have the shape of the scores: the sink's "
            "own weight is thrown away.",
            _same_shape,
        ),
        Property(
            "With a sink, the weights of the keys sum to 1 or less.",
            _sums_below_one,
        ),
    ),
)


def _column(scores: Tensor, sinks: Tensor) -> Tensor:
    return sinks[:, None, None].expand(*scores.shape[:-1], 1)


@exercise.misconception("the sink is ignored", exposed_by="any input")
def ignored(scores, sinks):
    """A plain softmax: each row sums to 1, and a head that has nothing to
    say still has to look somewhere. In which step does the sink take its
    share?"""
    return softmax(scores)


@exercise.misconception(
    "the sink's column is kept", exposed_by="any input: one column too many"
)
def kept(scores, sinks):
    """The result has S + 1 columns. There is no value for the sink, so its
    weight has nothing to multiply. Which column should be thrown away?"""
    return softmax(torch.cat([scores, _column(scores, sinks)], -1))


@exercise.misconception(
    "the sink is put first, and the last key is thrown away",
    exposed_by="any input",
)
def wrong_column(scores, sinks):
    """The sink stands in column 0 and the last column is dropped: every
    weight has moved one key to the right, and the sink's is among them. On
    which side did you put it?"""
    both = torch.cat([_column(scores, sinks), scores], -1)
    return softmax(both)[..., :-1]


@exercise.misconception(
    "the weights are made to sum to 1 again", exposed_by="any input"
)
def renormalised(scores, sinks):
    """Dividing by what is left takes the sink out again: the same as no
    sink at all. What is the sum of a row meant to tell?"""
    weights = softmax(torch.cat([scores, _column(scores, sinks)], -1))
    weights = weights[..., :-1]
    total = weights.sum(-1, keepdim=True)
    return torch.where(total > 0, weights / total, weights)


@exercise.misconception(
    "the sink is added to every score", exposed_by="any input"
)
def added(scores, sinks):
    """A number that is added to a whole row cancels in the softmax: nothing
    happens. The sink is one more logit beside the scores, not on top of
    them. How many logits does a row have?"""
    return softmax(scores + sinks[:, None, None])


@exercise.misconception(
    "1 in the denominator, whatever the sink",
    exposed_by="sinks that are not 0",
)
def softmax_one(scores, sinks):
    """exp(s) / (1 + sum exp(s)) is the softmax with a sink of 0 ("softmax
    one"). Here each head has learned its own. What stands in the place of
    the 1?"""
    return softmax(torch.cat([scores, _column(scores, sinks) * 0], -1))[
        ..., :-1
    ]


@exercise.misconception(
    "the sink itself in the denominator, not its exp",
    exposed_by="any input",
)
def raw_sink(scores, sinks):
    """The sink is a logit, like a score: it enters the sum as exp(sink). As
    it stands it may even be negative, and the weights then sum to more than
    1. What is done to every other logit before it is added up?"""
    top = scores.amax(-1, keepdim=True)
    top = torch.where(top == -torch.inf, 0.0, top)
    exps = (scores - top).exp()
    return exps / (exps.sum(-1, keepdim=True) + _column(scores, sinks))


@exercise.misconception(
    "the largest score is taken off, and not off the sink",
    exposed_by="scores that are not near 0",
)
def sink_not_shifted(scores, sinks):
    """exps of scores minus the maximum, plus exp(sink) as it is: the sink
    was not moved with the others, so its share depends on how high the
    scores lie. What has to be subtracted from every logit of a row?"""
    top = scores.amax(-1, keepdim=True)
    top = torch.where(top == -torch.inf, 0.0, top)
    exps = (scores - top).exp()
    total = exps.sum(-1, keepdim=True) + _column(scores, sinks).exp()
    return exps / total


@exercise.misconception(
    "the maximum is taken over the scores alone",
    exposed_by="a sink far above the scores",
)
def overflow_of_the_sink(scores, sinks):
    """With the largest *score* taken off, a sink of 1000 overflows: exp is
    inf, and inf in the denominator... is 0, or NaN where the numerator is
    inf too; its gradient is NaN. Over how many logits does the maximum have
    to go?"""
    top = scores.amax(-1, keepdim=True)
    top = torch.where(top == -torch.inf, 0.0, top)
    exps = (scores - top).exp()
    sink = (_column(scores, sinks) - top).exp()
    return exps / (exps.sum(-1, keepdim=True) + sink) * (sink - sink + 1)


@exercise.misconception("no maximum is taken off", exposed_by="scores of 1000")
def overflow(scores, sinks):
    """exp of a large score is inf, and inf / inf is NaN. You have solved
    this in chapter 2: which number may be subtracted from a whole row, sink
    included?"""
    exps = scores.exp()
    sink = _column(scores, sinks).exp()
    return exps / (exps.sum(-1, keepdim=True) + sink)


@exercise.misconception(
    "the sinks are spread along the keys", exposed_by="as many keys as heads"
)
def along_keys(scores, sinks):
    """(H,) meets (..., H, L, S) from the right: each sink lands on a key.
    It raises an error unless there are as many keys as heads, and then it
    is silently wrong. Where does the head axis stand, and how many axes
    behind it?"""
    return softmax(scores + sinks)


@exercise.misconception(
    "the sinks are spread along the queries",
    exposed_by="as many queries as heads",
)
def along_queries(scores, sinks):
    """sinks[:, None] is (H, 1), and meets the queries: each query has a
    sink, instead of each head. How many axes stand behind the heads in
    (..., H, L, S)?"""
    column = sinks[:, None].expand(*scores.shape[:-1], 1)
    return softmax(torch.cat([scores, column], -1))[..., :-1]


@exercise.misconception("one sink for all heads", exposed_by="several heads")
def shared(scores, sinks):
    """Every head gets the mean of the sinks (or the first). Heads differ:
    some rest often, some never. Which axis of the scores does sinks belong
    to?"""
    column = sinks.mean().expand(*scores.shape[:-1], 1)
    return softmax(torch.cat([scores, column], -1))[..., :-1]


@exercise.misconception(
    "the first head's sink for all", exposed_by="several heads"
)
def first(scores, sinks):
    """Every head uses sinks[0]. Which axis of the scores does sinks belong
    to?"""
    column = sinks[0].expand(*scores.shape[:-1], 1)
    return softmax(torch.cat([scores, column], -1))[..., :-1]


@exercise.misconception(
    "the sink is subtracted from the weights", exposed_by="any input"
)
def subtracted(scores, sinks):
    """A softmax, and then a share taken off: weights become negative. The
    sink competes *inside* the softmax. Where does the denominator come
    from?"""
    return softmax(scores) - sinks[:, None, None]


@exercise.misconception(
    "the weights are multiplied by 1 - sink", exposed_by="any input"
)
def gated(scores, sinks):
    """A gate that is the same for all queries. A sink takes much where the
    scores are low, and nothing where one key fits well: its share depends
    on the row. What does it compete with?"""
    return softmax(scores) * (1 - sinks[:, None, None])


@exercise.misconception(
    "the weights are multiplied by sigmoid(sink)", exposed_by="any input"
)
def gated_by_sigmoid(scores, sinks):
    """A learned gate for each head, the same for every query. The right
    gate is sigmoid(lse - sink), where lse is the log of the row's sum: it
    knows how well the keys fit. What does yours know of the row?"""
    return softmax(scores) * sinks[:, None, None].sigmoid()


@exercise.misconception(
    "the sink's weight is given to the last key", exposed_by="any input"
)
def given_away(scores, sinks):
    """What the sink took is added to a key, so that the row sums to 1. But
    it was meant to go nowhere: the output becomes smaller. What happens to
    the sink's weight?"""
    weights = softmax(torch.cat([scores, _column(scores, sinks)], -1))
    last = weights[..., -2:-1] + weights[..., -1:]
    return torch.cat([weights[..., :-2], last], -1)


@exercise.equivalent("a gate: sigmoid(lse - sink)")
def _gate(scores, sinks):
    dead = (scores == -torch.inf).all(-1, keepdim=True)
    safe = scores.masked_fill(dead, 0.0)
    lse = safe.logsumexp(-1, keepdim=True)
    weights = safe.softmax(-1) * torch.sigmoid(lse - sinks[:, None, None])
    return weights.masked_fill(dead, 0.0)


@exercise.equivalent("the denominator by hand")
def _by_hand(scores, sinks):
    sink = sinks.view(-1, 1, 1)
    top = torch.maximum(scores.amax(-1, keepdim=True), sink).detach()
    exps = (scores - top).exp()
    return exps / (exps.sum(-1, keepdim=True) + (sink - top).exp())


@exercise.equivalent("exp of scores minus the log of the whole sum")
def _logs(scores, sinks):
    column = sinks[:, None, None].expand(*scores.shape[:-1], 1)
    whole = torch.cat([scores, column], -1).logsumexp(-1, keepdim=True)
    return (scores - whole).exp()


@exercise.equivalent("the sink in front")
def _front(scores, sinks):
    column = sinks.reshape(-1, 1, 1).broadcast_to(*scores.shape[:-1], 1)
    both = torch.cat((column, scores), dim=-1)
    return torch.softmax(both, dim=-1)[..., 1:]


@exercise.equivalent("head by head")
def _heads(scores, sinks):
    parts = []
    for h, sink in enumerate(sinks):
        head = scores[..., h, :, :]
        column = sink.expand(*head.shape[:-1], 1)
        parts.append(torch.cat([head, column], -1).softmax(-1)[..., :-1])
    return torch.stack(parts, -3)
