"""Exercise ``mha-attention_dropout``: which weights go, and when."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Generator, Tensor

from attn.exercises.spec import Case, Exercise, Property


def attention_dropout(
    weights: Tensor, keep: Tensor, p: float, training: bool
) -> Tensor:
    """The reference, in the words of the definition."""
    if not training:
        return weights
    grown = weights / (1 - p) if p < 1 else torch.zeros_like(weights)
    return torch.where(keep, grown, torch.zeros_like(weights))


def _cases(g: Generator) -> Iterator[Case]:
    def case(
        stage: str, *shape: int, p: float, training: bool, grad: bool = False
    ) -> Case:
        weights = torch.randn(*shape, generator=g).softmax(-1)
        keep = _keep(g, shape, p)
        return Case(stage, (weights, keep, p, training), grad=grad)

    stage = "the module is not training"
    yield case(stage, 4, 5, p=0.1, training=False)
    yield case(stage, 2, 3, 4, 5, p=0.7, training=False)

    stage = "the module is training"
    yield case(stage, 4, 6, p=0.1, training=True)
    yield case(stage, 4, 6, p=0.3, training=True)
    yield case(stage, 2, 3, 4, 5, p=0.7, training=True)

    stage = "whole rows are dropped, or kept"
    weights = torch.randn(3, 4, generator=g).softmax(-1)
    keep = torch.tensor([[False] * 4, [True] * 4, [True, False] * 2])
    yield Case(stage, (weights, keep, 0.25, True))

    stage = "p is 0"
    yield case(stage, 3, 4, p=0.0, training=True)
    yield case(stage, 3, 4, p=0.0, training=False)

    stage = "p is 1"
    yield case(stage, 3, 4, p=1.0, training=True)
    yield case(stage, 3, 4, p=1.0, training=False)

    stage = "the weights are a view of another tensor"
    weights = torch.randn(5, 4, 2, generator=g).softmax(0).transpose(0, 2)
    yield Case(stage, (weights, _keep(g, (2, 4, 5), 0.2), 0.2, True))

    stage = "gradients flow back"
    yield case(stage, 3, 5, p=0.2, training=True, grad=True)
    yield case(stage, 3, 5, p=0.2, training=False, grad=True)


def _keep(g: Generator, shape: tuple[int, ...], p: float) -> Tensor:
    """Tosses of a coin; where 0 < p < 1 both sides occur in each row."""
    keep = torch.rand(shape, generator=g) >= p
    if 0 < p < 1:
        at = torch.randint(shape[-1], shape[:-1], generator=g)[..., None]
        keep = keep.scatter(-1, at, False)
        keep = keep.scatter(-1, (at + 1) % shape[-1], True)
    return keep


def _dropped_are_zero(case: Case, out: Tensor) -> bool:
    _, keep, _, training = case.args
    return not training or not bool(out[~keep].any())


exercise = Exercise(
    id="mha-attention_dropout",
    points=2,
    reference=attention_dropout,
    cases=_cases,
    hints=(
        "Three cases: not training, p equal to 1, and the rest. Only the "
        "last needs a formula.",
        "A weight survives with probability 1 - p. For its mean over many "
        "tosses to be the weight itself, what must a survivor be divided "
        "by?",
        "weights * keep / (1 - p). With p = 1 that is 0 / 0, so this case "
        "returns zeros before it gets there; and outside training the "
        "weights come back as they are.",
    ),
    properties=(
        Property(
            "Where keep is False, the result must be exactly 0 in training.",
            _dropped_are_zero,
        ),
    ),
)


@exercise.misconception(
    "the rest does not grow", exposed_by="training, p above 0"
)
def no_growth(weights, keep, p, training):
    """The dropped weights are gone and the others are as they were, so in
    training a row sums to about 1 - p, and in evaluation to 1: the layer
    behind sees two different sizes. By what must the survivors be divided
    so that the mean stays?"""
    return weights * keep if training else weights


@exercise.misconception("the rest is divided by p", exposed_by="p = 0.1")
def divided_by_p(weights, keep, p, training):
    """p is the probability to be dropped; survivors occur with 1 - p. At
    p = 0.5 both are the same, and that is what most tests use; at 0.1 the
    weights are nine times too large. How often is a weight kept?"""
    if not training:
        return weights
    return weights * keep / p


@exercise.misconception(
    "the rest is multiplied by 1 - p", exposed_by="training, p above 0"
)
def shrunk(weights, keep, p, training):
    """The survivors shrink, though there are fewer of them. Their mean over
    many tosses is then (1 - p)² of the weight. Should those that are left
    grow or shrink?"""
    return weights * keep * (1 - p) if training else weights


@exercise.misconception(
    "dropped in evaluation too", exposed_by="training=False"
)
def never_off(weights, keep, p, training):
    """The same question gets another answer each time, also after
    model.eval(). A published tutorial does this, by handing dropout_p to a
    function that knows of no training mode. What is training for?"""
    if p == 1:
        return torch.zeros_like(weights)
    return weights * keep / (1 - p)


@exercise.misconception(
    "dropped in evaluation and not in training", exposed_by="either mode"
)
def upside_down(weights, keep, p, training):
    """The condition is the wrong way round: nothing happens in training,
    and everything after it. When do you want noise?"""
    if training:
        return weights
    if p == 1:
        return torch.zeros_like(weights)
    return weights * keep / (1 - p)


@exercise.misconception(
    "scaled down in evaluation", exposed_by="training=False"
)
def old_style(weights, keep, p, training):
    """Dropout as it was first written: nothing grows in training, and in
    evaluation all weights are multiplied by 1 - p. The means agree; but the
    task, and every library of today, leaves evaluation alone. Which of the
    two modes has to be cheap?"""
    return weights * keep if training else weights * (1 - p)


@exercise.misconception(
    "keep is taken for drop", exposed_by="training, p = 0.1"
)
def inverted(weights, keep, p, training):
    """What should stay is dropped, and what should go is scaled up: at
    p = 0.1 nine weights in ten are lost. What does True mean in keep?"""
    if not training:
        return weights
    if p == 1:
        return torch.zeros_like(weights)
    return weights * ~keep / (1 - p)


@exercise.misconception(
    "each row is made to sum to 1 again", exposed_by="training"
)
def renormalised(weights, keep, p, training):
    """Dividing by what is left of a row keeps its sum at 1, in every toss;
    dropout only keeps it on average, and lets single rows sum to more or
    less. (A row that lost everything would be 0 / 0.) By which number, the
    same for all, are survivors divided?"""
    if not training:
        return weights
    left = weights * keep
    total = left.sum(-1, keepdim=True)
    return torch.where(total > 0, left / total, 0.0)


@exercise.misconception(
    "divided by the share that was kept", exposed_by="training"
)
def empirical(weights, keep, p, training):
    """keep.mean() is how many were kept this time; the formula has the
    probability, 1 - p. Over few weights the two differ a lot. Which of them
    makes the mean over many tosses right?"""
    if not training:
        return weights
    share = keep.to(weights.dtype).mean()
    return weights * keep / share if share > 0 else torch.zeros_like(weights)


@exercise.misconception("p = 1 gives NaN", exposed_by="p = 1 in training")
def zero_by_zero(weights, keep, p, training):
    """With p = 1 everything is dropped and 1 - p is 0: zero divided by zero
    is NaN, and it spreads through the whole model. (With a Python float it
    may be a ZeroDivisionError.) What should come out when nothing is
    kept?"""
    return weights * keep / (weights.new_ones(()) - p) if training else weights


@exercise.misconception(
    "p = 1 divides by zero in Python", exposed_by="p = 1 in training"
)
def python_zero(weights, keep, p, training):
    """1 / (1 - p) with Python numbers raises ZeroDivisionError at p = 1.
    What should come out when nothing is kept?"""
    factor = 1.0 / (1.0 - p) if training else 1.0
    return weights * keep * factor if training else weights


@exercise.misconception(
    "the dropped become minus infinity", exposed_by="training"
)
def minus_infinity(weights, keep, p, training):
    """-inf hides a key before the softmax. These are weights, after it: a
    weight that is gone is 0. On which side of the softmax are you?"""
    if not training:
        return weights
    grown = weights / (1 - p) if p < 1 else weights
    return grown.masked_fill(~keep, -torch.inf)


@exercise.misconception("a softmax over what is left", exposed_by="training")
def softmax_again(weights, keep, p, training):
    """A second softmax turns weights into scores and flattens them: the
    largest weight is at most e times the smallest. The weights are made
    already; what is left only has to grow. By how much?"""
    if not training:
        return weights
    left = weights.masked_fill(~keep, -torch.inf).softmax(-1)
    return left.nan_to_num(0.0)


@exercise.misconception(
    "all weights grow, and none is dropped", exposed_by="training"
)
def only_growth(weights, keep, p, training):
    """keep is never read: all weights are divided by 1 - p, and every row
    sums to more than 1. Which weights should become 0?"""
    if not training:
        return weights
    return weights / (1 - p) if p < 1 else torch.zeros_like(weights)


@exercise.equivalent("masked_fill")
def _filled(weights, keep, p, training):
    if training and p >= 1:
        return weights.masked_fill(torch.ones_like(keep), 0.0)
    if training:
        return weights.masked_fill(~keep, 0.0) / (1 - p)
    return weights


@exercise.equivalent("a factor for each weight")
def _factor(weights, keep, p, training):
    if not training or p == 0:
        return weights * 1
    factor = keep.float() * (0.0 if p == 1 else 1 / (1 - p))
    return weights * factor


@exercise.equivalent("where")
def _where(weights, keep, p, training):
    if not training:
        return weights.clone()
    scale = 1.0 / max(1.0 - p, 1e-12)
    dropped = torch.logical_not(keep)
    return torch.where(dropped, torch.zeros(()), weights * scale)


@exercise.equivalent("in place on a copy")
def _in_place(weights, keep, p, training):
    out = weights.clone()
    if training:
        out[~keep] = 0
        if p < 1:
            out /= 1 - p
    return out


@exercise.equivalent("a multiplication only where it is kept")
def _only(weights, keep, p, training):
    if not training:
        return weights
    out = torch.zeros_like(weights)
    if p != 1.0:
        out[keep] = weights[keep] / (1 - p)
    else:
        out = out * weights
    return out
