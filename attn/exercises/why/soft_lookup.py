"""Cases, properties and correct variants of ``why-soft_lookup``."""

from collections.abc import Iterator

import torch
from torch import Tensor

from attn import functional
from attn.exercises.draw import Draw
from attn.exercises.sdp.draw import far_apart, in_range
from attn.exercises.spec import Case, Exercise
from attn.exercises.symmetry import is_view, many_keys, many_queries


def soft_lookup(
    query: Tensor, key: Tensor, value: Tensor, temperature: float = 1.0
) -> Tensor:
    """Attend, with one over the temperature as the scale."""
    return functional.scaled_dot_product_attention(
        query, key, value, scale=1 / temperature
    )


def _cases(g: Draw) -> Iterator[Case]:
    def case(when: str, L: int, S: int, D: int, Dv: int, *t: float) -> Case:
        return Case(when, (g.randn(L, D), g.randn(S, D), g.randn(S, Dv), *t))

    when = "there is one key, so only its value counts"
    yield case(when, 3, 1, 4, 5)
    yield case(when, 1, 1, 2, 2, 0.5)

    when = "the query is zero, so the result is the mean of the values"
    yield Case(when, (torch.zeros(2, 4), g.randn(5, 4), g.randn(5, 3)))

    when = "the temperature is not given"
    yield case(when, 3, 5, 4, 6)
    yield case(when, 6, 4, 3, 5)

    when = "the temperature is not 1"
    yield case(when, 3, 5, 8, 6, 0.5)
    yield case(when, 2, 7, 4, 3, 3.0)

    when = "there are as many queries as keys"
    yield case(when, 4, 4, 3, 2, 2.0)
    yield case(when, 4, 4, 4, 4, 0.7)

    yield case("D is 1", 2, 3, 1, 4, 0.8)

    when = "the temperature is given by name"
    inputs = g.randn(2, 3), g.randn(4, 3), g.randn(4, 2)
    yield Case(when, inputs, {"temperature": 4.0})

    when = "the temperature is high: nearly the mean"
    yield case(when, 3, 5, 4, 2, 100.0)

    when = "the temperature is low: one key decides"
    yield case(when, 3, 5, 4, 2, 0.01)

    when = "the scores are large"
    q, k = far_apart(g)
    yield Case(when, (q, k, g.randn(5, 2)))
    yield Case(when, (-q, k, g.randn(5, 2), 2.0))

    when = "the scores are large, and the temperature is high"
    inputs = 40 * g.randn(3, 4), 2 * g.randn(5, 4), g.randn(5, 2)
    yield Case(when, (*inputs, 100.0))

    yield case("there are many keys", 3, 40, 4, 2, 1.5)

    when = "the dtype is float64"
    inputs = (
        g.randn(3, 4).double(),
        g.randn(5, 4).double(),
        g.randn(5, 2).double(),
    )
    yield Case(when, (*inputs, 1.5))

    when = "there is a batch: three axes"
    inputs = g.randn(2, 3, 4), g.randn(2, 5, 4), g.randn(2, 5, 6)
    yield Case(when, (*inputs, 1.5))
    inputs = g.randn(3, 3, 3), g.randn(3, 3, 3), g.randn(3, 3, 3)
    yield Case(when, (*inputs, 0.6))

    when = "there is a batch of several heads: four axes"
    inputs = g.randn(2, 3, 4, 6), g.randn(2, 3, 5, 6), g.randn(2, 3, 5, 7)
    yield Case(when, (*inputs, 2.5))

    when = "the inputs are views of other tensors"
    views = g.randn(2, 6, 3).mT, g.randn(2, 6, 5).mT, g.randn(5, 2, 4)
    yield Case(when, (views[0], views[1], views[2].transpose(0, 1), 2.0))
    heads = g.randn(2, 4, 3, 5), g.randn(2, 6, 3, 5), g.randn(2, 6, 3, 7)
    yield Case(when, (*(x.transpose(1, 2) for x in heads), 2.0))

    when = "gradients flow back"
    inputs = g.randn(2, 3, 4), g.randn(2, 5, 4), g.randn(2, 5, 6)
    yield Case(when, (*inputs, 1.7), grad=True)


exercise = Exercise(
    id="why-soft_lookup",
    points=2,
    reference=soft_lookup,
    cases=_cases,
    forbids=("scaled_dot_product_attention",),
    properties=(in_range,),
    breaks={
        "S = 1": many_keys,
        "L = S": many_queries,
        "H = 1": lambda c: c.args[0].dim() == 4,
        "weight = 1": lambda c: len(c.args) > 3 and c.args[3] != 1,
        "contiguous strides": is_view,
    },
)


@exercise.equivalent("einsum, the query divided")
def _einsum(query, key, value, temperature=1.0):
    scores = torch.einsum("...ld,...sd->...ls", query / temperature, key)
    return torch.einsum("...ls,...sv->...lv", scores.softmax(-1), value)


@exercise.equivalent("exp of what is left when the largest is subtracted")
def _exp(query, key, value, temperature=1.0):
    scores = torch.matmul(query, key.transpose(-2, -1))
    top = scores.amax(dim=-1, keepdim=True)
    exps = ((scores - top) / temperature).exp()
    return exps @ value / exps.sum(dim=-1, keepdim=True)


@exercise.equivalent("keys down, queries across, transposed at the end")
def _transposed(query, key, value, temperature=1.0):
    scores = key @ query.mT / temperature  # (..., S, L)
    return (value.mT @ scores.softmax(-2)).mT


@exercise.equivalent("one query at a time")
def _loop(query, key, value, temperature=1.0):
    rows = []
    for q in query.unbind(-2):
        scores = (key * q.unsqueeze(-2)).sum(-1).div(temperature)
        weights = torch.softmax(scores, dim=-1)
        rows.append((weights.unsqueeze(-1) * value).sum(-2))
    return torch.stack(rows, dim=-2)


@exercise.equivalent("log_softmax, broadcasting")
def _log(query, key, value, temperature=1.0):
    scores = (query[..., :, None, :] * key[..., None, :, :]).sum(-1)
    logs = torch.log_softmax(scores / temperature, -1)
    return (logs.exp()[..., None] * value[..., None, :, :]).sum(-2)
