"""Exercise ``mask-combine``: several masks become one bias."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Generator, Tensor

from attn.exercises.draw import between, some_allowed
from attn.exercises.spec import Case, Exercise, Property
from attn.masks import causal, sliding_window

INF = float("inf")


def _as_bias(mask: Tensor) -> Tensor:
    if mask.dtype != torch.bool:
        return mask
    return torch.where(mask, 0.0, -INF).float()


def _reference(*masks: Tensor) -> Tensor:
    together = torch.broadcast_tensors(*map(_as_bias, masks))
    return torch.stack(together).sum(0)


def _cases(g: Generator) -> Iterator[Case]:
    def mask(*shape: int) -> Tensor:
        return some_allowed(g, *shape)

    def bias(*shape: int) -> Tensor:
        """Numbers, with a few 0 and -inf among them."""
        numbers = torch.randn(*shape, generator=g)
        kind = torch.rand(shape, generator=g)
        numbers = numbers.masked_fill(kind < 0.2, 0.0)
        numbers = numbers.masked_fill(kind > 0.8, -INF)
        flat = numbers.view(-1)  # at least one of each
        at = torch.randperm(len(flat), generator=g)[:3]
        flat[at] = torch.tensor([0.0, -INF, 0.75])
        return numbers

    stage = "there is one bool mask"
    yield Case(stage, (mask(3, 5),))
    yield Case(stage, (mask(4, 4),))

    stage = "there is one additive mask"
    yield Case(stage, (bias(3, 5),))
    yield Case(stage, (torch.randn(4, 4, generator=g),))

    stage = "there are two bool masks"
    size = between(g, 4, 6)
    windowed = sliding_window(2).dense(size)[0, 0] | mask(size, size)
    yield Case(stage, (causal().dense(size)[0, 0], windowed))
    yield Case(stage, (mask(3, 5), mask(3, 5)))

    stage = "one mask is bool and one is additive"
    yield Case(stage, (mask(3, 5), bias(3, 5)))
    yield Case(stage, (bias(4, 4), mask(4, 4)))

    stage = "there are two additive masks"
    yield Case(stage, (bias(3, 5), bias(3, 5)))
    yield Case(stage, (bias(4, 4), torch.randn(4, 4, generator=g)))

    stage = "the masks have different shapes"
    yield Case(stage, (mask(4, 5), mask(2, 1, 1, 5)))
    yield Case(stage, (mask(2, 1, 1, 5), mask(4, 5)))
    yield Case(stage, (bias(3, 4, 5), mask(2, 1, 1, 5)))
    slopes = torch.rand(2, 1, 1, generator=g)
    yield Case(stage, (mask(2, 1, 3, 3), slopes, mask(3)))
    yield Case(stage, (mask(5), bias(4, 1)))

    stage = "there are many masks, and several forbid the same key"
    yield Case(stage, (mask(3, 4), bias(3, 4), mask(3, 4), bias(3, 4)))
    nobody = torch.zeros(3, 4, dtype=torch.bool)
    yield Case(stage, (nobody, bias(3, 4), nobody))

    stage = "a mask is a view of another tensor"
    yield Case(stage, (mask(5, 4).mT, bias(5, 4).mT, mask(1, 5).expand(4, 5)))


def _forbidden_is_inf(case: Case, out: Tensor) -> bool:
    return bool((out == -INF)[_reference(*case.args) == -INF].all())


def _allowed_is_finite(case: Case, out: Tensor) -> bool:
    return bool(out.isfinite()[_reference(*case.args) > -INF].all())


exercise = Exercise(
    id="mask-combine",
    points=2,
    reference=_reference,
    cases=_cases,
    hints=(
        "Two biases are combined by adding them. So only the bool masks "
        "need work: which two numbers do True and False become?",
        "True becomes 0 and False becomes -inf, chosen with torch.where or "
        "masked_fill. A product will not do: 0 * -inf is NaN.",
        "Go through the masks, turn a bool one into its bias, and add each "
        "to a total that starts from a zero: a 0-dim tensor broadcasts "
        "with everything. Adding -inf to -inf is still -inf.",
    ),
    properties=(
        Property(
            "The result is one float32 bias.",
            lambda case, out: out.dtype == torch.float32,
        ),
        Property(
            "There is NaN: where do a 0 and an infinity meet?",
            lambda case, out: not bool(out.isnan().any()),
        ),
        Property(
            "What one mask forbids must be -inf in the result.",
            _forbidden_is_inf,
        ),
        Property(
            "What all masks allow must be a finite number.",
            _allowed_is_finite,
        ),
    ),
)


def _sum(biases: list[Tensor]) -> Tensor:
    total = torch.zeros(())
    for bias in biases:
        total = total + bias
    return total


@exercise.misconception("True is taken to mean drop", exposed_by="one bool")
def polarity(*masks: Tensor) -> Tensor:
    """-inf stands where your bool mask allows. True means that a query may
    attend, so True becomes 0, which changes nothing, and False becomes
    -inf. masked_fill fills where its mask is True: which mask does it
    need?"""
    return _sum([_as_bias(~m) if m.dtype == torch.bool else m for m in masks])


@exercise.misconception(
    "True and False are added as 1 and 0", exposed_by="one bool mask"
)
def as_numbers(*masks: Tensor) -> Tensor:
    """Adding 1 to some scores and 0 to others makes the first a little
    more likely and forbids nothing. In the additive form 0 means: as you
    were. Which two numbers stand for allowed and forbidden?"""
    return _sum([m.float() for m in masks])


@exercise.misconception("0 * -inf is NaN", exposed_by="one bool mask")
def zero_times_inf(*masks: Tensor) -> Tensor:
    """(1 - mask) * -inf is -inf where forbidden. Where allowed it is
    0 * -inf, and that is NaN, not 0. Every row of scores that meets a NaN
    is lost as a whole. How can you choose between 0 and -inf, instead of
    multiplying?"""
    return _sum(
        [(1 - m.float()) * -INF if m.dtype == torch.bool else m for m in masks]
    )


@exercise.misconception(
    "one allows, so it is allowed (or instead of and)",
    exposed_by="two bool masks",
)
def either(*masks: Tensor) -> Tensor:
    """A key is allowed as soon as one bool mask allows it. Padding that
    causality permits would be seen, and so would the future where nothing
    is padded. All masks together apply: how many of them need to
    allow?"""
    bools = [m for m in masks if m.dtype == torch.bool]
    total = _sum([m for m in masks if m.dtype != torch.bool])
    if not bools:
        return total
    allowed = bools[0]
    for mask in bools[1:]:
        allowed = allowed | mask
    return total + _as_bias(allowed)


@exercise.misconception("only the last mask counts", exposed_by="two masks")
def only_last(*masks: Tensor) -> Tensor:
    """Each mask replaces the one before it. That is how a causal mask is
    lost on the day somebody adds padding: tested alone, both are fine.
    Does your loop add to the result, or overwrite it?"""
    return _sum([_as_bias(masks[-1])])


@exercise.misconception("only the first mask counts", exposed_by="two masks")
def only_first(*masks: Tensor) -> Tensor:
    """The masks after the first have no effect. That is how padding is
    seen as soon as a causal mask is there too: tested alone, both are
    fine. Does the loop return too early?"""
    return _sum([_as_bias(masks[0])])


@exercise.misconception(
    "a bias is read as bool: whatever is not 0 is allowed",
    exposed_by="one additive mask",
)
def bias_as_bool(*masks: Tensor) -> Tensor:
    """mask.bool() is False for 0 and True for everything else, -inf
    included: for a bias that is upside down, since 0 means allowed and
    -inf forbidden. And the numbers, such as ALiBi's distances, are lost.
    What should happen to a mask that is a float already?"""
    return _sum([_as_bias(m.bool()) for m in masks])


@exercise.misconception(
    "a bias is read as bool: only 0 is allowed",
    exposed_by="one additive mask",
)
def zero_is_allowed(*masks: Tensor) -> Tensor:
    """0 is kept and every other number is taken for forbidden. That fits a
    bias of 0 and -inf; one with other numbers, such as a position bias,
    forbids almost everything. What does a bias of -0.5 ask for?"""
    return _sum(
        [_as_bias(m if m.dtype == torch.bool else m == 0) for m in masks]
    )


@exercise.misconception(
    "a bias is kept only as allowed or forbidden: its numbers are lost",
    exposed_by="one additive mask",
)
def numbers_lost(*masks: Tensor) -> Tensor:
    """-inf is respected and the finite numbers of a bias have become 0.
    They are what a position bias consists of: the model would no longer
    know near from far. Where do the numbers get lost?"""
    return _sum(
        [_as_bias(m if m.dtype == torch.bool else m > -INF) for m in masks]
    )


@exercise.misconception(
    "additive masks are left out", exposed_by="one additive mask"
)
def bools_only(*masks: Tensor) -> Tensor:
    """Bool masks are converted and added, and the float ones have no
    effect. A float mask is in the form that you need already, so nothing
    has to be done to it but one thing. Which?"""
    return _sum(
        [
            _as_bias(m) if m.dtype == torch.bool else torch.zeros_like(m)
            for m in masks
        ]
    )


@exercise.misconception(
    "the smaller one instead of the sum", exposed_by="two additive masks"
)
def smallest(*masks: Tensor) -> Tensor:
    """For 0 and -inf, minimum and sum are the same. Two biases with other
    numbers both act on the scores: -1 and -2 together move a score by -3.
    Which operation applies both?"""
    total = _as_bias(masks[0])
    for mask in masks[1:]:
        total = torch.minimum(total, _as_bias(mask))
    return total


@exercise.misconception(
    "the masks are multiplied", exposed_by="two masks that both apply"
)
def multiplied(*masks: Tensor) -> Tensor:
    """A product is the way to combine masks of 1 and 0. In a bias, allowed
    is 0, and 0 times anything is 0, while 0 * -inf is NaN. Scores are
    added to; what does that say about how two biases combine?"""
    total = _as_bias(masks[0])
    for mask in masks[1:]:
        total = total * _as_bias(mask)
    return total


@exercise.misconception(
    "the result is bool: biases are lost", exposed_by="the dtype"
)
def returns_bool(*masks: Tensor) -> Tensor:
    """You give back who may attend, as True and False. That is enough for
    bool masks and throws away the numbers of a bias. Which of the two
    forms can express both?"""
    return _reference(*masks) > -INF


def _with_fill(fill: float, *masks: Tensor) -> Tensor:
    return _sum(
        [
            torch.zeros(m.shape).masked_fill(~m, fill)
            if m.dtype == torch.bool
            else m
            for m in masks
        ]
    )


@exercise.misconception("-1e9 instead of -inf", exposed_by="one bool mask")
def minus_1e9(*masks: Tensor) -> Tensor:
    """-1e9 is low, and it is a number. It does not fit into float16, scores
    can lie below it in principle, and a query that may attend to nothing
    takes the mean of everything instead of being recognised as dead.
    Which value is lower than every other in every float dtype?"""
    return _with_fill(-1e9, *masks)


@exercise.misconception(
    "the lowest float instead of -inf", exposed_by="one bool mask"
)
def lowest(*masks: Tensor) -> Tensor:
    """finfo.min is a number: a query that may attend to nothing takes the
    mean of everything, and nobody can tell it from one with low scores.
    Where two masks forbid the same key the sum overflows to -inf after
    all, so one row holds both kinds. Which value can be added to itself
    and stay what it is?"""
    return _with_fill(torch.finfo(torch.float32).min, *masks)


@exercise.equivalent("log of 1 and 0")
def logarithms(*masks: Tensor) -> Tensor:
    total = torch.tensor(0.0)
    for mask in masks:
        is_bool = mask.dtype is torch.bool
        total = total + (mask.float().log() if is_bool else mask)
    return total


@exercise.equivalent("bools joined first, then the biases")
def two_piles(*masks: Tensor) -> Tensor:
    shape = torch.broadcast_shapes(*(m.shape for m in masks))
    allowed = torch.ones(shape, dtype=torch.bool)
    bias = torch.zeros(shape)
    for mask in masks:
        if mask.dtype == torch.bool:
            allowed &= mask
        else:
            bias += mask
    return bias.masked_fill(~allowed, -INF)


@exercise.equivalent("where, and Python's sum")
def python_sum(*masks: Tensor) -> Tensor | int:
    zero, inf = torch.tensor(0.0), torch.tensor(-INF)
    return sum(
        m if m.is_floating_point() else torch.where(m, zero, inf)
        for m in masks
    )


@exercise.equivalent("two at a time, by recursion")
def recursion(*masks: Tensor) -> Tensor:
    first, *rest = masks
    if first.dtype == torch.bool:
        first = torch.full(first.shape, -INF).masked_fill(first, 0.0)
    return torch.add(first, recursion(*rest)) if rest else first.clone()


@exercise.equivalent("written into a full result")
def written(*masks: Tensor) -> Tensor:
    full = torch.broadcast_tensors(*masks)
    out = torch.zeros(full[0].shape)
    for mask in full:
        if mask.dtype == torch.bool:
            out[~mask] = -INF
        else:
            out = out + mask
    return out


@exercise.equivalent("in float64, then back")
def in_double(*masks: Tensor) -> Tensor:
    total = torch.zeros((), dtype=torch.float64)
    for mask in masks:
        if mask.dtype == torch.bool:
            mask = torch.where(mask, 0.0, -INF)
        total = total + mask.double()
    return total.float()
