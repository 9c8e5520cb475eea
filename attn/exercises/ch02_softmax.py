"""Exercise ``sdp-softmax``: scores become weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Generator, Tensor

from attn import functional
from attn.exercises.spec import Case, Exercise, Property

INF = float("inf")


def _cases(g: Generator) -> Iterator[Case]:
    def randn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=g) * 2

    stage = "there is one row of scores"
    yield Case(stage, (randn(5),))
    yield Case(stage, (randn(1),))

    stage = "every row is normalised by itself"
    yield Case(stage, (randn(4, 4),))
    yield Case(stage, (randn(3, 5),))
    yield Case(stage, (randn(2, 3, 6),))
    yield Case(stage, (randn(4, 1),))

    stage = "dim is not the last axis"
    yield Case(stage, (randn(4, 4), 0))
    yield Case(stage, (randn(3, 5), 0))
    yield Case(stage, (randn(2, 3, 4), 1))
    yield Case(stage, (randn(3, 3, 3), -2))
    yield Case(stage, (randn(2, 5, 3, 4), 1))

    stage = "a few scores are -inf, so their weights are 0"
    x = randn(4, 6)
    x[0, 2] = x[2, 0] = x[2, 5] = x[3, 1] = -INF
    yield Case(stage, (x,))

    stage = "the scores are large"
    yield Case(stage, (randn(3, 6) + 105,))
    yield Case(stage, (randn(3, 6) - 115,))
    yield Case(stage, (randn(1, 6) + 105,), {"dim": -1})
    yield Case(stage, (_spread(g, 3, 6),))
    yield Case(stage, (_spread(g, 4, 4).mT.contiguous(), 0))

    stage = "rows lie at very different heights"
    heights = torch.tensor([-110.0, 110.0, 0.0])[:, None]
    yield Case(stage, (randn(3, 5) + heights,))
    yield Case(stage, ((randn(3, 5) + heights).mT.contiguous(), 0))

    stage = "x is a view of another tensor"
    yield Case(stage, (randn(3, 4, 2).transpose(0, 2),))
    yield Case(stage, (randn(4, 1, 3).expand(4, 2, 3), 0))

    stage = "x is in half precision"
    for dtype in (torch.bfloat16, torch.float16):
        yield Case(stage, (randn(3, 5).to(dtype),))
        yield Case(stage, (_spread(g, 2, 5).to(dtype),))

    stage = "gradients flow back"
    yield Case(stage, (randn(3, 5),), grad=True)
    yield Case(stage, (randn(2, 4, 3), 1), grad=True)


def _spread(g: Generator, rows: int, columns: int) -> Tensor:
    """Scores from -1000 to 1000, far apart, so that one takes it all."""
    ladder = torch.linspace(-1000, 1000, columns).round()
    order = [torch.randperm(columns, generator=g) for _ in range(rows)]
    return torch.stack([ladder[i] for i in order])


def _along(case: Case) -> int:
    return case.kwargs.get("dim", case.args[1] if len(case.args) > 1 else -1)


def _sums_to_one(case: Case, out: Tensor) -> bool:
    off = (out.double().sum(_along(case)) - 1).abs() > 0.02
    return not bool(off.any())  # NaN has been reported already


def _keeps_order(case: Case, out: Tensor) -> bool:
    x, dim = case.args[0], _along(case)
    return bool(out.isnan().any()) or torch.equal(
        x.argmax(dim), out.argmax(dim)
    )


exercise = Exercise(
    id="sdp-softmax",
    points=2,
    reference=functional.softmax,
    cases=_cases,
    hints=(
        "Three steps: make every score positive with exp, add them up "
        "along dim, divide. Then ask what exp(1000) is.",
        "Taking the same number off every score of a slice changes "
        "nothing: exp(a - m) / exp(b - m) = exp(a) / exp(b). Which m "
        "makes the largest exp equal to 1? Each slice needs its own.",
        "x.amax(dim, keepdim=True) holds the largest score of each slice, "
        "with an axis of length 1 where dim was, so that it broadcasts "
        "against x. The sum needs the same keepdim=True.",
    ),
    forbids=("softmax", "log_softmax"),
    properties=(
        Property(
            "Weights cannot be negative: is that exp of something?",
            lambda case, out: not bool((out < 0).any()),
        ),
        Property(
            "The weights along dim must sum to 1, and these do not: what "
            "do you divide by?",
            _sums_to_one,
        ),
        Property(
            "The largest score must get the largest weight, and here it "
            "does not.",
            _keeps_order,
        ),
    ),
)


def _softmax(x: Tensor, dim: int = -1) -> Tensor:
    """Right; wrong answers that use it may not call torch's own."""
    exps = (x - x.amax(dim, keepdim=True)).exp()
    return exps / exps.sum(dim, keepdim=True)


@exercise.misconception(
    "no maximum is taken off", exposed_by="scores above 88 in float32"
)
def no_maximum(x: Tensor, dim: int = -1) -> Tensor:
    """exp(89) no longer fits into float32, exp(12) not into float16: it is
    inf, and inf / inf is NaN. Scores far below zero all give exp = 0, and
    0 / 0 is NaN too. In training this shows up weeks late, when the
    weights have grown. What can you take off every score without changing
    the ratio of any two exps?"""
    return x.exp() / x.exp().sum(dim, keepdim=True)


@exercise.misconception(
    "one maximum for the whole tensor",
    exposed_by="rows whose scores lie 200 apart",
)
def global_maximum(x: Tensor, dim: int = -1) -> Tensor:
    """x.max() is the largest score of all slices together. A slice that
    lies far below it becomes exp(-220) = 0 everywhere, and 0 / 0 is NaN:
    one loud head would silence another. How do you get one maximum for
    each slice?"""
    exps = (x - x.max()).exp()
    return exps / exps.sum(dim, keepdim=True)


@exercise.misconception(
    "dim is ignored: always the last axis", exposed_by="dim=0"
)
def last_axis(x: Tensor, dim: int = -1) -> Tensor:
    """The weights sum to 1 along the last axis, whatever dim says. Nothing
    in attention would tell you, because there dim is -1; the next person
    to call softmax(x, dim=0) gets a wrong answer of the right shape. Where
    does dim enter your code?"""
    return _softmax(x, -1)


@exercise.misconception(
    "dim is ignored: always the first axis", exposed_by="two axes, dim=-1"
)
def first_axis(x: Tensor, dim: int = -1) -> Tensor:
    """The weights sum to 1 down the first axis, whatever dim says. In a
    model that is the batch: each example would change when its neighbours
    do. Which axis should the weights of one query be summed over?"""
    return _softmax(x, 0)


@exercise.misconception(
    "the sum goes over everything", exposed_by="more than one row"
)
def sum_of_all(x: Tensor, dim: int = -1) -> Tensor:
    """The whole tensor sums to 1, not each slice of it. With one row the
    two are the same; with a thousand queries each would get a thousandth
    of its weight, and the layer's output all but vanishes. What must sum
    to 1, for each query?"""
    exps = (x - x.amax(dim, keepdim=True)).exp()
    return exps / exps.sum()


@exercise.misconception(
    "everything is one softmax", exposed_by="more than one row"
)
def one_softmax(x: Tensor, dim: int = -1) -> Tensor:
    """Maximum and sum are both taken over the whole tensor, so all rows
    share one total of 1 and a row with low scores gets almost nothing.
    Which calls in your code have not been told about dim?"""
    exps = (x - x.max()).exp()
    return exps / exps.sum()


def _without_keepdim(of_max: bool, of_sum: bool, shift: bool) -> Callable:
    def answer(x: Tensor, dim: int = -1) -> Tensor:
        highest = x.amax(dim, keepdim=not of_max)
        exps = (x - highest if shift else x).exp()
        return exps / exps.sum(dim, keepdim=not of_sum)

    answer.__doc__ = """Reducing an axis removes it, and what is left
        lines up with the wrong one: numbers that belong to the rows are
        used for the columns. Other shapes raise an error; a square input
        says nothing, and attention scores are square. Print x.shape and
        the shape of what you reduced: how do you keep the axis, with
        length 1?"""
    return answer


for _name, _max, _sum, _shift in (
    ("the sum has lost its axis (keepdim)", False, True, True),
    ("the maximum has lost its axis (keepdim)", True, False, True),
    ("maximum and sum have lost their axis (keepdim)", True, True, True),
    ("the sum has lost its axis (keepdim), no maximum", False, True, False),
):
    exercise.misconception(_name, exposed_by="a square input")(
        _without_keepdim(_max, _sum, _shift)
    )


@exercise.misconception(
    "the maximum is always taken along the last axis",
    exposed_by="dim=0 with moderate scores",
)
def maximum_along_last(x: Tensor, dim: int = -1) -> Tensor:
    """The sum follows dim and the maximum does not. Taking a number off
    changes nothing only when every score of the slice loses the same
    number. Along which axis should the maximum be taken?"""
    exps = (x - x.amax(-1, keepdim=True)).exp()
    return exps / exps.sum(dim, keepdim=True)


@exercise.misconception(
    "divided by the maximum, not by the sum", exposed_by="any two scores"
)
def divided_by_maximum(x: Tensor, dim: int = -1) -> Tensor:
    """The largest weight is always 1, however many scores there are, so the
    weights sum to more than 1 and a mean becomes a sum. What has to be 1:
    the largest weight, or all of them together?"""
    return (x - x.amax(dim, keepdim=True)).exp()


@exercise.misconception(
    "the logarithm is returned", exposed_by="any scores: weights below 0"
)
def logarithm(x: Tensor, dim: int = -1) -> Tensor:
    """These are the logarithms of the weights, as a loss function wants
    them: all of them are negative. A mean with negative weights is no
    mean. Which function takes you from log(w) back to w?"""
    return x - torch.logsumexp(x, dim, keepdim=True)


@exercise.misconception("base 2 instead of e", exposed_by="any two scores")
def base_two(x: Tensor, dim: int = -1) -> Tensor:
    """Fast kernels compute exp2, but first they multiply the scores by
    log2(e) = 1.4427. Without that the weights are too flat, by a factor
    that nobody sees by eye. What is 2 ** (x * 1.4427)?"""
    powers = torch.exp2(x - x.amax(dim, keepdim=True))
    return powers / powers.sum(dim, keepdim=True)


@exercise.misconception("the sign is flipped", exposed_by="any two scores")
def flipped(x: Tensor, dim: int = -1) -> Tensor:
    """Here the smallest score gets the largest weight: a query would attend
    most to what fits it least. Is it maximum minus x, or x minus
    maximum?"""
    return _softmax(-x, dim)


@exercise.misconception(
    "no exp: the scores are divided by their sum",
    exposed_by="scores of both signs",
)
def no_exponential(x: Tensor, dim: int = -1) -> Tensor:
    """Dividing by the sum makes the numbers sum to 1, but a negative score
    stays a negative weight, and scores that sum to 0 divide by 0. What
    turns any number into a positive one and keeps the order?"""
    return x / x.sum(dim, keepdim=True)


@exercise.misconception(
    "each score by itself (sigmoid)", exposed_by="more than one score"
)
def sigmoid(x: Tensor, dim: int = -1) -> Tensor:
    """Each score becomes a number between 0 and 1 that knows nothing of the
    other scores, so the weights sum to anything. In a softmax a score can
    only gain what others lose. Where do the other scores enter?"""
    return torch.sigmoid(x)


@exercise.misconception(
    "large scores are clamped", exposed_by="two scores above the limit"
)
def clamped(x: Tensor, dim: int = -1) -> Tensor:
    """Cutting scores off avoids the overflow, and makes two scores of 600
    and 1000 equal: the model can no longer tell its best key from its
    second best. How do you bring the largest score down without touching
    the differences?"""
    exps = x.clamp(-80, 80).exp()
    return exps / exps.sum(dim, keepdim=True)


@exercise.misconception(
    "the mean or the minimum is taken off, not the maximum",
    exposed_by="scores from -1000 to 1000",
)
def mean_off(x: Tensor, dim: int = -1) -> Tensor:
    """Any number may be taken off, and yet only one of them is safe: with
    scores of -1000 and 1000 the mean is 0, the minimum is -1000, and exp
    still overflows (and one score of -inf makes both -inf). Below which
    number are all scores of a slice?"""
    exps = (x - x.mean(dim, keepdim=True)).exp()
    return exps / exps.sum(dim, keepdim=True)


@exercise.misconception(
    "half precision comes back as float32", exposed_by="bfloat16 scores"
)
def stays_float(x: Tensor, dim: int = -1) -> Tensor:
    """Computing in float32 is a good idea; handing float32 back is not: the
    weights meet bfloat16 values next, and a matrix product of two dtypes
    raises an error. What did x.dtype say when it came in?"""
    return _softmax(x.float(), dim)


@exercise.misconception(
    "the result is cut off from the gradient",
    exposed_by="a score that asks for its gradient",
)
def detached(x: Tensor, dim: int = -1) -> Tensor:
    """The numbers are right and autograd knows nothing of them: .item(),
    .data, .detach(), .numpy(), a new torch.tensor(...) or no_grad all cut
    the thread. Queries and keys would never learn. Which line leaves
    torch?"""
    return _softmax(x.detach(), dim)


@exercise.equivalent("logsumexp")
def _logsumexp(x: Tensor, dim: int = -1) -> Tensor:
    return (x - torch.logsumexp(x, dim, keepdim=True)).exp()


@exercise.equivalent("in place on a clone, in float32")
def _in_place(x: Tensor, dim: int = -1) -> Tensor:
    y = x.clone().float()
    y -= y.max(dim, keepdim=True).values
    y = y.exp()
    return y.div(y.sum(dim=dim, keepdim=True)).type_as(x)


@exercise.equivalent("dim moved to the end, unsqueeze")
def _moved(x: Tensor, dim: int = -1) -> Tensor:
    y = x.movedim(dim, -1)
    exps = torch.exp(y - y.max(-1)[0].unsqueeze(-1))
    return (exps / exps.sum(-1)[..., None]).movedim(-1, dim)


@exercise.equivalent("powers of two with log2(e)")
def _powers(x: Tensor, dim: int = -1) -> Tensor:
    y = (x.float() - x.float().amax(dim, True).detach()) * 1.4426950408889634
    return (2.0**y / (2.0**y).sum(dim, True)).to(x.dtype)


@exercise.equivalent("slice by slice")
def _slices(x: Tensor, dim: int = -1) -> Tensor:
    def one(row: Tensor) -> Tensor:
        exps = [torch.exp(score - row.max()) for score in row]
        return torch.stack(exps) / sum(exps)

    rows = x.movedim(dim, -1)
    flat = rows.reshape(-1, rows.shape[-1])
    out = torch.stack([one(row) for row in flat]).reshape(rows.shape)
    return out.movedim(-1, dim)


@exercise.equivalent("differences of all pairs")
def _pairs(x: Tensor, dim: int = -1) -> Tensor:
    y = x.float().movedim(dim, -1)
    pairs = torch.exp(y[..., None, :] - y[..., :, None])  # exp(x_j - x_i)
    pairs = torch.where(y[..., :, None] == -INF, INF, pairs)
    return (1 / pairs.sum(-1)).movedim(-1, dim).to(x.dtype)
