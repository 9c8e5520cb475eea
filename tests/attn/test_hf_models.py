"""Our models with the weights of transformers' models give their logits."""

import copy
import functools
import re

import pytest
import torch

from attn import hf
from attn.positions import position_ids
from tests.attn import hf_zoo
from tests.attn.cases import assert_exact, distance

pytestmark = pytest.mark.usefixtures("one_thread")
LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
LONGROPE = {
    "factor": 2.0,
    "short_factor": [1.0, 1.5, 2.0],
    "long_factor": [2.0, 3.0, 5.0],
}
LAST_LAYER = {
    "use_sliding_window": True,
    "sliding_window": 3,
    "max_window_layers": 2,
}


def rope(kind, **more):
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 1e4, **more}}


# Variants of each family's configuration, all of which change the logits.
VARIANTS = {
    "gpt2": {
        "exact gelu": {"activation_function": "gelu"},
        "relu": {"activation_function": "relu"},
        "inner width": {"n_inner": 22},
        "no scale": {"scale_attn_weights": False},
        "scale by layer": {"scale_attn_by_inverse_layer_idx": True},
        "own head": {"tie_word_embeddings": False},
        "epsilon": {"layer_norm_epsilon": 1e-5},
    },
    "llama": {
        "one kv head": {"num_key_value_heads": 1},
        "as many kv heads": {"num_key_value_heads": 4},
        "head_dim": {"head_dim": 10},
        "attention bias": {"attention_bias": True},
        "mlp bias": {"mlp_bias": True},
        "tied head": {"tie_word_embeddings": True},
        "gelu": {"hidden_act": "gelu"},
        "theta": rope("default", rope_theta=30.0),
        "linear rope": rope("linear", factor=3.0),
        "dynamic rope": {
            **rope("dynamic", factor=3.0),
            "max_position_embeddings": 6,
        },
        "yarn": rope("yarn", factor=4.0),
        "proportional rope": rope("proportional", partial_rotary_factor=0.5),
        "llama3 rope": rope("llama3", **LLAMA3),
        "longrope, short": rope("longrope", **LONGROPE),
        "longrope, long": rope(
            "longrope", original_max_position_embeddings=6, **LONGROPE
        ),
        "epsilon": {"rms_norm_eps": 1e-6},
        "bidirectional": {"is_causal": False},
    },
    "qwen3": {
        "attention bias": {"attention_bias": True},
        "tied head": {"tie_word_embeddings": True},
        "window in the last layer": LAST_LAYER,
    },
    "qwen2": {
        "tied head": {"tie_word_embeddings": True},
        "gelu": {"hidden_act": "gelu"},
        "window in the last layer": LAST_LAYER,
    },
    "phi3": {
        "window": {"sliding_window": 3},
        "tied head": {"tie_word_embeddings": True},
        "part of a head rotates": {
            "hidden_size": 32,
            **rope("default", partial_rotary_factor=0.5),
        },
        "theta": rope("default", rope_theta=30.0),
    },
    "starcoder2": {
        "window": {"sliding_window": 3},
        "no biases": {"use_bias": False},
        "own head": {"tie_word_embeddings": False},
        "epsilon": {"norm_epsilon": 1e-5},
    },
    "stablelm": {
        "biases": {"use_qkv_bias": True},
        "epsilon": {"layer_norm_eps": 1e-5},
        "all of a head rotates": rope("default", partial_rotary_factor=1.0),
    },
    "gemma": {
        "silu": {"hidden_act": "silu"},
        "attention bias": {"attention_bias": True},
        "own head": {"tie_word_embeddings": False},
        "epsilon": {"rms_norm_eps": 0.1},
    },
    "mistral": {
        "no window": {"sliding_window": None},
        "window of one": {"sliding_window": 1},
        "window, both ways": {"is_causal": False},
        "head_dim": {"head_dim": 10},
        "tied head": {"tie_word_embeddings": True},
    },
    "gemma2": {
        "no caps": {
            "attn_logit_softcapping": None,
            "final_logit_softcapping": None,
        },
        "scale": {"query_pre_attn_scalar": 100},
        "layers": {
            "layer_types": [
                "full_attention",
                "full_attention",
                "sliding_attention",
            ]
        },
        "window": {"sliding_window": 2},
        "own head": {"tie_word_embeddings": False},
        "attention bias": {"attention_bias": True},
        "silu": {"hidden_activation": "silu"},
    },
    "gpt_neox": {
        "sequential": {"use_parallel_residual": False},
        "all dimensions rotate": {"rotary_pct": 1.0, "hidden_size": 24},
        "few dimensions rotate": {"rotary_pct": 0.3},
        "no attention bias": {"attention_bias": False},
        "tied head": {"tie_word_embeddings": True},
        "tanh gelu": {"hidden_act": "gelu_new"},
        "linear rope": rope("linear", factor=2.0, partial_rotary_factor=0.6),
    },
    "bloom": {
        "epsilon": {"layer_norm_epsilon": 1e-5},
        "four heads": {"n_head": 4, "hidden_size": 12},
        "six heads": {"n_head": 6, "hidden_size": 18},
        "own head": {"tie_word_embeddings": False},
    },
    "bert": {
        "decoder": {"is_decoder": True},
        "relu": {"hidden_act": "relu"},
        "own head": {"tie_word_embeddings": False},
        "five heads": {"num_attention_heads": 5},
    },
}
SIDES = ("none", "left", "right")
#: Those that change which keys a token sees, or where it is.
PLACED = "rope|window|bidirectional|layers|decoder|heads"


def cases():
    """Every variant is padded on the left, and some otherwise too."""
    for family, variants in VARIANTS.items():
        for name, given in {"base": {}, **variants}.items():
            for side in SIDES:
                marks = () if side == "left" else pytest.mark.exhaustive
                if not marks or name == "base" or re.search(PLACED, name):
                    at = f"{family}, {name}, {side}"
                    yield pytest.param(family, given, side, id=at, marks=marks)


def inputs_for(family, side):
    """Return the inputs of theirs and of ours, and the real tokens."""
    theirs, ours = {}, {}
    real = hf_zoo.padding(side)
    if real is not None:
        theirs["attention_mask"] = real.long()
        ours["attention_mask"] = real
    if family == "bert":
        types = torch.arange(9).expand(3, 9) % 3
        theirs["token_type_ids"] = ours["segments"] = types
    return theirs, ours, slice(None) if real is None else real


@functools.lru_cache(maxsize=1)
def loaded(theirs):
    """Return ours with their weights, in float32 and in float64."""
    return hf.load(theirs), hf.load(copy.deepcopy(theirs).double())


def assert_logits_equal(theirs, ids, for_theirs, for_ours, seen):
    """Compare ours in float32 and float64 with theirs in float64."""
    rival = hf_zoo.logits(theirs, ids, **for_theirs)[seen]
    exact = hf_zoo.exact_logits(theirs, ids, **for_theirs)[seen]
    with torch.no_grad():
        single, double = (x(ids, **for_ours)[seen] for x in loaded(theirs))
    assert single.dtype == torch.float32 and double.dtype == torch.float64
    assert_exact(single, exact, rival)
    # In float64, as few roundings as transformers has in float32.
    finer = torch.finfo(torch.float64).eps / torch.finfo(torch.float32).eps
    rounding = finer * distance(rival, exact)
    if theirs.config.model_type == "bloom":
        # Its GELU writes sqrt(2 / pi) with eight digits.
        rounding = 1e-9 * float(exact.abs().max())
    assert_exact(double, exact, exact + rounding)


@pytest.mark.parametrize("family,changes,side", cases())
def test_logits_equal_transformers_with_padding(family, changes, side):
    theirs = hf_zoo.model(family, **changes)
    assert_logits_equal(theirs, hf_zoo.ids(), *inputs_for(family, side))


@pytest.mark.grid
@pytest.mark.parametrize("family", VARIANTS)
def test_every_variant_moves_the_logits_of_transformers(family):
    """Otherwise a test of it could not fail."""
    base, ids = hf_zoo.model(family), hf_zoo.ids()
    seen = 0
    for name, changes in VARIANTS[family].items():
        other = hf_zoo.model(family, **changes)
        state = base.state_dict()
        shapes = {k: v.shape for k, v in state.items()}
        if shapes != {k: v.shape for k, v in other.state_dict().items()}:
            continue  # other weights: nothing to compare
        if "tie_word_embeddings" in changes:
            continue  # the same, and its own test below
        other.load_state_dict(state)
        moved = hf_zoo.logits(base, ids) - hf_zoo.logits(other, ids)
        assert moved.abs().max() > 1e-3, name
        seen += 1
    assert seen


@pytest.mark.parametrize("family", ("gpt2", "llama", "gpt_neox", "bert"))
@pytest.mark.parametrize("side", ("left", "right"))
def test_logits_with_positions_that_skip_padding_equal_theirs(family, side):
    theirs = hf_zoo.model(family)
    for_theirs, for_ours, seen = inputs_for(family, side)
    ids = position_ids(for_ours["attention_mask"])
    for_theirs["position_ids"] = for_ours["positions"] = ids
    assert_logits_equal(theirs, hf_zoo.ids(), for_theirs, for_ours, seen)


def test_bloom_counts_real_tokens_even_with_holes_in_the_padding():
    """Its ALiBi counts positions from the mask; ours are given."""
    theirs = hf_zoo.model("bloom")
    real = torch.tensor([[1, 0, 1, 1, 0, 0, 1, 1, 1]] * 3)
    for_ours = {"attention_mask": real, "positions": position_ids(real)}
    seen = real.bool()
    assert_logits_equal(
        theirs, hf_zoo.ids(), {"attention_mask": real}, for_ours, seen
    )


@pytest.mark.grid
@pytest.mark.parametrize("family", [x for x in VARIANTS if x != "bert"])
def test_a_body_without_a_head_gives_the_last_hidden_states(family):
    theirs = hf_zoo.model(family, "Model")
    assert hf.load(theirs).head is None
    for side in SIDES:
        assert_logits_equal(theirs, hf_zoo.ids(), *inputs_for(family, side))


@pytest.mark.parametrize("kind", ("Model", "ForMaskedLM"))
def test_bert_has_a_pooler_or_a_head_only_with_their_weights(kind):
    theirs = hf_zoo.model("bert", kind)
    ours = hf.load(theirs)
    for_theirs, for_ours, _ = inputs_for("bert", "right")
    for side in SIDES:
        assert_logits_equal(theirs, hf_zoo.ids(), *inputs_for("bert", side))
    if kind == "ForMaskedLM":
        # Segments are zero when they are not given.
        assert_logits_equal(theirs, hf_zoo.ids(), {}, {}, slice(None))
        assert ours.pooler is None
        with pytest.raises(ValueError, match="no pooler"):
            ours.pool(torch.zeros(1, 1, 15))
        return
    with torch.no_grad():
        pooled = ours.pool(ours(hf_zoo.ids(), **for_ours))
        rival = theirs(hf_zoo.ids(), **for_theirs).pooler_output
        with hf_zoo.Double():
            exact = copy.deepcopy(theirs).double()
            exact = exact(hf_zoo.ids(), **for_theirs).pooler_output
    assert_exact(pooled, exact, rival)


@pytest.mark.grid
@pytest.mark.parametrize("family", VARIANTS)
def test_logits_of_input_embeddings_equal_those_of_transformers(family):
    theirs = hf_zoo.model(family)
    ours = hf.load(theirs)
    vectors = torch.randn(2, 5, theirs.config.hidden_size)
    with torch.no_grad():
        mine = ours(inputs_embeds=vectors)
        rival = hf_zoo.logits(theirs, None, inputs_embeds=vectors)
    exact = hf_zoo.exact_logits(theirs, None, inputs_embeds=vectors.double())
    assert_exact(mine, exact, rival)
