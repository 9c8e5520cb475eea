"""Latent attention: expanded and absorbed, cached, masked, in a model."""

from functools import partial

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import attn
from attn.nn import LatentAttention, LightningIndexer
from tests.attn.cases import randn as draw

E, H, R, NOPE, ROPE, V = 24, 3, 10, 8, 4, 6
ROTARY = attn.Rope(ROPE, interleaved=True)
SIZES = {
    "embed_dim": E,
    "num_heads": H,
    "kv_lora_rank": R,
    "qk_nope_head_dim": NOPE,
    "qk_rope_head_dim": ROPE,
    "v_head_dim": V,
}
YARN = {
    "type": "yarn",
    "factor": 40.0,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
    "original_max_position_embeddings": 16,
}
BLOCK = ("embed_dim", "num_heads")  # what a block gives its attention
#: Every option that changes the result.
OPTIONS = (
    {},
    {"q_lora_rank": 12},
    {"rope": None},
    {"rope": attn.Rope(ROPE)},
    {"rope": attn.Rope(ROPE, interleaved=True, **YARN)},
    {"bias": True},
    {"sinks": True, "gate": "element"},
    {"gate": "head"},
    {"scale": 0.7},
)


def layer(dtype=torch.float64, top_k=None, **options):
    """Return a causal layer whose weights are far from small."""
    given = {"q_lora_rank": None, "rope": ROTARY, "is_causal": True}
    if top_k:
        given["q_lora_rank"] = 12
        given["indexer"] = LightningIndexer(
            E, 9, 8, q_dim=12, top_k=top_k, rope=attn.Rope(ROPE)
        )
    made = LatentAttention(**{**SIZES, **given, **options})
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for x in made.parameters():
            x.copy_(torch.randn(x.shape, generator=generator) * 0.5)
    return made.to(dtype)


def both(**options):
    """Return the layer in its two forms, with the same weights."""
    return [layer(absorb=absorb, **options) for absorb in (False, True)]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_absorbed_equals_expanded_forward_and_backward(options):
    results = []
    for form in both(**options):
        x = draw(2, 7, E).requires_grad_()
        out = form(x)
        loss = (out * draw(2, 7, E, seed=3)).sum()
        parameters = list(form.parameters())
        results.append([out, *torch.autograd.grad(loss, [x, *parameters])])
    for expanded, absorbed in zip(*results, strict=True):
        torch.testing.assert_close(absorbed, expanded, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("absorb", [False, True, "auto"])
@pytest.mark.parametrize("options", (*OPTIONS, {"top_k": 3}), ids=str)
def test_tokens_read_through_a_cache_equal_the_whole_text(options, absorb):
    form, x = layer(absorb=absorb, **options), draw(2, 9, E)
    cache = form.new_cache()
    parts = [form(new, cache=cache) for new in x.split([4, 1, 1, 3], 1)]
    torch.testing.assert_close(
        torch.cat(parts, 1), form(x), rtol=1e-12, atol=1e-12
    )
    index = 8 if "top_k" in options else 0
    assert cache.nbytes == 2 * 9 * (R + ROPE + index) * 8


@pytest.mark.parametrize("top_k", [None, 3])
def test_rows_of_other_lengths_read_what_they_read_alone(top_k):
    form, x = layer(top_k=top_k), draw(2, 6, E)
    cache, lengths = form.new_cache(), torch.tensor([3, 6])
    first = form(x, cache=cache, lengths=lengths)
    new = draw(2, 1, E, seed=5)
    second = form(new, cache=cache)
    for row, length in enumerate(lengths.tolist()):
        text = torch.cat([x[row, :length], new[row]])[None]
        whole = form(text)[0]
        torch.testing.assert_close(first[row, :length], whole[:-1])
        torch.testing.assert_close(second[row], whole[-1:])


def test_a_cache_is_cropped_forked_and_reordered_like_its_neighbours():
    form, x = layer(), draw(2, 6, E)
    cache = form.new_cache()
    form(x, cache=cache)
    other = cache.fork()
    cache.crop(4)
    assert cache.seq_len == 4 and other.seq_len == 6
    torch.testing.assert_close(form(x[:, 4:], cache=cache), form(x)[:, 4:])
    other.reorder(torch.tensor([1, 1, 0]))
    new = draw(3, 1, E, seed=5)
    text = torch.cat([x[[1, 1, 0]], new], 1)
    torch.testing.assert_close(form(new, cache=other), form(text)[:, -1:])


def test_padding_masks_and_positions_are_those_of_multi_head_attention():
    x = draw(2, 6, E)
    pads = torch.tensor([[1, 1, 0, 0, 0, 0], [0] * 6]).bool()
    positions = attn.position_ids(~pads)
    for form in both():
        out = form(x, key_padding_mask=pads, positions=positions)
        alone = form(x[:1, 2:])
        torch.testing.assert_close(out[:1, 2:], alone)
        mask = attn.causal() & attn.padding(~pads)
        same = form(x, mask, is_causal=False, positions=positions)
        torch.testing.assert_close(same[:, 2:], out[:, 2:])
        near = form(x, attn.sliding_window(2))
        dense = attn.sliding_window(2).dense(6)
        torch.testing.assert_close(form(x, dense), near)


def test_a_query_without_keys_gets_zero_and_no_nan():
    for form in both():
        x = draw(1, 4, E).requires_grad_()
        out = form(x, torch.zeros(4, 4).bool())
        assert (out == 0).all()
        out.sum().backward()
        assert x.grad.isfinite().all()


def test_weights_are_the_same_in_both_forms_and_sum_to_one():
    x = draw(2, 5, E)
    expanded, absorbed = (
        form(x, need_weights=True, average_attn_weights=False)[1]
        for form in both()
    )
    assert expanded.shape == (2, H, 5, 5)
    torch.testing.assert_close(absorbed, expanded, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(expanded.sum(-1), torch.ones(2, H, 5).double())
    mean = layer()(x, need_weights=True)[1]
    torch.testing.assert_close(mean, expanded.mean(1))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_as_exact_as_its_inputs_allow(dtype):
    x = draw(2, 40, E).to(dtype)
    exact = layer()
    with torch.no_grad():
        for p in exact.parameters():
            p.copy_(p.to(dtype))
    want = exact(x.double())
    for form in both(dtype=dtype):
        cache = form.new_cache()
        out = torch.cat([form(y, cache=cache) for y in x.split([39, 1], 1)], 1)
        error = (out.double() - want).norm() / want.norm()
        assert out.dtype == dtype
        assert error < 8 * torch.finfo(dtype).eps


# --- which form --------------------------------------------------------------


def test_a_token_is_decoded_in_the_absorbed_form_and_a_prompt_is_not():
    form = layer(kv_lora_rank=64)
    assert form._absorbs(1, 50, True)
    assert not form._absorbs(50, 50, True)


@pytest.mark.parametrize("queries,keys", [(1, 40), (7, 40), (40, 40)])
def test_the_rule_counts_what_pytorch_counts(queries, keys):
    counted = []
    for form in both(impl="reference", is_causal=False):
        cache = form.new_cache()
        with torch.no_grad():
            form(draw(1, keys - queries, E), cache=cache)
            with FlopCounterMode(display=False) as counter:
                form(draw(1, queries, E), cache=cache)
        counted.append(counter.get_total_flops())
    sizes = (1, queries, keys, H, R, NOPE, ROPE, V)
    cost = partial(attn.cost.latent_attention_cost, *sizes, is_causal=False)
    expanded, absorbed = (cost(absorb=x).flops for x in (False, True))
    assert counted[1] - counted[0] == absorbed - expanded
    auto = layer(is_causal=False)._absorbs(queries, keys, False)
    assert auto is (absorbed < expanded)


# --- chosen keys -------------------------------------------------------------


def test_a_step_multiplies_as_often_whatever_has_been_read():
    counted = []
    for length in (10, 30):
        form = layer(top_k=3, absorb=True, impl="reference")
        cache = form.new_cache()
        with torch.no_grad():
            form(draw(1, length, E), cache=cache)
            scored = 9 * 8 * (length + 1)  # by the indexer: H, D, keys
            with FlopCounterMode(display=False) as counter:
                form(draw(1, 1, E), cache=cache)
        counted.append(counter.get_total_flops() - 2 * scored)
    assert counted[0] == counted[1]


def test_a_step_keeps_biases_and_masks_of_each_head():
    form, x = layer(top_k=3), draw(2, 9, E)
    bias = draw(2, H, 9, 9).masked_fill(draw(2, 1, 9, 9) > 1, -torch.inf)
    cache, want = form.new_cache(), form(x, bias)
    form(x[:, :8], bias[..., :8, :8], cache=cache)
    out = form(x[:, 8:], bias[..., 8:, :], cache=cache)
    torch.testing.assert_close(out, want[:, 8:])


def test_a_learned_bias_keeps_its_gradient_beside_an_indexer():
    bias = draw(1, H, 9, 9).requires_grad_()
    layer(top_k=3)(draw(1, 9, E), bias).sum().backward()
    read = (bias.grad != 0).any(1).sum(-1)  # a key alone has weight 1
    assert read.tolist() == [[0, 2, 3, 3, 3, 3, 3, 3, 3]]


def test_an_indexer_never_chooses_padding():
    form, x = layer(top_k=2), draw(1, 6, E)
    pads = torch.tensor([[1, 1, 0, 0, 0, 0]]).bool()
    out = form(x, key_padding_mask=pads, positions=attn.position_ids(~pads))
    torch.testing.assert_close(out[:, 2:], form(x[:, 2:]))


# --- in a model --------------------------------------------------------------


def model():
    sizes = {name: x for name, x in SIZES.items() if name not in BLOCK}
    attention = partial(LatentAttention, **sizes, q_lora_rank=12, rope=ROTARY)
    config = attn.TransformerConfig(
        vocab_size=17, embed_dim=E, num_layers=2, num_heads=H,
        positions="none", is_causal=True, norm="rms", bias=False,
        feed_forward="swiglu", attention=attention,
    )  # fmt: skip
    torch.manual_seed(0)
    return attn.Transformer(config).double().eval()


def test_a_transformer_with_latent_attention_writes_with_its_own_caches():
    decoder, ids = model(), torch.arange(12).view(2, 6) % 17
    cached = attn.generate(decoder, ids, max_new_tokens=5)
    plain = attn.generate(decoder, ids, max_new_tokens=5, cache=None)
    assert torch.equal(cached, plain)
    real = torch.tensor([[0, 0, 1, 1, 1, 1], [1] * 6])
    padded = attn.generate(decoder, ids, 3, attention_mask=real)
    alone = attn.generate(decoder, ids[:1, 2:], 3)
    assert torch.equal(padded[:1, 2:], alone)
    decoder.loss(ids).backward()
    assert all(p.grad is not None for p in decoder.parameters())
    with pytest.raises(ValueError, match="cache must be 'dynamic'"):
        attn.generate(decoder, ids, max_new_tokens=2, cache="static")


def test_the_output_projection_starts_as_small_as_every_other():
    weights = dict(model().named_parameters())
    name = "blocks.0.attention.{}.weight"
    added, other = (weights[name.format(x)] for x in ("o_proj", "q_b_proj"))
    assert (added.std() / other.std()).item() == pytest.approx(0.5, rel=0.2)


@pytest.mark.parametrize(
    "options,error,says",
    (
        ({"kv_lora_rank": 0}, ValueError, "kv_lora_rank must be an int"),
        ({"q_lora_rank": 1.5}, TypeError, "q_lora_rank must be an int"),
        ({"rope": attn.Rope(8)}, ValueError, "rope must have the queries"),
        ({"absorb": "always"}, ValueError, "absorb must be True, False or"),
        ({"gate": "value"}, ValueError, "gate must be one of"),
        ({"dropout": 2.0}, ValueError, "dropout must be 0 to 1"),
        ({"indexer": torch.nn.ReLU()}, TypeError, "LightningIndexer or None"),
        (
            {"q_lora_rank": 12, "indexer": LightningIndexer(E, 2, 4)},
            ValueError,
            "indexer must have q_dim=12, .*; got 24",
        ),
        ({"impl": "fast"}, ValueError, "fast"),
    ),
)
def test_a_layer_that_does_not_fit_together_is_refused(options, error, says):
    with pytest.raises(error, match=says):
        layer(**options)


@pytest.mark.parametrize(
    "call,error,says",
    (
        ({"x": draw(2, 3, 5)}, ValueError, "x must have embeddings of size"),
        ({"cache": attn.DynamicCache()}, TypeError, "must be a LatentCache"),
        ({"lengths": torch.tensor([1])}, ValueError, "None without a cache"),
        ({"attn_mask": torch.ones(3, 3).long()}, TypeError, "must be bool"),
    ),
)
def test_a_wrong_call_of_the_layer_is_refused(call, error, says):
    with pytest.raises(error, match=says):
        layer()(**{"x": draw(1, 3, E), **call})


@pytest.mark.parametrize(
    "latent,rope_key,index_key,says",
    (
        ((1, 2, 3, 4), (1, 1, 3, 2), None, "latent must have one head"),
        ((1, 1, 3, 4), (1, 3, 2), None, "rope_key must have one head"),
        ((1, 1, 3, 4), (1, 1, 2, 2), None, "rope_key must have the tokens"),
        (
            (1, 1, 3, 4),
            (1, 1, 3, 2),
            (1, 1, 3, 4),
            "index_key must have shape",
        ),
        ((1, 1, 3, 4), (1, 1, 3, 2), (1, 2, 4), "index_key must have the tok"),
    ),
)
def test_latent_caches_refuse_other_shapes(latent, rope_key, index_key, says):
    index = None if index_key is None else draw(*index_key)
    with pytest.raises(ValueError, match=says):
        attn.LatentCache().update(
            draw(*latent), draw(*rope_key), index_key=index
        )


def test_a_latent_cache_keeps_to_its_first_widths():
    cache = attn.LatentCache()
    cache.update(draw(1, 1, 3, 4), draw(1, 1, 3, 2))
    with pytest.raises(ValueError, match="shape of the cache"):
        cache.update(draw(1, 1, 1, 5), draw(1, 1, 1, 2))
