"""Cases, properties and correct variants of ``flash-merge_states``."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from attn import functional
from attn.exercises.draw import Draw
from attn.exercises.spec import Case, Exercise, Property

State = tuple[Tensor, Tensor]


def _cases(g: Draw) -> Iterator[Case]:
    def state(
        *lead: int, S: int = 3, Dv: int = 4, shift: float = 0.0
    ) -> State:
        """Attend to S random keys, with scores moved by ``shift``."""
        scores = torch.randn(*lead, S, generator=g) + shift
        values = torch.randn(*lead[:-1], S, Dv, generator=g)
        return scores.softmax(-1) @ values, scores.logsumexp(-1)

    empty = torch.zeros(3, 4), torch.full((3,), -math.inf)

    when = "both parts have the same weight"
    (out, lse), (other, _) = state(3), state(3)
    yield Case(when, ((out, lse), (other, lse.clone())))

    when = "one part weighs more than the other"
    yield Case(when, (state(3, S=2), state(3, S=7)))
    yield Case(when, (state(5, shift=1.5), state(5)))
    yield Case(when, (state(5), state(5, shift=1.5)))

    when = "there are batch and heads"
    yield Case(when, (state(2, 3, 4), state(2, 3, 4, S=5)))

    when = "axes have the same length"
    yield Case(when, (state(4, 4), state(4, 4, shift=0.7)))

    when = "there is one query"
    yield Case(when, (state(2, 1), state(2, 1, S=1)))
    yield Case(when, (state(1, Dv=1), state(1, S=1, Dv=1)))

    for sign in (1, -1):
        when = f"the lse are around {sign * 100}"
        low, high = (state(3, shift=sign * 100 + i) for i in (0, 1))
        yield Case(when, (high, low), rtol=1e-4)

    when = "the rows are far apart"
    parts = state(3), state(3)
    for _, lse in parts:
        lse += torch.tensor([0.0, -110.0, -220.0])
    yield Case(when, parts, rtol=1e-4)

    when = "both parts have a very small lse"
    yield Case(when, (state(3, shift=-20_000), state(3, shift=-20_200)))

    when = "the parts are thousands apart"
    yield Case(when, (state(3, shift=4000), state(3)))
    yield Case(when, (state(3), state(3, shift=4000)))

    yield Case("the first part is empty", (empty, state(3)))

    yield Case("the second part is empty", (state(3), empty))

    when = "some rows are empty in one part"
    first, second = state(4), state(4)
    first[0][1], first[1][1] = 0.0, -math.inf
    second[0][2], second[1][2] = 0.0, -math.inf
    yield Case(when, (first, second))

    yield Case("both parts are empty", (empty, empty))

    when = "a row is empty in both parts, and others are not"
    first, second = state(4, shift=0.5), state(4)
    for part in (first, second):
        part[0][1], part[1][1] = 0.0, -math.inf
    first[0][2], first[1][2] = 0.0, -math.inf
    yield Case(when, (first, second))

    when = "the states are views of other tensors"
    parts = state(4, 3), state(4, 3)
    views = [tuple(x.mT.contiguous().mT for x in part) for part in parts]
    yield Case(when, tuple(views))

    when = "gradients flow back"
    yield Case(when, (state(3), state(3, shift=1.0)), grad=True)


def _between(case: Case, out: object) -> bool:
    """Claim that each element is between those of the two parts."""
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
    reference=functional.merge_states,
    cases=_cases,
    properties=(
        Property(
            "The result is a mean of the two outputs, so it is between "
            "them. Here it is not: do the shares sum to 1?",
            _between,
        ),
    ),
    breaks={
        "contiguous strides": lambda c: not c.args[0][0].is_contiguous(),
    },
)


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
    dead = (logs == -math.inf).all(0)
    shares = logs.masked_fill(dead, 0.0).softmax(0)[..., None]
    outs = torch.stack([first[0], second[0]])
    return (shares * outs).sum(0), logs.logsumexp(0)


@exercise.equivalent("by the maximum")
def _by_maximum(first, second):
    top = torch.maximum(first[1], second[1])
    top = top.masked_fill(top == -math.inf, 0.0)
    a, b = (first[1] - top).exp(), (second[1] - top).exp()
    total = a + b
    some = total.masked_fill(total == 0, 1.0)
    out = a[..., None] * first[0] + b[..., None] * second[0]
    return out / some[..., None], top + total.log()


@exercise.equivalent("the other way round")
def _swapped(first, second):
    return functional.merge_states(second, first)


@exercise.equivalent("0 where both parts are empty, afterwards")
def _afterwards(first, second):
    lse = torch.logaddexp(first[1], second[1])
    a, b = (torch.exp(m - lse).unsqueeze(-1) for _, m in (first, second))
    return torch.nan_to_num(a * first[0] + b * second[0]), lse


@exercise.equivalent("from the difference of the two lse")
def _difference(first, second):
    (x, m), (y, n) = first, second
    gap = (n - m).nan_to_num(nan=0.0, posinf=math.inf, neginf=-math.inf)
    lse = torch.where(m == -math.inf, n, m + (1 + gap.exp()).log())
    lse = torch.where(gap > 80, n, lse)
    share = 1 / (1 + gap.exp())
    return y + (x - y) * share[..., None], lse
