"""The distribution that a token is drawn from is that of transformers."""

import itertools

import pytest
import torch

from attn.nn import filter_logits, penalize_repetition

V = 50


def logits(batch=64, std=3.0):
    g = torch.Generator().manual_seed(0)
    x = std * torch.randn(batch, V, generator=g)
    x[0] = x[0].round()  # with ties
    x[1] = 0
    x[2, 1:] = -torch.inf
    x[3, ::2] = -torch.inf
    return x


def theirs(x, temperature, top_k, top_p, min_p):
    """Apply transformers' warpers, in the order of its generate."""
    import transformers as T

    for warper, value in (
        (T.TemperatureLogitsWarper, temperature),
        (T.TopKLogitsWarper, top_k),
        (T.TopPLogitsWarper, top_p),
        (T.MinPLogitsWarper, min_p),
    ):
        x = x if value is None else warper(value)(None, x)
    return x


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.5])
def test_every_filter_keeps_what_transformers_keeps(temperature):
    x = logits()
    choices = [None, 1, 7, 99], [None, 0.1, 0.5, 0.95], [None, 0.03, 0.6]
    for top_k, top_p, min_p in itertools.product(*choices):
        names = {"top_k": top_k, "top_p": top_p, "min_p": min_p}
        want = theirs(x, temperature, top_k, top_p, min_p)
        got = filter_logits(x, temperature=temperature, **names)
        assert torch.equal(got.isfinite(), want.isfinite()), names
        torch.testing.assert_close(
            got.softmax(-1), want.softmax(-1), rtol=1e-5, atol=1e-7
        )
        assert (got.amax(-1) == 0).all()


def test_a_tiny_temperature_is_greedy_and_not_nan():
    x = logits(batch=8)[4:]
    p = filter_logits(x, temperature=1e-40).softmax(-1)
    assert torch.equal(p.argmax(-1), x.argmax(-1))
    assert torch.equal(p.amax(-1), torch.ones(4))


def test_filters_accept_any_shape_and_do_not_change_their_input():
    x = logits()
    before = x.clone()
    options = {"top_k": 9, "top_p": 0.7, "min_p": 0.02}
    got = filter_logits(x.view(4, 16, V), **options)
    assert torch.equal(x, before)
    assert torch.equal(got.view(-1, V), filter_logits(x, **options))
    assert torch.equal(got[0, 5], filter_logits(x[5], **options))


@pytest.mark.parametrize("penalty", [0.5, 1.0, 1.3])
def test_the_repetition_penalty_equals_that_of_transformers(penalty):
    from transformers import RepetitionPenaltyLogitsProcessor

    g = torch.Generator().manual_seed(1)
    ids = torch.randint(V, (64, 20), generator=g)
    x, before = logits(), logits()
    want = RepetitionPenaltyLogitsProcessor(penalty)(ids, x)
    assert torch.equal(penalize_repetition(x, ids, penalty), want)
    starts = torch.arange(64) % 20  # the padding of each row
    want = RepetitionPenaltyLogitsProcessor(penalty, starts)(ids, x)
    valid = torch.arange(20) >= starts[:, None]
    for mask in (valid, valid.long()):
        assert torch.equal(penalize_repetition(x, ids, penalty, mask), want)
    assert torch.equal(x, before)


def test_sampling_errors_name_the_argument():
    wrong = {"temperature": 0.0, "top_k": 0, "top_p": 1.5, "min_p": 0.0}
    for name, x in wrong.items():
        with pytest.raises(ValueError, match=f"^{name} must be "):
            filter_logits(logits(), **{name: x})
    with pytest.raises(ValueError, match="repetition_penalty must be "):
        penalize_repetition(logits(), torch.zeros(64, 1).long(), -1.0)


@pytest.mark.parametrize("bad", [-torch.inf, torch.nan, torch.inf])
def test_a_row_without_a_largest_number_is_named_where_it_can_be_read(bad):
    x = logits(6).view(2, 3, V)
    x[1, 2, 0 if bad != -torch.inf else slice(None)] = bad
    with pytest.raises(
        ValueError, match=rf"got the largest {bad} in row \(1,"
    ):
        filter_logits(x, top_p=0.5)
    assert torch.vmap(filter_logits)(x).shape == x.shape
