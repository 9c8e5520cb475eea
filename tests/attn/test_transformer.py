"""Whole models, by what must hold for every kind."""

import pytest
import torch

import attn
from attn.nn import MultiHeadAttention, TransformerBlock
from tests.attn.cases import assert_exact, randn
from tests.attn.models import (
    EVERY,
    MODELS,
    E,
    H,
    L,
    N,
    V,
    count,
    ids,
    model,
    new,
    randomised,
)
from tests.attn.refusals import value_error
from tests.marks import exhaustive_but

X = ids()


def module(kind, **options):
    """A module that is not causal unless it is said; its input."""
    if kind == "model":
        return model("rope", **{"is_causal": False, **options}), ids()
    cls = MultiHeadAttention if kind == "attention" else TransformerBlock
    return randomised(cls(E, H, **options).double()), randn(2, L, E)


@pytest.mark.parametrize("kind", ("attention", "block", "model"))
def test_is_causal_means_one_thing_for_every_module(kind):
    """False unless given; a model must be given it; a call overrides it."""
    (plain, x), (causal, _) = module(kind), module(kind, is_causal=True)
    assert torch.equal(causal(x, is_causal=False), plain(x))
    assert torch.equal(plain(x, is_causal=True), causal(x))
    assert not torch.equal(causal(x), plain(x))


@pytest.mark.parametrize("kind", ("attention", "block", "model"))
def test_every_module_accepts_attn_mask_as_a_positional_argument(kind):
    keep = torch.ones(L, L, dtype=torch.bool).tril()
    made, x = module(kind)
    inputs = (x, x, x) if kind == "attention" else (x,)
    want = made(*inputs, is_causal=True)
    for mask in (keep, attn.causal(), torch.where(keep, 0.0, -torch.inf)):
        assert_exact(made(*inputs, mask), want)
    # A tokenizer's mask in the place of attn_mask, as transformers takes it.
    valid = torch.ones(2, L, dtype=torch.long)
    for wrong, error in ((valid, TypeError), (valid.bool(), ValueError)):
        with pytest.raises(error, match=r"^attn_mask must .*attn\.padding"):
            made(*inputs, wrong)


@EVERY
@pytest.mark.parametrize("side", ("left", "right"))
@pytest.mark.parametrize("is_causal", (False, True))
def test_padding_changes_no_logit(name, side, is_causal):
    made = model(name, is_causal=is_causal)
    x, n = ids(), 4
    valid = torch.ones(2, L, dtype=torch.long)
    valid[0, : L - n] = 0
    row = torch.cat([torch.full((L - n,), 7), x[0, :n]])
    if side == "right":
        valid, row = valid.flip(1), torch.cat([x[0, :n], row[: L - n]])
    padded = torch.stack([row, x[1]])
    at = attn.position_ids(valid)
    out = made(padded, attention_mask=valid, positions=at)
    assert not out.isnan().any()
    assert_exact(out[0][valid[0].bool()], made(x[:1, :n])[0])
    assert_exact(out[1], made(x)[1])
    again = made(padded, attention_mask=valid.bool(), positions=at)
    assert torch.equal(out, again)


def test_an_encoder_without_positions_is_permutation_equivariant():
    x, order = ids(), torch.randperm(L)
    for name in MODELS:
        made = model(name, is_causal=False)
        moved = (made(x)[:, order] - made(x[:, order])).abs().max()
        assert (moved < 1e-12) == (name == "none"), name


@EVERY
def test_given_positions_are_used(name):
    made = model(name)
    plain = made(X)
    assert_exact(made(X, positions=torch.arange(L)), plain)
    assert_exact(made(X, positions=torch.arange(L).expand(2, -1)), plain)
    moved = (made(X, positions=torch.arange(L) * 2) - plain).abs().max()
    assert (moved > 1e-5) == (name != "none")


def test_input_embeddings_may_replace_ids_but_not_accompany_them():
    made = model("gpt")
    vectors = made.token_embedding(X)
    assert torch.equal(made(inputs_embeds=vectors), made(X))
    for wrong in ({}, {"ids": X, "inputs_embeds": vectors}):
        with value_error("exactly one of .*; got (neither|both)"):
            made(**wrong)


def test_a_final_norm_is_left_out_only_in_post_norm_order():
    for order in ("pre", "post", "sandwich", "parallel"):
        made = new("rope", norm_order=order)
        assert (made.final_norm is None) == (order == "post")
    states = model("gpt", head=False)(ids())
    assert states.shape == (2, L, E)


def test_a_tied_head_is_one_parameter():
    tied, free = (new("rope", tied=tied) for tied in (True, False))
    assert tied.head.weight is tied.token_embedding.weight
    assert count(free) - count(tied) == V * E
    copied = new("rope")
    copied.load_state_dict(tied.state_dict())
    assert copied.head.weight is copied.token_embedding.weight
    assert torch.equal(copied(X), tied(X))
    tied.loss(X).backward()
    assert tied.token_embedding.weight.grad.abs().sum() > 0


def test_a_decoder_ignores_the_padding_of_its_memory():
    encoder = model("sinusoidal", is_causal=False, head=False)
    decoder = model("sinusoidal", cross_attention=True)
    x, y, valid = ids(), ids(seed=1), torch.ones(2, L).bool()
    valid[0, 3:] = False
    memory = encoder(x, attention_mask=valid)
    out = decoder(y, memory=memory, memory_attention_mask=valid)
    short = encoder(x[:1, :3])
    assert_exact(out[:1], decoder(y[:1], memory=short))
    with value_error("memory must be given with cross_attention; got None"):
        decoder(y)


def test_segments_embed_scale_and_final_softcap_apply():
    made = model("none", segments=2, embed_scale=3.0, final_softcap=0.5)
    kinds = torch.zeros_like(X)
    assert torch.equal(made(X), made(X, segments=kinds))
    assert not torch.equal(made(X), made(X, segments=kinds + 1))
    assert made(X).abs().max() < 0.5
    vectors = 3.0 * made.token_embedding(X)
    assert_exact(made(inputs_embeds=vectors), made(X))
    plain = model("none")
    with value_error("segments must be None .*; got a tensor"):
        plain(X, segments=kinds)


def test_dropout_drops_the_embeddings_too():
    made = model("gpt", dropout=1.0).train()
    nothing = made.final_norm(torch.zeros(E).double())
    assert_exact(made(ids()), made.head(nothing).expand(2, L, V))


def test_need_weights_returns_the_weights_of_every_layer():
    made = model("gpt")
    logits, weights = made(X, need_weights=True)
    assert_exact(logits, made(X))
    assert [w.shape for w in weights] == [(2, H, L, L)] * N
    assert_exact(weights[1].sum(-1), torch.ones(2, H, L).double())


@pytest.mark.parametrize(
    "message,arguments",
    (
        (r"\(2, 6\)", {"attention_mask": torch.ones(2, 5).long()}),
        ("float32", {"attention_mask": torch.ones(2, L)}),
        (
            "must be None without memory",
            {"memory_attention_mask": torch.ones(2, L).long()},
        ),
        ("^positions must have shape", {"positions": torch.arange(5)}),
        ("^positions must have shape", {"positions": ids(3)}),
        (
            "positions must be 0 to 15, .*; got 20 to 25",
            {"positions": torch.arange(L) + 20},
        ),
    ),
)
def test_models_refuse_masks_and_positions_that_do_not_fit(message, arguments):
    error = TypeError if message == "float32" else ValueError
    with pytest.raises(error, match=message):
        model("gpt")(ids(), **arguments)


TEXTS = (4, 0, 1, 6)


@pytest.mark.parametrize("attention", ("auto", "gated_delta", "linear"))
@pytest.mark.parametrize("name", exhaustive_but(["rope"], MODELS))
def test_packed_texts_train_as_each_alone(name, attention):
    network = model(name, attention=[attention, "auto"])
    packed = ids(1, sum(TEXTS))
    ends = torch.tensor([0, *TEXTS]).cumsum(0)
    alone = [x for x in packed.split(TEXTS, 1) if x.numel()]
    got = network(packed, cu_seqlens=ends)
    assert_exact(got, torch.cat([network(x) for x in alone], 1))
    parts = [network.loss(x) * (len(x[0]) - 1) for x in alone if len(x[0]) > 1]
    both = network.loss(packed, cu_seqlens=ends), sum(parts) / 8
    weights = [*network.parameters()]
    results = [(x, *torch.autograd.grad(x, weights)) for x in both]
    for x, y in zip(*results, strict=True):
        assert (x - y).abs().max() <= 1e-6 * (1 + y.abs().max())


def test_labels_are_shifted_as_transformers_shifts_its_own():
    from transformers.loss.loss_utils import ForCausalLMLoss

    network, x = model("rope"), ids()
    labels = x.clone()
    labels[0, :3] = labels[1, 4:] = -100  # a prompt, and padding
    real = torch.ones_like(x)
    real[1, 4:] = 0
    got = network.loss(x, labels, attention_mask=real)
    logits = network(x, attention_mask=real)
    want = ForCausalLMLoss(logits, labels, V)
    assert abs(got - want) < 1e-6
    assert network.loss(x, x) == network.loss(x)


def test_labels_and_borders_that_do_not_fit_are_refused():
    cu = torch.tensor([0, 6])
    for message, given in {
        "the shape of ids.*shifted here": {"labels": ids()[:, 1:]},
        "labels must be token ids": {"labels": ids().double()},
        "must rise from 0": {"cu_seqlens": torch.tensor([0, 5])},
        "lengths must be None": {"cu_seqlens": cu, "lengths": cu[1:]},
    }.items():
        with pytest.raises((ValueError, TypeError), match=message):
            model("rope").loss(ids(1), **given)
