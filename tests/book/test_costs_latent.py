"""Latent attention's lines of the cost sheet, computed in another way."""

from fractions import Fraction

import pytest
import torch

from attn import cost
from attn.cache import LatentCache
from attn.functional import index_scores
from tests.book.cost_sheet import PAGE, Products, values, x

HEADING = "Latent attention"
SIZES = (x.B, x.L, x.S, x.H, x.R, x.n, x.r, x.v)


def both(*sizes):
    """What latents cost, expanded and absorbed."""
    how = ({"absorb": is_absorbed} for is_absorbed in (False, True))
    return [cost.latent_attention_cost(*sizes, **x) for x in how]


def test_flops_on_the_page_equal_the_cost_model():
    starts = ("up-projection", "scores of heads", "weights times values or")
    columns = zip(*(values(HEADING, s) for s in starts), strict=True)
    for absorb, column in zip((False, True), columns, strict=True):
        how = {"absorb": absorb, "is_causal": False}
        got = cost.latent_attention_cost(*SIZES, **how)
        assert sum(column) == got.flops
    assert len(PAGE[HEADING]) == 7


def test_bytes_on_the_page_equal_those_of_a_cache():
    cache = LatentCache()
    new = [torch.zeros(x.B, 1, x.S, size).half() for size in (x.R, x.r)]
    cache.update(*new)
    [latents] = values(HEADING, "bytes of the model's cache")
    assert latents == x.N * cache.nbytes
    assert latents == cost.latent_cache_bytes(x.B, x.S, x.N, x.R, x.r)
    [heads] = values(HEADING, "if it kept keys and values")
    key, value = (
        cost.kv_cache_bytes(x.B, x.S, x.N, x.H, width)
        for width in (x.n + x.r, x.v)
    )
    assert heads == (key + value) // 2


def test_beyond_the_crossover_on_the_page_absorbing_costs_more():
    many = 10**7
    for R, n, r, v in ((512, 128, 64, 128), (26, 10, 9, 14), (64, 32, 8, 16)):
        [crossover] = values(HEADING, "new queries up to", R=R, n=n, v=v)
        exact = Fraction(R * (n + v), 2 * R - n - v)
        assert crossover == exact
        for queries, is_less in ((int(exact), True), (int(exact) + 1, False)):
            expanded, absorbed = both(1, queries, many, 3, R, n, r, v)
            assert (absorbed.flops < expanded.flops) is is_less
    [deepseek] = values(HEADING, "new queries up to", R=512, n=128, v=128)
    assert int(deepseek) == 170


def test_a_prompt_is_cheaper_expanded_and_a_step_absorbed():
    for queries, absorbs in ((1, True), (1000, False)):
        expanded, absorbed = both(1, queries, 1000, 16, 512, 128, 64, 128)
        assert (absorbed.flops < expanded.flops) is absorbs
    _, step = both(1, 1, 2**18, 128, 512, 128, 64, 128)
    heads = cost.attention_cost(1, 1, 2**18, 128, 128, 160)  # mean of widths
    assert step.intensity > 100 * heads.intensity


def test_an_indexer_costs_what_torch_counts():
    query, key = torch.ones(x.B, x.H, x.L, x.D), torch.ones(x.B, x.S, x.D)
    with Products() as counter:
        index_scores(query, key, torch.ones(x.B, x.L, x.H))
    assert values(HEADING, "FLOPs of an indexer") == [counter.total]


def test_latents_do_as_many_flops_a_byte_as_the_page_says():
    general, half = values("FLOPs for each byte", "absorbed latents")
    many = 10**6
    long = cost.latent_attention_cost(
        many, x.L, many, x.H, x.R, x.n, x.r, x.v, absorb=True, is_causal=False
    )
    assert general == half == pytest.approx(long.intensity, rel=1e-3)
