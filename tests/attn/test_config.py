"""One configuration: what it refuses, what it prints, and JSON and back."""

import copy
import dataclasses
import functools
import json
import pickle

import pytest
import torch
from torch import nn

import attn
from attn.nn import Transformer, TransformerConfig, gpt2_small, llama_style
from tests.attn.refusals import refused

SIZES = {"vocab_size": 11, "embed_dim": 12, "num_layers": 2, "num_heads": 3}
MODEL = {**SIZES, "positions": "rope", "is_causal": True}
IDS = torch.arange(10).view(2, 5) % 11


def config(**fields):
    return TransformerConfig(**{**MODEL, **fields})


@pytest.mark.parametrize("name", MODEL)
def test_a_field_without_a_default_must_be_given(name):
    fields = {k: x for k, x in MODEL.items() if k != name}
    with pytest.raises(TypeError, match=name):
        TransformerConfig(**fields)


TYPE_ERRORS = {
    r"positions .*Rope\(4\); got True": {"positions": True},
    "positions .*got <class": {"positions": attn.Rope},
    "positions .*; got None": {"positions": None},
    "vocab_size .*; got 11.0": {"vocab_size": 11.0},
    "is_causal must be True or False": {"is_causal": None},
    "bias must be True or False; got 1": {"bias": 1},
    "norm_eps must be a finite number": {"norm_eps": "1e-5"},
    "attention must be the name": {"attention": None},
    "window must be a pair": {"window": 3},
    "scale must be a number": {"scale": "1"},
}
VALUE_ERRORS = {
    "positions .*got 'rotary'": {"positions": "rotary"},
    "positions must have a head_dim of 4, .*; got Rope with 8": {
        "positions": attn.Rope(8)
    },
    "positions must have a dim of 12, .*; got SinusoidalPositions": {
        "positions": attn.SinusoidalPositions(8)
    },
    "positions .*one key of": {"positions": {"yarn": {}}},
    "max_positions must be given": {"positions": "learned"},
    "num_layers .*at least 0; got -1": {"num_layers": -1},
    "num_heads .*num_kv_heads": {"num_kv_heads": 2},
    "embed_dim .*; got 12 and 5": {"num_heads": 5},
    "norm_eps must be positive": {"norm_eps": 0.0},
    "softcap must be positive": {"softcap": -1.0},
    "dropout must be 0 to 1; got 1.5": {"dropout": 1.5},
    "dropout must be": {"dropout": -0.5},
    "norm must be one of .*'batch'": {"norm": "batch"},
    "norm_eps must be": {"norm": attn.RMSNorm, "norm_eps": 0.1},
    "norm_order must be one of": {"norm_order": True},
    "feed_forward must be one of": {"feed_forward": "mlp"},
    "hidden_dim must be None with a feed_forward": {
        "feed_forward": attn.FeedForward,
        "hidden_dim": 8,
    },
    "ffn_bias must be None with a feed_forward of 'none'; got True": {
        "feed_forward": "none",
        "ffn_bias": True,
    },
    "window must have one entry for each layer, 2; got 3": {
        "window": [(1, 0)] * 3
    },
    "left of window": {"window": [(1, 0), (-1, 0)]},
    "scale must have one entry .*; got 1": {"scale": [1.0]},
    "memory_norm must be False": {"memory_norm": True},
    "positions must be added .*, without self_attention; got 'rope'": {
        "self_attention": False,
        "cross_attention": True,
    },
    "window must be None without self_attention": {
        "self_attention": False,
        "cross_attention": True,
        "positions": "none",
        "window": (1, 0),
    },
}
test_values_of_wrong_type_are_refused = refused(TYPE_ERRORS, TypeError, config)
test_a_wrong_value_is_named = refused(VALUE_ERRORS, ValueError, config)


def test_a_model_is_built_from_a_configuration_only():
    with pytest.raises(TypeError, match="from_config takes a mapping"):
        Transformer(MODEL)
    assert Transformer.from_config(MODEL).config == config()


def test_a_preset_takes_a_class_of_norms_without_another_word():
    config = llama_style(**SIZES, num_kv_heads=1, norm=attn.LayerNorm)
    assert config.norm_eps is None
    assert Transformer(config).final_norm.eps == attn.LayerNorm(6).eps
    named = llama_style(**SIZES, num_kv_heads=1, norm="layer")
    assert named.norm_eps == 1e-5
    with pytest.raises(ValueError, match="norm_eps must be None with a norm"):
        llama_style(**SIZES, num_kv_heads=1, norm=attn.LayerNorm, norm_eps=0.1)


def test_no_layers_are_allowed_and_an_unknown_implementation_is_refused():
    assert Transformer(config(num_layers=0))(IDS).shape == (2, 5, 11)
    later = config(attention="magic")  # it may be registered before a build
    with pytest.raises(ValueError, match="attention must be .*; got 'magic'"):
        Transformer(later)


def test_a_loss_needs_logits_and_a_token_to_predict():
    for fields, ids in (({"head": False}, IDS), ({}, IDS[:, :1])):
        with pytest.raises(ValueError, match="loss needs a head, and ids"):
            Transformer(config(**fields)).loss(ids)


def test_a_configuration_prints_the_fields_that_are_not_default():
    shown = repr(config(norm="rms", bias=True, num_kv_heads=1))
    assert shown == (
        "TransformerConfig(\n    vocab_size=11,\n    embed_dim=12,\n"
        "    num_layers=2,\n    num_heads=3,\n    positions='rope',\n"
        "    is_causal=True,\n    num_kv_heads=1,\n    norm='rms',\n)"
    )


def test_a_configuration_is_frozen_but_copied_pickled_and_replaced():
    made = config(window=[None, (3, 0)], scale=[0.5, 1])
    for same in (copy.copy(made), copy.deepcopy(made)):
        assert same == made
    assert pickle.loads(pickle.dumps(made)) == made
    other = dataclasses.replace(made, num_heads=2, scale=None)
    assert other != made and (other.num_heads, other.scale) == (2, None)
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.num_heads = 2


# --- JSON --------------------------------------------------------------------

WRITTEN = {
    "rope": {"positions": attn.Rope(4, 5e5)},
    "yarn": {
        "positions": attn.Rope(
            4,
            type="yarn",
            factor=4.0,
            original_max_position_embeddings=16,
            interleaved=True,
        )
    },
    "no rope": {"positions": attn.NoRope(4)},
    "learned": {"positions": attn.LearnedPositions(16, 12)},
    "sinusoidal": {"positions": attn.SinusoidalPositions(12, base=100.0)},
}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_model_from_its_json_is_the_same_model(name):
    made = config(**WRITTEN[name])
    plain = made.to_dict()
    assert plain == json.loads(json.dumps(plain)) == json.loads(made.to_json())
    again = TransformerConfig.from_json(made.to_json())
    assert again == made == TransformerConfig.from_dict(plain)
    model = Transformer(made).eval()
    rebuilt = Transformer.from_config(plain).eval()
    rebuilt.load_state_dict(model.state_dict())
    assert rebuilt.to_config() == plain
    assert torch.equal(model(IDS), rebuilt(IDS))


def test_json_positions_may_omit_the_head_dim():
    made = config(positions={"rope": {"base": 500.0}})
    assert made == config(positions=attn.Rope(4, 500.0))
    assert made != config(positions=attn.Rope(4, 501.0))
    assert made != config() and made != "rope"


@pytest.mark.parametrize(
    "name,value",
    (
        ("norm", attn.RMSNorm),
        ("feed_forward", functools.partial(attn.FeedForward, hidden_dim=3)),
        ("attention", attn.MultiHeadAttention),
        ("positions", nn.Embedding(16, 12)),
    ),
)
def test_a_custom_class_builds_a_model_but_is_refused_by_json(name, value):
    made = config(**{name: value})
    assert Transformer(made)(IDS).shape == (2, 5, 11)
    with pytest.raises(TypeError, match=f"{name} must be a name"):
        made.to_json()


# --- what the fields do ------------------------------------------------------


def test_windows_and_scales_may_differ_by_layer():
    model = Transformer(config(window=[(1, 0), None], scale=[0.5, 2.0]))
    first, second = (block.attention for block in model.blocks)
    assert (first.window, second.window) == ((1, 0), None)
    assert (first.scale, second.scale) == (0.5, 2.0)
    for window in ((1, 0), [(1, 0), (1, 0)]):
        model = Transformer(config(window=window, scale=0.5))
        layers = [block.attention for block in model.blocks]
        assert [x.window for x in layers] == [(1, 0)] * 2
        assert [x.scale for x in layers] == [0.5] * 2
    assert config(window=[(1, 0), (1, 0)]) == config(window=(1, 0))
    for nothing in ([None, None], (None, None)):
        model = Transformer(config(window=nothing))
        assert [x.attention.window for x in model.blocks] == [None] * 2


def test_every_model_copies_the_positions_that_it_is_given():
    learned = attn.LearnedPositions(16, 12)
    made = config(positions=learned)
    first, second = Transformer(made), Transformer(made)
    assert torch.equal(first.positions.weight, learned.weight)
    nn.init.zeros_(first.positions.weight)
    assert torch.equal(second.positions.weight, learned.weight)


def test_attention_is_configured_by_implementation_or_by_class():
    model = Transformer(config(attention="reference"))
    assert {x.attention.impl for x in model.blocks} == {"reference"}

    class Doubled(attn.MultiHeadAttention):
        """Twice what attention gives, and no window."""

        def __init__(self, embed_dim, num_heads, *, is_causal, rope):
            super().__init__(
                embed_dim, num_heads, is_causal=is_causal, rope=rope
            )

        def forward(self, query, *inputs, **options):
            return 2 * super().forward(query, *inputs, **options)

    torch.manual_seed(0)
    plain = Transformer(config())
    double = Transformer(config(attention=Doubled))
    double.load_state_dict(plain.state_dict())
    for block in plain.blocks:
        for x in block.attention.out_proj.parameters():
            x.data *= 2
    assert torch.allclose(double(IDS), plain(IDS), rtol=1e-4, atol=1e-6)
    with pytest.raises(TypeError, match="softcap"):
        Transformer(config(attention=Doubled, softcap=3.0))


FIELDS = dataclasses.fields(TransformerConfig)


@pytest.mark.parametrize("preset", (gpt2_small, llama_style))
@pytest.mark.parametrize("f", FIELDS, ids=lambda f: f.name)
def test_every_field_of_a_preset_can_be_overridden(preset, f):
    small = {**SIZES, "num_kv_heads": 3, "max_positions": 8}
    others = {
        "vocab_size": 7,
        "num_kv_heads": 1,
        "positions": "sinusoidal",
        "attention": "grouped",
        "norm": "layer" if preset is llama_style else "rms",
        "norm_order": "sandwich",
        "feed_forward": "relu",
        "self_attention": False,
        "window": (2, 0),
        "scale": 0.5,
        "dropout": 0.5,
    }
    value = getattr(preset(**small), f.name)
    new = others.get(f.name)
    if new is None and isinstance(value, bool):
        new = not value
    elif new is None:
        new = 6 if "int" in f.type else 0.5 if "float" in f.type else True
    needs = {
        "self_attention": {"cross_attention": True, "positions": "learned"},
        "memory_norm": {"cross_attention": True},
    }.get(f.name, {})
    made = preset(**{**small, **needs, f.name: new})
    assert getattr(made, f.name) == new != value


def test_gpt2_keeps_its_width_with_other_positions():
    for positions in ("rope", "alibi", "sinusoidal", "none"):
        small = gpt2_small(**SIZES, positions=positions)
        assert Transformer(small)(IDS).shape == (2, 5, 11)
    small = {**SIZES, "num_kv_heads": 1}
    assert llama_style(**small).hidden_dim == 256
    assert llama_style(**small, feed_forward="gelu").hidden_dim is None
