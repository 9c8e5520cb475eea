"""Exercise ``sdp-logit_variance``: what the factor 1 / sqrt(D) is for."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Generator, Tensor

from attn import functional
from attn.exercises.spec import Case, Exercise, Property

Pair = tuple[float, float]


def logit_variance(query: Tensor, key: Tensor) -> Pair:
    """The reference: each pair of rows is a sequence of one token."""
    q, k = query[:, None], key[:, None]  # (N, 1, D)
    raw = functional.attention_weights(q, k, scale=1.0).scores
    scaled = functional.attention_weights(q, k).scores  # (N, 1, 1)
    return raw.var().item(), scaled.var().item()


def _cases(g: Generator) -> Iterator[Case]:
    def randn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=g)

    stage = "D is 1, so both variances are that of N plain products"
    yield Case(stage, (randn(3, 1) + 1, randn(3, 1) + 1))
    yield Case(stage, (randn(40, 1), randn(40, 1)))

    stage = "each dot product adds D products"
    yield Case(stage, (randn(50, 16), randn(50, 16)))
    yield Case(stage, (randn(200, 7), randn(200, 7)))

    stage = "N and D are the same"
    yield Case(stage, (randn(9, 9), randn(9, 9)))

    stage = "the inputs have a mean and a spread of their own"
    yield Case(stage, (randn(60, 5) * 3 + 1, randn(60, 5) / 2 - 1))

    stage = "there are few rows"
    yield Case(stage, (randn(2, 12), randn(2, 12)))

    stage = "the inputs are views of other tensors"
    yield Case(stage, (randn(4, 30).mT, randn(60, 4)[::2]))


exercise = Exercise(
    id="sdp-logit_variance",
    points=1,
    reference=logit_variance,
    cases=_cases,
    hints=(
        "Row n meets row n only: N dot products, not N times N. Multiply "
        "the two tensors element by element, then add up along the "
        "features.",
        "dots = (query * key).sum(-1) has shape (N,). Its .var() is the "
        "first number. For the second, scale the dots first and take the "
        "variance afterwards.",
        "The scaled dots are dots / math.sqrt(query.shape[-1]). Return "
        "both variances as a tuple: before, after. Dividing numbers by c "
        "divides their variance by c * c: does your pair agree?",
    ),
    properties=(
        Property(
            "The second variance must be the first divided by D, because "
            "dividing numbers by c divides their variance by c * c.",
            lambda case, out: math.isclose(
                float(out[0]),
                float(out[1]) * case.args[0].shape[-1],
                rel_tol=1e-3,
            ),
        ),
    ),
)


def _dots(query: Tensor, key: Tensor) -> Tensor:
    return (query * key).sum(-1)


def _pair(before: Tensor, after: Tensor) -> Pair:
    return before.item(), after.item()


@exercise.misconception(
    "standard deviation, not variance", exposed_by="any input"
)
def deviation(query: Tensor, key: Tensor) -> Pair:
    """torch.std is the root of the variance. With it you would read that
    the spread grows with sqrt(D), which is true too, but not what is asked.
    Which of the two is squared?"""
    dots = _dots(query, key)
    return _pair(dots.std(), (dots / query.shape[-1] ** 0.5).std())


@exercise.misconception(
    "divided by N, not by N - 1", exposed_by="few rows: N = 3"
)
def biased(query: Tensor, key: Tensor) -> Pair:
    """This is the mean squared distance from the mean. torch.var divides by
    N - 1 by default, because the mean was estimated from the same rows;
    numpy's var divides by N. For 100 000 rows nobody sees it: what is the
    difference for 3?"""
    dots = _dots(query, key)
    scaled = dots / query.shape[-1] ** 0.5
    return _pair(dots.var(correction=0), scaled.var(correction=0))


@exercise.misconception(
    "mean of the squares: the mean is not taken off",
    exposed_by="dot products whose mean is not 0",
)
def second_moment(query: Tensor, key: Tensor) -> Pair:
    """For inputs around 0 the mean of the squares is almost the variance,
    so the experiment below would look right. What is the variance of a
    constant 5?"""
    dots = _dots(query, key)
    scaled = dots / query.shape[-1] ** 0.5
    return _pair(dots.square().mean(), scaled.square().mean())


@exercise.misconception(
    "every query with every key", exposed_by="more than one row"
)
def all_pairs(query: Tensor, key: Tensor) -> Pair:
    """query @ key.mT makes N * N dot products, as attention does. The task
    pairs row n with row n; for 100 000 rows your matrix would need 40 GB.
    Which N of these numbers are wanted?"""
    scores = query @ key.mT
    return _pair(scores.var(), (scores / query.shape[-1] ** 0.5).var())


@exercise.misconception(
    "the products are never added up", exposed_by="D above 1"
)
def no_sum(query: Tensor, key: Tensor) -> Pair:
    """query * key is one product for each feature, and its variance is about
    1 whatever D is: the growth that the chapter is about has disappeared.
    What makes a dot product out of D products?"""
    products = query * key
    return _pair(products.var(), (products / query.shape[-1] ** 0.5).var())


@exercise.misconception(
    "the mean of the products, not their sum", exposed_by="D above 1"
)
def mean_of_products(query: Tensor, key: Tensor) -> Pair:
    """mean(-1) is the sum divided by D, so the variance is too small by
    D * D. A dot product has no 1 / D in it. Which reduction do you want?"""
    dots = (query * key).mean(-1)
    return _pair(dots.var(), (dots / query.shape[-1] ** 0.5).var())


@exercise.misconception(
    "added up over the rows", exposed_by="more rows than features"
)
def wrong_axis(query: Tensor, key: Tensor) -> Pair:
    """sum(0) adds over the N rows and leaves D numbers, one for each
    feature. A dot product of two rows runs over their features. What shape
    should the dots have, (N,) or (D,)?"""
    dots = (query * key).sum(0)
    return _pair(dots.var(), (dots / query.shape[-1] ** 0.5).var())


@exercise.misconception(
    "the variance is divided by the root of D", exposed_by="D above 1"
)
def variance_over_root(query: Tensor, key: Tensor) -> Pair:
    """The factor belongs to the scores, not to their variance. Divide N
    numbers by c, and their variance goes down by c * c. What is c here?"""
    var = _dots(query, key).var()
    return _pair(var, var / query.shape[-1] ** 0.5)


@exercise.misconception(
    "the scores are divided by D, not by its root", exposed_by="D above 1"
)
def over_width(query: Tensor, key: Tensor) -> Pair:
    """Dividing by D (or both query and key by sqrt(D)) makes the variance
    1 / D instead of 1: wide heads would attend to everything evenly. Which
    divisor brings a variance of D back to 1?"""
    dots = _dots(query, key)
    return _pair(dots.var(), (dots / query.shape[-1]).var())


@exercise.misconception("multiplied by the root of D", exposed_by="D above 1")
def multiplied(query: Tensor, key: Tensor) -> Pair:
    """The factor is 1 / sqrt(D), and you multiply by sqrt(D): the spread
    grows where it should shrink. Should the second number be larger or
    smaller than the first?"""
    dots = _dots(query, key)
    return _pair(dots.var(), (dots * query.shape[-1] ** 0.5).var())


@exercise.misconception(
    "scaled by the number of rows", exposed_by="N and D that differ"
)
def by_rows(query: Tensor, key: Tensor) -> Pair:
    """query.shape[0] and len(query) are N, the number of experiments: with
    more of them, the second variance would go to 0. How many terms does
    one dot product add?"""
    dots = _dots(query, key)
    return _pair(dots.var(), (dots / query.shape[0] ** 0.5).var())


@exercise.misconception(
    "divided by 8, whatever D is", exposed_by="D other than 64"
)
def always_eight(query: Tensor, key: Tensor) -> Pair:
    """8 is sqrt(64), right for one width of head and no other. Where can
    you read D?"""
    dots = _dots(query, key)
    return _pair(dots.var(), (dots / 8).var())


@exercise.misconception("after and before are swapped", exposed_by="D above 1")
def swapped(query: Tensor, key: Tensor) -> Pair:
    """Both numbers are right and stand in the other order. The plot below
    would say that scaling makes things worse. Which comes first, before or
    after?"""
    before, after = logit_variance(query, key)
    return after, before


@exercise.equivalent("einsum, 0-dim tensors")
def _einsum(query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
    dots = torch.einsum("nd,nd->n", query, key)
    return dots.var(), torch.var(dots * query.size(1) ** -0.5)


@exercise.equivalent("bmm, a list")
def _bmm(query: Tensor, key: Tensor) -> list[float]:
    dots = torch.bmm(query[:, None], key[:, :, None]).flatten()
    return [x.var().item() for x in (dots, dots / math.sqrt(key.shape[1]))]


@exercise.equivalent("the diagonal of all pairs, the variance divided by D")
def _diagonal(query: Tensor, key: Tensor) -> Pair:
    var = float((query @ key.T).diagonal().var())
    return var, var / query.shape[1]


@exercise.equivalent("a loop, statistics from the standard library")
def _loop(query: Tensor, key: Tensor) -> Pair:
    from statistics import variance

    dots = [float(q @ k) for q, k in zip(query, key, strict=True)]
    root = math.sqrt(query.shape[1])
    return variance(dots), variance(dot / root for dot in dots)
