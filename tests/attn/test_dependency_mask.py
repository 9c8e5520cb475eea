"""The probe finds the mask inside attention functions, and their leaks."""

import pytest
import torch
import torch.nn.functional as F

import attn
from attn import dependency_mask

TRIANGLE = torch.ones(6, 6, dtype=torch.bool).tril()
IDS = torch.tensor([0, 0, 1, 1, 0, 2])
MASKS = {
    "causal": attn.causal(),
    "window": attn.causal() & attn.sliding_window(2),
    "chunks": attn.causal() & attn.chunked(4),
    "documents": attn.causal() & attn.documents(IDS),
    "prefix": attn.causal() | attn.prefix(3),
    "bidirectional": attn.prefix(6),
    "not itself": attn.causal()
    & attn.Mask(lambda b, h, q_idx, kv_idx: q_idx != kv_idx),
    "the future": ~attn.causal(),
    "nothing": attn.prefix(0),
}
PLACES = [(6, 6, 0), (2, 6, 4), (3, 6, 1), (6, 3, 0), (4, 5, 1)]
FUNCTIONS = {
    "attn": attn.scaled_dot_product_attention,
    "torch": F.scaled_dot_product_attention,
    "with NaN in dead rows": attn.simple_attention,
}


def over(dim):
    """Causal attention whose softmax runs along an axis."""

    def attention(q, k, v):
        scores = q @ k.mT / 8**0.5
        masked = scores.masked_fill(~TRIANGLE, -torch.inf)
        return torch.softmax(masked, dim) @ v

    return attention


@pytest.mark.parametrize("place", PLACES, ids=str)
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("name", MASKS)
def test_the_probe_recovers_the_mask_of_any_function(name, function, place):
    q_len, kv_len, q_offset = place
    mask = MASKS[name].dense(q_len, kv_len, q_offset=q_offset)

    def attention(q, k, v):
        return FUNCTIONS[function](q, k, v, mask)

    seen = dependency_mask(attention, q_len, kv_len, q_offset)
    assert torch.equal(seen, mask[0, 0])


def test_a_softmax_over_the_queries_leaks_every_token_to_every_token():
    assert torch.equal(dependency_mask(over(-1), 6), TRIANGLE)
    assert dependency_mask(over(-2), 6).all()


def test_a_leak_is_invisible_unless_the_query_is_changed():
    q = torch.randn(1, 1, 6, 8, generator=torch.Generator().manual_seed(0))
    blind = dependency_mask(lambda _, k, v: over(-2)(q, k, v), 6)
    assert torch.equal(blind, TRIANGLE)


@pytest.mark.parametrize("scale", [1, 10])
def test_a_mask_after_the_softmax_leaks_the_future_at_any_scale(scale):
    def late(q, k, v):
        return (torch.softmax(scale * q @ k.mT, -1) * TRIANGLE) @ v

    def right(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, TRIANGLE, scale=scale)

    assert torch.equal(dependency_mask(right, 6), TRIANGLE)
    assert dependency_mask(late, 6).all()


def test_a_leak_is_in_the_column_of_its_token():
    def last_query_leaks(q, k, v):
        out = F.scaled_dot_product_attention(q, k, v)
        return out + q[:, :, -1:].sum(-1, keepdim=True)

    def attention(q, k, v):
        return last_query_leaks(q, k[:, :, :1], v[:, :, :1])

    seen = dependency_mask(attention, 2, 6, q_offset=3)
    assert seen.tolist() == [
        [True, False, False, False, True, False],
        [True, False, False, False, False, False],
    ]


def test_what_a_function_changes_does_not_matter_nor_does_the_probe_draw():
    """It changes its inputs, and reuses its output's memory."""
    kept, before = torch.empty(1, 1, 6, 8), torch.get_rng_state()

    def careless(q, k, v):
        k.mul_(0.5)
        return kept.copy_(over(-1)(q, k, v.add_(1.0)))

    assert torch.equal(dependency_mask(careless, 6), TRIANGLE)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_probe_refuses_dropout():
    def random(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, dropout_p=0.5)

    with pytest.raises(ValueError, match="switch dropout off"):
        dependency_mask(random, 6)


def test_the_probe_refuses_outputs_of_another_shape():
    with pytest.raises(ValueError, match=r"6 queries; got \(1, 1, 8, 6\)"):
        dependency_mask(lambda q, k, v: q.mT, 6)
