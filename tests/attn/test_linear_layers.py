"""Layers with a state: padding, caches, hybrids, and refused arguments."""

import functools

import pytest
import torch

import attn
from attn.cache import DynamicCache, StateCache
from attn.nn import GatedDeltaNet, LinearAttention, Transformer
from tests.attn.cases import randn
from tests.attn.refusals import refused
from tests.marks import exhaustive_but

B, L, E, H = 2, 12, 16, 4
LAYERS = {
    "linear": lambda: LinearAttention(E, H),
    "linear with decay": lambda: LinearAttention(
        E, H, 6, 5, feature_map=None, normalize=False,
        decay=[1 - 2.0 ** -(5 + h) for h in range(H)],
    ),
    "gated delta": lambda: GatedDeltaNet(E, 2, 6, 4, 5),
    "negative eigenvalues": lambda: GatedDeltaNet(
        E, H, conv_size=2, allow_neg_eigval=True
    ),
}  # fmt: skip
every_layer = pytest.mark.parametrize("kind", LAYERS)


def made(kind):
    torch.manual_seed(0)
    return LAYERS[kind]().double().eval()


def close(got, want, tolerance=1e-12):
    assert got.shape == want.shape
    assert (got - want).abs().max() <= tolerance * want.abs().max()


@every_layer
@pytest.mark.parametrize("cuts", ([1] * L, [1, 2, 9], [12, 0], [5, 7]))
def test_a_text_in_parts_gives_what_it_gives_in_one(kind, cuts):
    layer, x, cache = made(kind), randn(B, L, E), StateCache()
    outs = [layer(part, cache=cache) for part in x.split(cuts, 1)]
    close(torch.cat(outs, 1), layer(x))
    assert cache.seq_len == L


@every_layer
@pytest.mark.parametrize("side", ("left", "right", "between"))
@pytest.mark.parametrize("with_cache", (False, True))
def test_padding_enters_neither_state_nor_convolution(kind, side, with_cache):
    layer, x = made(kind), 3 * randn(B, L, E)
    padding = torch.zeros(B, L, dtype=torch.bool)
    where = {"left": slice(0, 5), "right": slice(7, L), "between": [3, 4, 8]}
    padding[1, where[side]] = True
    cache = StateCache() if with_cache else None
    out = layer(x, key_padding_mask=padding, cache=cache)
    alone_cache = StateCache()
    alone = layer(x[1:, ~padding[1]], cache=alone_cache)
    close(out[1:, ~padding[1]], alone)
    close(out[:1], layer(x[:1]))
    assert not out[padding].any()
    if cache is not None:
        close(cache.state[1:], alone_cache.state)
        if cache.conv is not None:
            close(cache.conv[1:], alone_cache.conv)
        new = randn(B, 1, E, seed=8)
        padding = torch.cat([padding, padding[:, :1] & False], 1)
        got = layer(new, key_padding_mask=padding, cache=cache)
        close(got[1:], layer(new[1:], cache=alone_cache))


@every_layer
def test_rows_of_different_lengths_end_after_their_own_tokens(kind):
    layer, x, cache = made(kind), randn(B, L, E), StateCache()
    lengths = torch.tensor([L, 2])
    out = layer(x, lengths=lengths, cache=cache)
    alone = StateCache()
    close(out[1:, :2], layer(x[1:, :2], cache=alone))
    close(cache.state[1:], alone.state)
    assert cache.seq_len.tolist() == [L, 2]
    new = randn(B, 3, E, seed=8)
    close(layer(new, cache=cache)[1:], layer(new[1:], cache=alone))


@every_layer
def test_packed_texts_do_not_mix(kind):
    layer, x = made(kind), randn(1, L, E)
    out = layer(x, cu_seqlens=torch.tensor([0, 2, 3, L]))
    parts = [layer(part) for part in x.split([2, 1, 9], 1)]
    close(out, torch.cat(parts, 1))


def test_the_first_forgetting_rates_are_those_of_mamba_2():
    torch.manual_seed(0)
    layer = GatedDeltaNet(64, 64)
    dt = torch.nn.functional.softplus(layer.dt_bias)
    assert 1e-3 <= dt.min() < 3e-3 and 0.05 < dt.max() <= 0.1
    rate = layer.A_log.exp()
    assert 1 <= rate.min() < 3 and 12 < rate.max() <= 16


# --- whole models ------------------------------------------------------------

V = 50
HYBRID = {
    "vocab_size": V,
    "embed_dim": 32,
    "num_layers": 4,
    "num_heads": 4,
    "num_kv_heads": 2,
    "positions": "rope",
    "is_causal": True,
    "norm": "rms",
    "feed_forward": "swiglu",
    "bias": False,
    "window": (5, 0),
    "attention": [
        "gated_delta",
        "linear",
        functools.partial(GatedDeltaNet, num_heads=2, num_value_heads=4),
        "auto",
    ],
}
PURE = {
    k: v for k, v in HYBRID.items() if k not in ("num_kv_heads", "window")
} | {
    "positions": "none",
    "attention": "gated_delta",
    "num_layers": 2,
}
PERIOD = HYBRID | {"attention": ["auto", *["gated_delta"] * 3]}
MODELS = {"hybrid": HYBRID, "pure": PURE, "softmax first": PERIOD}
every_model = pytest.mark.parametrize(
    "name", exhaustive_but(["hybrid"], MODELS)
)


@functools.cache
def model(name):
    torch.manual_seed(0)
    made = Transformer(attn.TransformerConfig(**MODELS[name])).double()
    for x in made.parameters():
        if x.dim() > 1:
            x.data *= 8  # so that tokens differ
    return made.eval()


IDS = torch.randint(V, (2, 9), generator=torch.Generator().manual_seed(3))


@every_model
@pytest.mark.parametrize("cache", ("dynamic", "static"))
def test_a_hybrid_writes_with_caches_what_it_writes_without(name, cache):
    net = model(name)
    varied = {"repetition_penalty": 5.0}
    want = attn.generate(net, IDS, 12, cache=None, **varied)
    got = attn.generate(net, IDS, 12, cache=cache, **varied)
    assert torch.equal(got, want) and len(want[:, 9:].unique()) > 8


@every_model
@pytest.mark.parametrize("cache", (None, "dynamic", "static"))
def test_padding_and_ragged_prompts_change_no_text(name, cache):
    net = model(name)
    alone = attn.generate(net, IDS[1:, 3:], 8)
    mask = torch.ones_like(IDS)
    mask[1, :3] = 0
    got = attn.generate(net, IDS, 8, attention_mask=mask, cache=cache)
    assert torch.equal(got[1:, 3:], alone)
    right = IDS.clone()
    right[1, :6] = IDS[1, 3:]
    lengths = torch.tensor([9, 6])
    got = attn.generate(net, right, 8, lengths=lengths, cache=cache)
    assert torch.equal(got[1:, :14], alone)


def test_a_configuration_of_names_is_json_and_a_class_is_not():
    config = attn.TransformerConfig(
        **HYBRID | {"attention": ["linear", "gated_delta", "auto", "auto"]}
    )
    again = attn.TransformerConfig.from_json(config.to_json())
    assert again == config and again.of_layer("attention", 1) == "gated_delta"
    one = attn.TransformerConfig(**HYBRID | {"attention": ["auto"] * 4})
    assert one.attention == "auto"
    with pytest.raises(TypeError, match="attention must be a name, a number"):
        attn.TransformerConfig(**HYBRID).to_json()


def test_a_block_takes_a_layer_with_a_state_by_its_name():
    options = {"is_causal": True, "norm": "rms", "feed_forward": "swiglu"}
    block = attn.TransformerBlock(E, H, attention="gated_delta", **options)
    assert isinstance(block.attention, GatedDeltaNet)
    x, cache = randn(B, L, E, dtype=torch.float32), StateCache()
    got = [block(part, cache=cache) for part in x.split(5, 1)]
    close(torch.cat(got, 1), block(x), 1e-5)


def test_a_layer_of_your_own_needs_only_a_rule():
    """The mean of all tokens so far: padding and caches are inherited."""

    class Mean(attn.nn.StateLayer):
        def __init__(self, embed_dim, num_heads, is_causal=True):
            super().__init__()
            self.embed_dim = embed_dim

        def mix(self, x, real, state, conv, cu_seqlens):
            ones = torch.ones_like(x[..., :1])
            if real is not None:
                ones = ones * real[..., None]
            seen = torch.cat([x * ones, ones], -1).cumsum(1)  # (B, L, E + 1)
            if state is not None:
                seen = seen + state[:, 0]
            out = seen[..., :-1] / seen[..., -1:].clamp(min=1)
            return attn.nn.state_layer.Mixed(out, seen[:, None, -1:])

    fields = HYBRID | {"attention": [Mean, "auto"], "num_layers": 2}
    net = Transformer(attn.TransformerConfig(**fields)).double()
    alone = attn.generate(net, IDS[1:, 3:], 8)
    mask = torch.ones_like(IDS)
    mask[1, :3] = 0
    got = attn.generate(net, IDS, 8, attention_mask=mask)
    assert torch.equal(got[1:, 3:], alone)
    assert torch.equal(attn.generate(net, IDS[1:, 3:], 8, cache=None), alone)


def test_what_a_partial_binds_comes_before_the_configuration():
    layer = model("hybrid").blocks[2].attention
    assert (layer.num_heads, layer.num_value_heads) == (2, 4)
    assert model("hybrid").blocks[0].attention.num_heads == 4


def config(**fields):
    return attn.TransformerConfig(**PURE | fields)


LAYER, TOKENS = made("gated delta"), randn(B, L, E)
REFUSED = {
    "attn_mask must be None for a layer with a state": (
        lambda: LAYER(TOKENS, attn.causal())
    ),
    "need_weights must be False for a layer with a state": (
        lambda: LAYER(TOKENS, need_weights=True)
    ),
    "is_causal must be True or None for a layer with a state": (
        lambda: LAYER(TOKENS, is_causal=False)
    ),
    "is_causal must be True or None for a layer .* got False": (
        lambda: GatedDeltaNet(E, H, is_causal=False)
    ),
    "cache must be a StateCache for GatedDeltaNet; got DynamicCache": (
        lambda: LAYER(TOKENS, cache=DynamicCache())
    ),
    "conv must have shape .*; got .*. Keys and values of a softmax layer": (
        lambda: attn.MultiHeadAttention(E, H)(
            TOKENS.float(), cache=StateCache()
        )
    ),
    "cu_seqlens must be None with a cache or padding": (
        lambda: LAYER(
            TOKENS[:1],
            cache=StateCache(),
            cu_seqlens=torch.tensor([0, L]),
        )
    ),
    r"key_padding_mask must have shape \(2, 12\)": (
        lambda: LAYER(TOKENS, key_padding_mask=torch.ones(2, 3) > 0)
    ),
    "key_padding_mask must be bool, True = padding": (
        lambda: LAYER(TOKENS, key_padding_mask=torch.zeros(B, L))
    ),
    "lengths must be None with key_padding_mask": (
        lambda: LAYER(
            TOKENS,
            lengths=torch.tensor([1, 2]),
            key_padding_mask=torch.zeros(B, L) > 0,
        )
    ),
    "query must have embeddings of size 16, as the module; got 5": (
        lambda: LAYER(TOKENS[..., :5])
    ),
    r"query must be dense, \(B, L, E\); got \(12, 16\)": (
        lambda: LAYER(TOKENS[0])
    ),
    "num_value_heads must be a multiple of num_heads; got 3 and 2": (
        lambda: GatedDeltaNet(E, 2, num_value_heads=3)
    ),
    "conv_size must be an int, at least 1; got 0": (
        lambda: GatedDeltaNet(E, 2, conv_size=0)
    ),
    "decay must be one factor a head, above 0 and at most 1": (
        lambda: LinearAttention(E, H, decay=[0.9])
    ),
    "attention must have one entry for each layer, 2; got 1": (
        lambda: config(attention=["linear"])
    ),
    "attention must be the name of an implementation, or a class; got 3": (
        lambda: config(attention=["linear", 3])
    ),
    "positions must be 'none', or added .*; got 'rope'": (
        lambda: config(positions="rope")
    ),
    "window must be left out where every layer has a state": (
        lambda: config(window=(3, 0))
    ),
    "is_causal must be True with a layer that has a state": (
        lambda: config(is_causal=False, attention=["linear", "auto"])
    ),
    "self_attention must be True, and cross_attention False, .* got False": (
        lambda: config(self_attention=False, cross_attention=True)
    ),
    "cross_attention False, .* state, which reads no memory; got True and": (
        lambda: config(cross_attention=True)
    ),
    "cross_attention must be False with a layer that has a state": (
        lambda: attn.TransformerBlock(
            E, H, attention="gated_delta", cross_attention=True
        )
    ),
}
test_invalid_arguments_are_refused = refused(REFUSED)


def test_padding_needs_rows_of_one_length_in_a_cache():
    cache = StateCache()
    LAYER(TOKENS, cache=cache, lengths=torch.tensor([3, 5]))
    with pytest.raises(ValueError, match="rows have different lengths"):
        LAYER(
            TOKENS,
            cache=cache,
            key_padding_mask=torch.zeros(B, 2 * L, dtype=torch.bool),
        )
