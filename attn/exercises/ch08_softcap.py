"""Exercise ``sdpa-softcap``: bounded scores, then the mask."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Generator, Tensor

from attn.exercises.spec import Case, Exercise, Property


def softcap(
    scores: Tensor, cap: float, attn_mask: Tensor | None = None
) -> Tensor:
    """The reference: squashed, then masked."""
    capped = cap * torch.tanh(scores / cap)
    if attn_mask is None:
        return capped
    return capped.masked_fill(~attn_mask, -torch.inf)


def _cases(g: Generator) -> Iterator[Case]:
    def randn(*shape: int, spread: float = 3.0) -> Tensor:
        return torch.randn(*shape, generator=g) * spread

    def some(*shape: int) -> Tensor:
        allowed = torch.rand(*shape, generator=g) > 0.4
        allowed[..., 0], allowed[..., -1] = True, False
        return allowed

    stage = "the cap is 1"
    yield Case(stage, (randn(4, 5), 1.0))

    stage = "the cap is not 1"
    yield Case(stage, (randn(3, 5), 2.0))
    yield Case(stage, (randn(3, 5), 0.5))
    yield Case(stage, (randn(3, 5), 5))
    yield Case(stage, (randn(2, 3, 4, 5), 3.0))

    stage = "the scores are far below the cap"
    yield Case(stage, (randn(4, 5, spread=0.5), 50.0))

    stage = "the scores are far above the cap"
    yield Case(stage, (randn(4, 5, spread=800.0), 30.0))

    stage = "there is a mask"
    yield Case(stage, (randn(3, 5), 2.0, some(3, 5)))
    yield Case(stage, (randn(2, 3, 4, 5), 0.7, some(2, 3, 4, 5)))

    stage = "the mask is smaller than the scores and broadcasts"
    yield Case(stage, (randn(2, 3, 4, 5), 2.0, some(4, 5)))
    yield Case(stage, (randn(3, 2, 4, 5), 4.0, some(3, 1, 1, 5)))

    stage = "a query may attend to nothing"
    mask = some(3, 4)
    mask[1] = False
    yield Case(stage, (randn(3, 4), 2.0, mask))

    stage = "the scores are a view of another tensor"
    yield Case(stage, (randn(5, 4, 2).transpose(0, 2), 1.5, some(4, 5)))
    yield Case(stage, (randn(1, 5).expand(4, 5), 1.5))

    stage = "gradients flow back"
    yield Case(stage, (randn(3, 5), 2.0), grad=True)
    yield Case(stage, (randn(2, 3, 4), 0.8), {"attn_mask": None}, grad=True)


def _below_the_cap(case: Case, out: Tensor) -> bool:
    cap = case.args[1]
    finite = out[out.isfinite()]
    return bool((finite.abs() <= cap * 1.0001).all())


def _hidden_is_hidden(case: Case, out: Tensor) -> bool:
    mask = case.args[2] if len(case.args) > 2 else None
    if mask is None or out.shape != case.args[0].shape:
        return True
    return bool((out[~mask.expand(out.shape)] == -torch.inf).all())


exercise = Exercise(
    id="sdpa-softcap",
    points=2,
    reference=softcap,
    cases=_cases,
    hints=(
        "tanh squeezes everything into -1 to 1. Stretch the scores into its "
        "range first, and the result back afterwards.",
        "For a small x, tanh(x) is x. So cap * tanh(scores / cap) leaves "
        "small scores as they are, and bounds large ones by the cap.",
        "Then the mask: capped.masked_fill(~attn_mask, -math.inf). If it "
        "came first, tanh would turn minus infinity into -1.",
    ),
    properties=(
        Property(
            "What is allowed must stay between -cap and cap, and here it "
            "does not.",
            _below_the_cap,
        ),
        Property(
            "Where the mask forbids, the result must be -inf: any finite "
            "number leaves the key some weight.",
            _hidden_is_hidden,
        ),
    ),
)


def _mask(scores: Tensor, attn_mask: Tensor | None) -> Tensor:
    if attn_mask is None:
        return scores
    return scores.masked_fill(~attn_mask, -torch.inf)


@exercise.misconception(
    "the mask comes first, then the cap", exposed_by="attn_mask"
)
def mask_first(scores, cap, attn_mask=None):
    """tanh(-inf) is -1, so a forbidden score becomes -cap: finite, and it
    gets weight. (Filling with -cap does the same.) With a cap of 50 the
    weight is small and nobody notices; with small caps the future leaks.
    Which of the two steps must be last?"""
    return cap * torch.tanh(_mask(scores, attn_mask) / cap)


@exercise.misconception(
    "not divided by the cap before tanh", exposed_by="a cap that is not 1"
)
def no_division(scores, cap, attn_mask=None):
    """cap * tanh(scores): every score above 2 is as good as the cap, and
    small ones are multiplied by it. What should happen to scores that are
    far below the cap?"""
    return _mask(cap * torch.tanh(scores), attn_mask)


@exercise.misconception(
    "not multiplied by the cap after tanh", exposed_by="a cap that is not 1"
)
def no_product(scores, cap, attn_mask=None):
    """tanh(scores / cap) lies between -1 and 1, whatever the cap: all keys
    get nearly the same weight. By what do you get back to the size that the
    scores had?"""
    return _mask(torch.tanh(scores / cap), attn_mask)


@exercise.misconception("the cap is ignored", exposed_by="large scores")
def plain_tanh(scores, cap, attn_mask=None):
    """tanh alone caps at 1. Where does cap enter, before tanh, after it, or
    both?"""
    return _mask(torch.tanh(scores), attn_mask)


@exercise.misconception(
    "multiplied first, divided after", exposed_by="a cap that is not 1"
)
def upside_down(scores, cap, attn_mask=None):
    """tanh(scores * cap) / cap bounds the scores by 1 / cap. Put a score in
    that is twice the cap, by hand: what should come out, about?"""
    return _mask(torch.tanh(scores * cap) / cap, attn_mask)


@exercise.misconception(
    "clamped instead of squashed", exposed_by="scores near the cap"
)
def clamped(scores, cap, attn_mask=None):
    """clamp cuts: below the cap nothing changes, above it everything is
    equal and has no gradient. The cap is soft because tanh bends early and
    never stops learning. Which function goes smoothly to a bound?"""
    return _mask(scores.clamp(-cap, cap), attn_mask)


@exercise.misconception(
    "a sigmoid instead of tanh", exposed_by="negative scores"
)
def sigmoid(scores, cap, attn_mask=None):
    """A sigmoid runs from 0 to 1: a score of 0 becomes cap / 2. For small
    scores nothing should change; which function is its own argument near
    0?"""
    return _mask(cap * torch.sigmoid(scores / cap), attn_mask)


@exercise.misconception("the softmax is taken too", exposed_by="any input")
def weights(scores, cap, attn_mask=None):
    """The result is weights already. The task asks for what goes *into* the
    softmax: the capped and masked scores. What does the Returns line
    say?"""
    return _mask(cap * torch.tanh(scores / cap), attn_mask).softmax(-1)


@exercise.misconception("the mask is ignored", exposed_by="attn_mask")
def unmasked(scores, cap, attn_mask=None):
    """attn_mask is accepted and never read. Where in your code does a
    forbidden key become -inf?"""
    return cap * torch.tanh(scores / cap)


@exercise.misconception("the mask is upside down", exposed_by="attn_mask")
def inverted(scores, cap, attn_mask=None):
    """Allowed keys become -inf and forbidden ones stay. True means may
    attend; masked_fill fills where its mask is True. Where does the ~
    belong?"""
    capped = cap * torch.tanh(scores / cap)
    return capped if attn_mask is None else _mask(capped, ~attn_mask)


@exercise.misconception(
    "forbidden keys get a very large negative number", exposed_by="attn_mask"
)
def lowest(scores, cap, attn_mask=None):
    """The lowest number of the dtype works until a whole row is forbidden:
    then the softmax spreads over keys that nobody may see. The task asks
    for -inf. Which number has no neighbour below it?"""
    capped = cap * torch.tanh(scores / cap)
    low = torch.finfo(scores.dtype).min
    return capped if attn_mask is None else capped.masked_fill(~attn_mask, low)


@exercise.misconception(
    "forbidden keys get minus a billion", exposed_by="attn_mask"
)
def billion(scores, cap, attn_mask=None):
    """-1e9 works until a whole row is forbidden, and does not fit into half
    precision. The task asks for -inf. Which number has no neighbour below
    it?"""
    capped = cap * torch.tanh(scores / cap)
    return (
        capped if attn_mask is None else capped.masked_fill(~attn_mask, -1e9)
    )


@exercise.misconception("forbidden keys get 0", exposed_by="attn_mask")
def zeroed(scores, cap, attn_mask=None):
    """A score of 0 is not forbidden: exp(0) = 1. Scores are multiplied by
    the mask, or filled with 0; which number makes a weight exactly 0?"""
    capped = cap * torch.tanh(scores / cap)
    return capped if attn_mask is None else capped * attn_mask


@exercise.misconception("the mask is added", exposed_by="attn_mask")
def added(scores, cap, attn_mask=None):
    """scores + mask takes True as 1: allowed keys are favoured a little and
    nothing is forbidden. What do you have to turn the booleans into before
    you add them?"""
    capped = cap * torch.tanh(scores / cap)
    return capped if attn_mask is None else capped + attn_mask


@exercise.equivalent("from exp")
def _exps(scores, cap, attn_mask=None):
    squashed = 2 * torch.sigmoid(2 * scores / cap) - 1
    return _mask(squashed * cap, attn_mask)


@exercise.equivalent("where")
def _where(scores, cap, attn_mask=None):
    capped = (scores / cap).tanh() * cap
    if attn_mask is not None:
        capped = torch.where(attn_mask, capped, float("-inf"))
    return capped


@exercise.equivalent("a bias, added")
def _bias(scores, cap, attn_mask=None):
    if attn_mask is None:
        attn_mask = torch.ones(scores.shape[-1], dtype=torch.bool)
    bias = torch.zeros(attn_mask.shape).masked_fill(~attn_mask, -torch.inf)
    return cap * torch.tanh(scores / cap) + bias


@exercise.equivalent("in place on a copy")
def _in_place(scores, cap, attn_mask=None):
    out = scores.clone()
    out = out.div(cap).tanh().mul(cap)
    if attn_mask is not None:
        hidden = (~attn_mask).expand(out.shape)
        out[hidden] = -torch.inf
    return out


@exercise.equivalent("masked before and after")
def _twice(scores, cap, attn_mask=None):
    scores = _mask(scores, attn_mask)
    safe = scores.masked_fill(scores == -torch.inf, 0.0)
    return _mask(cap * torch.tanh(safe / cap), attn_mask)
