"""``hf.load`` takes models and files, changes neither, refuses the rest."""

import ast
import copy
import json
from pathlib import Path

import pytest
import torch

from attn import hf
from tests.attn import hf_zoo
from tests.attn.test_layout import tops

FAMILIES = tuple(hf_zoo.FAMILIES)


def equal_logits(a, b):
    with torch.no_grad():
        return torch.equal(a(hf_zoo.ids()), b(hf_zoo.ids()))


@pytest.mark.grid
@pytest.mark.parametrize("family", FAMILIES)
def test_a_state_dict_with_its_config_loads_like_the_model(family):
    theirs = hf_zoo.model(family)
    written = json.loads(json.dumps(theirs.config.to_dict()))
    ours = hf.load(theirs)
    for config in (written, theirs.config):
        assert equal_logits(hf.load(theirs.state_dict(), config), ours)


@pytest.mark.parametrize("family", FAMILIES)
def test_loading_copies_the_weights_and_changes_no_input(family):
    theirs = hf_zoo.model(family)
    before = copy.deepcopy(theirs.state_dict())
    config = theirs.config.to_dict()
    random = torch.random.get_rng_state()
    ours = hf.load(theirs)
    assert torch.equal(random, torch.random.get_rng_state())
    assert config == theirs.config.to_dict()
    assert not ours.training
    with torch.no_grad():
        for x in ours.parameters():
            assert x.device.type == "cpu" and x.isfinite().all()
            x.zero_()
    for name, x in theirs.state_dict().items():
        assert torch.equal(x, before[name]), name


@pytest.mark.parametrize("tied", (True, False))
def test_the_order_of_stored_weights_does_not_matter(tied):
    theirs = hf_zoo.model("bert", tie_word_embeddings=tied)
    state = dict(reversed(theirs.state_dict().items()))
    assert equal_logits(hf.load(state, theirs.config), hf.load(theirs))


def test_half_precision_weights_arrive_exactly_in_float32():
    theirs = hf_zoo.model("gemma2").bfloat16()
    ours = hf.load(theirs)
    assert {x.dtype for x in ours.parameters()} == {torch.float32}
    mine = ours.blocks[1].attention_norm.weight
    weight = theirs.model.layers[1].input_layernorm.weight
    assert torch.equal(mine, 1 + weight.float())


@pytest.mark.parametrize("family", ("gpt2", "bloom", "gemma2"))
def test_a_tied_head_need_not_be_stored(family):
    theirs = hf_zoo.model(family)
    state = theirs.state_dict()
    del state["lm_head.weight"]
    assert equal_logits(hf.load(state, theirs.config), hf.load(theirs))
    # As GPT-2 is published: no prefix either.
    prefix = hf.FAMILIES[family].prefix
    state = {k.removeprefix(prefix): v for k, v in state.items()}
    assert equal_logits(hf.load(state, theirs.config), hf.load(theirs))


def test_a_head_that_differs_from_its_tied_embedding_is_refused():
    theirs = hf_zoo.model("gpt2")
    state = dict(theirs.state_dict())
    state["lm_head.weight"] = state["lm_head.weight"] + 1
    with pytest.raises(
        ValueError, match="lm_head.weight must equal wte.weight"
    ):
        hf.load(state, theirs.config)


@pytest.mark.grid
@pytest.mark.parametrize("family", FAMILIES)
def test_each_missing_weight_is_named(family):
    theirs = hf_zoo.model(family, tie_word_embeddings=False)
    prefix = hf.FAMILIES[family].prefix
    state = theirs.state_dict()
    twice = {"cls.predictions.bias", "cls.predictions.decoder.bias"}
    marks_head = {"cls.predictions.transform.dense.weight"}
    for name in state.keys() - twice - marks_head:
        rest = {k: v for k, v in state.items() if k != name}
        with pytest.raises(ValueError) as caught:
            hf.load(rest, theirs.config)
        assert name.removeprefix(prefix) in str(caught.value)


@pytest.mark.parametrize(
    "family,buffer",
    (
        ("gpt2", "transformer.h.0.attn.bias"),
        ("gpt2", "transformer.h.0.attn.masked_bias"),
        ("gpt_neox", "gpt_neox.layers.1.attention.bias"),
        ("gpt_neox", "gpt_neox.layers.1.attention.rotary_emb.inv_freq"),
        ("llama", "model.layers.0.self_attn.rotary_emb.inv_freq"),
        ("bert", "bert.embeddings.position_ids"),
    ),
)
def test_buffers_of_old_checkpoints_are_ignored(family, buffer):
    theirs = hf_zoo.model(family)
    state = {**theirs.state_dict(), buffer: torch.ones(1, 1, 4, 4)}
    assert equal_logits(hf.load(state, theirs.config), hf.load(theirs))


PUBLISHED = {
    "gpt2": {
        "n_ctx": 1024,
        "task_specific_params": {"text-generation": {"max_length": 50}},
    },
    "llama": {"pretraining_tp": 1, "torch_dtype": "bfloat16"},
    "gemma2": {
        "hidden_act": "gelu_pytorch_tanh",
        "cache_implementation": "hybrid",
    },
    "bloom": {
        "seq_length": 2048,
        "offset_alibi": 100,
        "masked_softmax_fusion": True,
        "attention_softmax_in_fp32": True,
        "bias_dropout_fusion": True,
        "skip_bias_add": True,
        "skip_bias_add_qkv": False,
        "unk_token_id": 0,
        "n_inner": None,
    },
    "bert": {
        "position_embedding_type": "absolute",
        "gradient_checkpointing": False,
    },
}


@pytest.mark.parametrize("family", PUBLISHED)
def test_extra_fields_of_published_configurations_are_supported(family):
    theirs = hf_zoo.model(family)
    changed = copy.deepcopy(theirs.config)
    for name, value in PUBLISHED[family].items():
        setattr(changed, name, value)
    assert equal_logits(hf.load(theirs.state_dict(), changed), hf.load(theirs))


DEFAULT_ROPE = {"rope_type": "default", "rope_theta": 1e4}
REFUSED = (
    ("gpt2", "add_cross_attention", True),
    ("gpt2", "activation_function", "quick_gelu"),
    ("llama", "hidden_act", "gelu_10"),
    ("llama", "rope_parameters", {"rope_type": "wave", "rope_theta": 1e4}),
    (
        "llama",
        "rope_parameters",
        DEFAULT_ROPE | {"mrope_section": [1, 1, 1]},
    ),
    (
        "mistral",
        "rope_parameters",
        DEFAULT_ROPE | {"partial_rotary_factor": 0.5},
    ),
    ("qwen3", "layer_types", ["full_attention"] * 2 + ["linear_attention"]),
    ("gemma2", "use_bidirectional_attention", True),
    ("bloom", "apply_residual_connection_post_layernorm", True),
    ("bert", "position_embedding_type", "relative_key"),
    ("bert", "add_cross_attention", True),
    ("llama", "num_experts", 8),
    ("qwen3", "is_encoder_decoder", True),
)


@pytest.mark.parametrize(
    "family,field,value", REFUSED, ids=[f"{f}, {n}" for f, n, _ in REFUSED]
)
def test_unsupported_config_values_are_refused_by_name(family, field, value):
    theirs = hf_zoo.model(family)
    config = {**theirs.config.to_dict(), field: value}
    with pytest.raises(NotImplementedError, match=field):
        hf.load(theirs.state_dict(), config)


QUANTIZED = {
    "quantization_config": {"quant_method": "gguf", "dequantize": False},
    "_model_name_or_path": "Smollm2 135M",
}


def test_weights_dequantized_from_gguf_are_loaded():
    """Transformers dequantizes them, and keeps the field."""
    theirs = hf_zoo.model("llama")
    want = hf.load(theirs)
    config = {**theirs.config.to_dict(), **QUANTIZED}
    assert equal_logits(hf.load(theirs.state_dict(), config), want)
    theirs.config.quantization_config = QUANTIZED["quantization_config"]
    assert equal_logits(hf.load(theirs), want)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float8_e4m3fn])
def test_quantized_weights_are_refused(dtype):
    theirs = hf_zoo.model("llama")
    config = {**theirs.config.to_dict(), **QUANTIZED}
    state = dict(theirs.state_dict())
    name = "model.layers.0.mlp.up_proj.weight"
    state[name] = state[name].to(dtype)
    with pytest.raises(NotImplementedError, match="quantization_config"):
        hf.load(state, config)


def test_bloom_with_slow_but_exact_slices_is_refused():
    """Its exact variant leaves out a bias."""
    theirs = hf_zoo.model("bloom")
    config = theirs.config.to_dict()
    config |= {"pretraining_tp": 2, "slow_but_exact": True}
    with pytest.raises(NotImplementedError, match="slow_but_exact"):
        hf.load(theirs.state_dict(), config)


@pytest.mark.grid
@pytest.mark.parametrize("family", FAMILIES)
def test_an_unknown_configuration_field_is_refused(family):
    """Each is read, or named as one that changes nothing here."""
    theirs = hf_zoo.model(family)
    config = {**theirs.config.to_dict(), "wings": 2, "tail": None}
    with pytest.raises(
        NotImplementedError, match="config must have only .*got wings=2"
    ):
        hf.load(theirs.state_dict(), config)


def test_the_error_of_an_unsupported_family_lists_the_supported_ones():
    config = {"model_type": "mamba"}
    with pytest.raises(NotImplementedError, match="gpt2.*bert; got 'mamba'"):
        hf.load({}, config)
    with pytest.raises(ValueError, match="config must be given .*got None"):
        hf.load({})


def test_loading_does_not_import_transformers():
    into_theirs = {
        "attachment",
        "attention_interface",
        "bidirectional",
        "mask_interface",
        "probing",
        "reading",
        "registration",
    }
    for file in Path(hf.__file__).parent.glob("*.py"):
        if file.stem in into_theirs:
            continue
        assert "transformers" not in tops(ast.parse(file.read_text()))
