"""The lightning indexer: its scores, and the loss that trains it."""

import pytest
import torch

import attn
from attn.functional import index_scores, indexer_loss
from attn.nn import LightningIndexer
from tests.attn.cases import randn as draw
from tests.attn.refusals import refused


def attention_of(seed=0, H=3, L=6):
    hidden = torch.ones(L, L, dtype=torch.bool).triu(1)
    scores = draw(2, H, L, L, seed=seed).masked_fill(hidden, -torch.inf)
    return scores.softmax(-1), ~hidden


def test_a_score_is_the_weighted_sum_of_the_heads_positive_products():
    query, key, weights = draw(2, 3, 4, 5), draw(2, 6, 5), draw(2, 4, 3)
    scores = index_scores(query, key, weights)
    for b, i, s in ((0, 0, 0), (1, 3, 5), (1, 2, 4)):
        want = sum(
            weights[b, i, h] * max(query[b, h, i] @ key[b, s], 0.0)
            for h in range(3)
        )
        torch.testing.assert_close(scores[b, i, s], want)


def test_the_loss_is_the_divergence_from_the_mean_of_the_heads():
    weights, allowed = attention_of()
    scores = draw(2, 6, 6, seed=1)
    p = weights.mean(1)
    log_q = scores.masked_fill(~allowed, -torch.inf).log_softmax(-1)
    rows = torch.where(allowed, p * (p.log() - log_q), 0.0).sum(-1)
    loss = indexer_loss(scores, weights, allowed)
    torch.testing.assert_close(loss, rows.mean())
    hidden = scores.masked_fill(~allowed, -torch.inf)
    torch.testing.assert_close(indexer_loss(hidden, weights), loss)


def test_among_chosen_keys_the_weights_are_compared_alone():
    weights, allowed = attention_of(L=8)
    scores = draw(2, 8, 8, seed=1)
    chosen = attn.masks.top_k(scores, 3, allowed).dense(8, batch=2)[:, 0]
    p = weights.mean(1) * chosen
    p = p / p.sum(-1, keepdim=True)
    log_q = scores.masked_fill(~chosen, -torch.inf).log_softmax(-1)
    rows = torch.where(chosen, p * (p.log() - log_q), 0.0).sum(-1)
    loss = indexer_loss(scores, weights, chosen)
    torch.testing.assert_close(loss, rows.mean())


def test_a_query_without_keys_does_not_count_and_gives_no_nan():
    weights, allowed = attention_of()
    scores = draw(2, 6, 6, seed=1).requires_grad_()
    dead = torch.cat([allowed[:-1], torch.zeros(1, 6).bool()])
    loss = indexer_loss(scores, weights * dead, dead)
    loss.backward()
    alone = indexer_loss(scores[:, :-1], weights[:, :, :-1], allowed[:-1])
    torch.testing.assert_close(loss, alone)
    assert scores.grad.isfinite().all()
    assert (scores.grad[:, ~dead] == 0).all()


def test_the_loss_of_half_precision_is_computed_in_float32():
    weights, allowed = attention_of()
    scores = draw(2, 6, 6, seed=1)
    half = indexer_loss(scores.bfloat16(), weights.bfloat16(), allowed)
    assert half.dtype == torch.float32
    exact = indexer_loss(
        scores.bfloat16().double(), weights.bfloat16().double(), allowed
    )
    assert float((half - exact).abs() / exact) < 1e-5


VALUE_ERRORS = {
    r"scores must have shape \(B, L, S\)": (
        lambda: indexer_loss(draw(2, 2, 3, 3), draw(2, 2, 3, 3))
    ),
    r"weights must have shape \(B, H, L, S\) = \(2, H, 3, 3\)": (
        lambda: indexer_loss(draw(2, 3, 3), draw(2, 3, 3))
    ),
    "key must have one head for all": (
        lambda: index_scores(draw(1, 2, 3, 4), draw(1, 2, 3, 4), draw(1, 3, 2))
    ),
    r"weights must have shape \(B, L, H\) = \(1, 3, 2\)": (
        lambda: index_scores(draw(1, 2, 3, 4), draw(1, 5, 4), draw(1, 2, 3))
    ),
    "rope must have at most the head_dim, 4; got 8": (
        lambda: LightningIndexer(8, 2, 4, rope=attn.Rope(8))
    ),
    "top_k must be an int, at least 1; got 0": (
        lambda: LightningIndexer(8, 2, 4, top_k=0)
    ),
}
test_a_wrong_call_is_refused = refused(VALUE_ERRORS, ValueError)


def test_a_mask_of_the_loss_must_be_bool():
    with pytest.raises(TypeError, match="attn_mask must be bool"):
        indexer_loss(draw(2, 3, 3), draw(2, 1, 3, 3), torch.zeros(3, 3))


def test_what_the_indexer_chooses_passes_it_no_gradient():
    layer = LightningIndexer(8, 2, 4, top_k=2).double()
    chosen = layer.choose(draw(1, 5, 8), limits=torch.ones(5, 5).tril().bool())
    assert not chosen.requires_grad
    assert chosen.sum(-1).tolist() == [[[1, 2, 2, 2, 2]]]


def test_with_as_few_keys_as_it_keeps_the_indexer_limits_nothing():
    layer = LightningIndexer(8, 2, 4, top_k=5).double()
    limits = torch.ones(5, 5).tril().bool()
    assert layer.choose(draw(1, 5, 8)) is None
    assert layer.choose(draw(1, 5, 8), limits=limits) is limits
