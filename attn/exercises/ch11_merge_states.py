"""Exercise ``flash-merge_states``: two partial results into one."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Generator, Tensor

from attn import functional
from attn.exercises.spec import Case, Exercise, Property

State = tuple[Tensor, Tensor]
INF = float("inf")


def merge_states(first: State, second: State) -> State:
    """The reference, with the task's own arguments."""
    return functional.merge_states(first, second)


def _cases(g: Generator) -> Iterator[Case]:
    def state(
        *lead: int, S: int = 3, Dv: int = 4, shift: float = 0.0
    ) -> State:  # noqa: N803
        """Attention over S random keys, with scores moved by ``shift``."""
        scores = torch.randn(*lead, S, generator=g) + shift
        values = torch.randn(*lead[:-1], S, Dv, generator=g)
        return scores.softmax(-1) @ values, scores.logsumexp(-1)

    def empty(*lead: int, Dv: int = 4) -> State:  # noqa: N803
        return torch.zeros(*lead, Dv), torch.full(lead, -INF)

    stage = "both parts have the same weight"
    (out, lse), (other, _) = state(3), state(3)
    yield Case(stage, ((out, lse), (other, lse.clone())))

    stage = "one part weighs more than the other"
    yield Case(stage, (state(3, S=2), state(3, S=7)))
    yield Case(stage, (state(5, shift=1.5), state(5)))
    yield Case(stage, (state(5), state(5, shift=1.5)))

    stage = "there are batch and heads"
    yield Case(stage, (state(2, 3, 4), state(2, 3, 4, S=5)))

    stage = "axes have the same length"
    yield Case(stage, (state(4, 4, Dv=4), state(4, 4, Dv=4, shift=0.7)))

    stage = "there is one query"
    yield Case(stage, (state(2, 1), state(2, 1, S=1)))

    stage = "the sums are around exp(100)"
    yield Case(stage, (state(3, shift=100), state(3, shift=101)), rtol=1e-4)

    stage = "the sums are around exp(-100)"
    yield Case(stage, (state(3, shift=-101), state(3, shift=-100)), rtol=1e-4)

    stage = "the parts lie thousands apart"
    yield Case(stage, (state(3, shift=4000), state(3)), rtol=1e-3)
    yield Case(stage, (state(3), state(3, shift=4000)), rtol=1e-3)

    stage = "the first part is empty"
    yield Case(stage, (empty(3), state(3)))

    stage = "the second part is empty"
    yield Case(stage, (state(3), empty(3)))

    stage = "some rows are empty in one part"
    first, second = state(4), state(4)
    first[0][1], first[1][1] = 0.0, -INF
    second[0][2], second[1][2] = 0.0, -INF
    yield Case(stage, (first, second))

    stage = "both parts are empty"
    yield Case(stage, (empty(3), empty(3)))

    stage = "the states are views of other tensors"
    a, b = state(4, 3), state(4, 3)
    yield Case(
        stage,
        tuple((o.mT.contiguous().mT, m.mT.contiguous().mT) for o, m in (a, b)),
    )

    stage = "gradients flow back"
    yield Case(stage, (state(3), state(3, shift=1.0)), grad=True)


def _between(case: Case, out: object) -> bool:
    """Each number lies between those of the two parts."""
    (a, p), (b, q) = case.args
    if not isinstance(out, tuple) or out[0].shape != a.shape:
        return True
    full = (p.isfinite() & q.isfinite())[..., None]
    low, high = torch.minimum(a, b), torch.maximum(a, b)
    good = (out[0] >= low - 1e-3) & (out[0] <= high + 1e-3)
    return bool((good | ~full).all())


exercise = Exercise(
    id="flash-merge_states",
    points=2,
    reference=merge_states,
    cases=_cases,
    hints=(
        "lse is the log of a part's sum of exp(score). What is the sum over "
        "both parts, and what is its log? torch has a function for that.",
        "A part's share is its sum divided by the whole sum: exp(its lse - "
        "the whole lse). The two shares sum to 1. The new out is the sum of "
        "share times out.",
        "lse = torch.logaddexp(lse_a, lse_b); share = (lse_a - lse).exp()"
        "[..., None]. Where lse is -inf, subtract 0 in its place: both "
        "shares are then exp(-inf) = 0.",
    ),
    properties=(
        Property(
            "The result is a mean of the two outputs, so it lies between "
            "them. Here it does not: do the shares sum to 1?",
            _between,
        ),
    ),
)


def merging(first: State, second: State, *, lse=torch.logaddexp, share=None):
    """A right answer whose steps can be replaced by wrong ones."""
    whole = lse(first[1], second[1])
    safe = whole.masked_fill(whole == -INF, 0.0)
    share = share or (lambda own, other, whole: (own - whole).exp())
    a = share(first[1], second[1], safe)[..., None]
    b = share(second[1], first[1], safe)[..., None]
    return a * first[0] + b * second[0], whole


@exercise.misconception("the mean of the two", exposed_by="unequal parts")
def mean(first, second):
    """Each part counts half. A part with a hundred keys then counts as much
    as one with a single key that nobody wants. Which number says how much a
    part weighs?"""
    return merging(
        first, second, share=lambda a, b, w: torch.full_like(a, 0.5)
    )


@exercise.misconception("the outputs are added", exposed_by="equal parts")
def added(first, second):
    """Both outputs are means over their own keys. Two means added are no
    mean. What must the two factors in front of them sum to?"""
    return merging(first, second, share=lambda a, b, w: torch.ones_like(a))


@exercise.misconception(
    "weighted by the lse itself", exposed_by="unequal parts"
)
def by_lse(first, second):
    """The shares are lse / (lse + lse): logs in the place of sums. A log may
    be 0 or negative. What is a part's sum, when lse is its log?"""
    return merging(first, second, share=lambda a, b, w: a / (a + b))


@exercise.misconception("the shares are exchanged", exposed_by="unequal parts")
def exchanged(first, second):
    """Each output gets the share of the other. With equal parts nobody sees
    it. Which lse belongs to which out?"""
    return merging(first, second, share=lambda a, b, w: (b - w).exp())


@exercise.misconception(
    "the lse is the larger of the two", exposed_by="the second result"
)
def larger(first, second):
    """The maximum is close to the log of a sum when one part is far larger,
    and log 2 too small when both are equal. The shares no longer sum to 1.
    What is log(exp(a) + exp(b))?"""
    return merging(first, second, lse=torch.maximum)


@exercise.misconception(
    "the two lse are added", exposed_by="the second result"
)
def summed(first, second):
    """Logs that are added are the log of a product. Two sums have to be
    added: log(exp(a) + exp(b)). Which function does that without an
    overflow?"""
    return merging(first, second, lse=torch.add)


@exercise.misconception(
    "exp of the lse, with nothing taken off", exposed_by="exp(100)"
)
def overflows(first, second):
    """exp(100) is infinity in float32, and infinity / infinity is NaN. Only
    the difference to the whole lse is needed, and that is never above 0. What
    do you subtract before exp?"""
    a, b = first[1].exp(), second[1].exp()
    total = a + b
    safe = total.masked_fill(total == 0, 1.0)
    out = (a[..., None] * first[0] + b[..., None] * second[0]) / safe[
        ..., None
    ]
    return out, total.log()


@exercise.misconception(
    "minus infinity minus minus infinity", exposed_by="two empty parts"
)
def nan(first, second):
    """Where both parts are empty, lse is -inf, and -inf - -inf is NaN. What
    finite number may be subtracted there, so that exp gives 0?"""
    lse = torch.logaddexp(first[1], second[1])
    a, b = ((x[1] - lse).exp()[..., None] for x in (first, second))
    return a * first[0] + b * second[0], lse


@exercise.misconception("base 2", exposed_by="unequal parts")
def base_two(first, second):
    """exp2 and log2: right among themselves, and the lse that come in are
    natural logs. Which base does the task give?"""
    return merging(
        first,
        second,
        lse=torch.logaddexp2,
        share=lambda a, b, w: torch.exp2(a - w),
    )


@exercise.misconception("only the first part", exposed_by="any second part")
def first_only(first, second):
    """The second state is never used, or its share is 0. What do both parts
    contribute when they are equal?"""
    return first[0] * 1.0, first[1] * 1.0


@exercise.misconception(
    "the mean, where a part is empty", exposed_by="an empty part"
)
def halves_empty(first, second):
    """An empty part has lse -inf and a share of 0. Filled with 0, its lse
    says that its sum is exp(0) = 1, as much as a key with a score of 0. What
    is exp(-inf)?"""
    a, b = (x[1].masked_fill(x[1] == -INF, 0.0) for x in (first, second))
    return merging((first[0], a), (second[0], b))


@exercise.equivalent("a sigmoid")
def _sigmoid(first, second):
    lse = torch.logaddexp(first[1], second[1])
    gap = first[1] - second[1]
    gap = gap.masked_fill(gap.isnan(), 0.0)  # both empty: 0 and 0
    share = torch.sigmoid(gap)[..., None]
    return share * first[0] + (1 - share) * second[0], lse


@exercise.equivalent("a softmax over the parts")
def _softmax(first, second):
    logs = torch.stack([first[1], second[1]])
    dead = (logs == -INF).all(0)
    shares = logs.masked_fill(dead, 0.0).softmax(0)[..., None]
    outs = torch.stack([first[0], second[0]])
    return (shares * outs).sum(0), logs.logsumexp(0)


@exercise.equivalent("by the maximum")
def _by_maximum(first, second):
    top = torch.maximum(first[1], second[1])
    top = top.masked_fill(top == -INF, 0.0)
    a, b = (first[1] - top).exp(), (second[1] - top).exp()
    total = a + b
    some = total.masked_fill(total == 0, 1.0)
    out = a[..., None] * first[0] + b[..., None] * second[0]
    return out / some[..., None], top + total.log()


@exercise.equivalent("the other way round")
def _swapped(first, second):
    return merging(second, first)
