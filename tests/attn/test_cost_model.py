"""A whole model's costs are those of transformers' models, counted."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch
import transformers
from torch import nn
from torch.utils import flop_counter

import attn
from attn import cost
from attn.cost import PUBLISHED, ModelShape
from tests.attn.models import count

aten = torch.ops.aten
B, L = 2, 6
SIZES = {
    "num_layers": 3,
    "vocab_size": 97,
    "embed_dim": 48,
    "hidden_dim": 80,
    "num_heads": 4,
    "num_kv_heads": 2,
    "head_dim": 8,
}
FALCON = {
    "head_dim": 12,
    "gated": False,
    "norm": "layer",
    "norms": 1,
    "tied": True,
}
GEMMA = {"norms": 4, "tied": True}
SHAPES = {
    "Llama": ModelShape(**SIZES),
    "Llama, tied": ModelShape(**SIZES, tied=True),
    "Llama, MHA": ModelShape(**SIZES | {"num_kv_heads": 4}),
    "Qwen3": ModelShape(**SIZES, qk_norm=True),
    "Gemma2": ModelShape(**SIZES | GEMMA, window=4, windowed_layers=2),
    "Gemma2, MHA": ModelShape(**SIZES | GEMMA | {"num_kv_heads": 4}),
    "GPT2": ModelShape(
        **SIZES | {"num_kv_heads": 4, "head_dim": 12},
        gated=False,
        bias=True,
        norm="layer",
        max_positions=16,
        tied=True,
    ),
    "Falcon": ModelShape(**SIZES | FALCON | {"num_kv_heads": 1}),
    "Falcon, MHA": ModelShape(**SIZES | FALCON | {"num_kv_heads": 4}),
}
# Their names of the same sizes, where they differ from Llama's.
THEIRS = {
    "GPT2": {
        "n_layer": "num_layers",
        "n_embd": "embed_dim",
        "n_head": "num_heads",
        "n_inner": "hidden_dim",
        "n_positions": "max_positions",
    },
    "Falcon": {
        "num_hidden_layers": "num_layers",
        "hidden_size": "embed_dim",
        "num_attention_heads": "num_heads",
        "ffn_hidden_size": "hidden_dim",
    },
    "": {
        "num_hidden_layers": "num_layers",
        "hidden_size": "embed_dim",
        "intermediate_size": "hidden_dim",
        "num_attention_heads": "num_heads",
        "num_key_value_heads": "num_kv_heads",
        "head_dim": "head_dim",
    },
}


def their_model(name, impl="eager"):
    """The model of transformers that has this shape."""
    family, shape = name.partition(",")[0], SHAPES[name]
    names = THEIRS.get(family, THEIRS[""])
    config = getattr(transformers, f"{family}Config")(
        vocab_size=shape.vocab_size,
        tie_word_embeddings=shape.tied,
        pad_token_id=0,
        bos_token_id=0,
        eos_token_id=0,
        **{theirs: getattr(shape, ours) for theirs, ours in names.items()},
    )
    for rate in ("resid_pdrop", "embd_pdrop", "attn_pdrop"):
        setattr(config, rate, 0.0)
    config.activation_function = "gelu_pytorch_tanh"  # one operation
    config.multi_query = shape.num_kv_heads == 1
    config.attn_logit_softcapping = config.final_logit_softcapping = None
    config._attn_implementation = impl
    head = "LMHeadModel" if family == "GPT2" else "ForCausalLM"
    torch.manual_seed(0)
    return getattr(transformers, f"{family}{head}")(config)


@pytest.mark.parametrize(
    "name,parameters",
    (
        ("GPT-2", 124_439_808),
        ("SmolLM2-135M", 134_515_008),
        ("Llama-2-7B", 6_738_415_616),
        ("Falcon-7B", 6_921_720_704),
        ("Llama-2-70B", 68_976_648_192),
        ("Mistral-7B-v0.1", 7_241_732_096),
        ("Llama-3-8B", 8_030_261_248),
        ("Llama-3-70B", 70_553_706_496),
        ("Gemma-2-9B", 9_241_705_984),
        ("Qwen3-8B", 8_190_735_360),
    ),
)
def test_the_published_number_of_parameters_is_counted(name, parameters):
    assert PUBLISHED[name].parameters() == parameters


@pytest.mark.parametrize("name", SHAPES)
def test_counted_parameters_equal_small_models_of_transformers(name):
    model = their_model(name)
    assert count(model) == SHAPES[name].parameters()


@pytest.mark.parametrize("name", [x for x in SHAPES if "Falcon" not in x])
@torch.no_grad()
def test_counted_parameters_and_flops_equal_those_of_our_models(name):
    shape = SHAPES[name]
    style = attn.gpt2_small if name == "GPT2" else attn.llama_style
    sizes = {k: getattr(shape, k) for k in (*SIZES, "tied", "qk_norm")}
    order = "sandwich" if shape.norms == 4 else "pre"
    model = attn.Transformer(style(**sizes, norm_order=order))
    if name == "GPT2":  # it has its 1024 positions
        shape = replace(shape, max_positions=1024)
    assert count(model) == shape.parameters()
    for keep in (0, 1, 2):
        with attn.api.use_impl("reference"):
            got = counted(lambda n=keep: model(ids(), logits_to_keep=n))
        assert got == shape.flops(B, L, is_causal=False, logits_to_keep=keep)


def ids(length=L):
    return torch.arange(B * length).view(B, length) % SIZES["vocab_size"]


def counted(run):
    """The operations of a call, CPU's fused attention included."""
    fused = "_scaled_dot_product_flash_attention_for_cpu"
    own = {
        getattr(aten, fused): (
            lambda q, k, v, *_, **__: flop_counter.sdpa_flop_count(q, k, v)
        ),
        getattr(aten, f"{fused}_backward"): (
            lambda *shapes, **_: flop_counter.sdpa_backward_flop_count(
                *shapes[:4]
            )
        ),
    }
    counter = flop_counter.FlopCounterMode(display=False, custom_mapping=own)
    with counter:
        run()
    return counter.get_total_flops()


@pytest.mark.parametrize("name", SHAPES)
@torch.no_grad()
def test_flops_of_prefill_and_decode_equal_those_that_torch_counts(name):
    """Transformers computes every pair, those out of sight too."""
    model, shape = their_model(name).eval(), SHAPES[name]
    cache = transformers.DynamicCache()
    prompt = counted(lambda: model(ids(), past_key_values=cache))
    assert shape.flops(B, L, is_causal=False) == prompt
    step = counted(lambda: model(ids(1), past_key_values=cache))
    assert shape.flops(B, 1, L + 1, is_causal=False) == step
    assert shape.flops(B, 1, L + 1) <= step
    assert shape.flops(B, L) < prompt


@pytest.mark.parametrize("impl", ("eager", "sdpa"))
@pytest.mark.parametrize("name", ("GPT2", "Llama", "Qwen3"))
def test_flops_of_a_training_step_equal_those_that_torch_counts(name, impl):
    model, shape = their_model(name, impl), SHAPES[name]
    step = counted(
        lambda: model(ids(), labels=ids(), use_cache=False).loss.backward()
    )
    assert step == shape.training_flops(
        B, L, is_causal=False, fused=impl == "sdpa"
    )


@contextmanager
def saving(model) -> Iterator[dict[int, torch.Tensor]]:
    """Collect what autograd keeps: each storage once, no parameters."""
    own = {x.untyped_storage().data_ptr() for x in model.parameters()}
    kept = {}

    def pack(x):
        place = x.untyped_storage().data_ptr()
        if place not in own and x.is_floating_point() and x.dim():
            kept[place] = x  # alive, so that its place is not used again
        return x

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        yield kept


@pytest.mark.parametrize("length", (L, 16))
@pytest.mark.parametrize(
    "name,impl",
    (
        ("GPT2", "eager"),
        ("GPT2", "sdpa"),
        ("Llama, MHA", "eager"),  # which copies shared keys and values
        ("Llama, MHA", "sdpa"),
        ("Llama, tied", "sdpa"),
        ("Qwen3", "sdpa"),
        ("Gemma2, MHA", "eager"),
        ("Falcon, MHA", "eager"),
    ),
)
def test_activation_bytes_equal_what_autograd_saves(name, impl, length):
    shape = SHAPES[name]
    model = their_model(name, impl)
    for module in list(model.modules()):
        for part, norm in list(module.named_children()):
            if "RMSNorm" in type(norm).__name__:  # theirs in one operation
                own = nn.RMSNorm(norm.weight.shape[0])
                setattr(module, part, own)
    with saving(model) as kept:
        model(ids(length), labels=ids(length), use_cache=False)
    storages = [x.untyped_storage().nbytes() for x in kept.values()]
    expected = shape.activation_bytes(
        B, length, torch.float32, fused=impl == "sdpa"
    )
    if shape.norm == "rms":  # on a CPU it keeps the normalised vector too
        layer = shape.norms * shape.embed_dim
        if shape.qk_norm:
            heads = shape.num_heads + shape.num_kv_heads
            layer += heads * shape.head_dim
        vectors = shape.num_layers * layer + shape.embed_dim
        expected += 4 * B * length * vectors
    assert sum(storages) == expected


def test_only_unfused_activations_grow_quadratically_with_the_length():
    llama = PUBLISHED["Llama-3-8B"]
    for fused, curved in ((True, False), (False, True)):
        sizes = [
            llama.activation_bytes(1, n * 2**16, fused=fused) for n in range(4)
        ]
        tables = 2 * 128 * 2 * 2**16  # RoPE's, once
        steps = [b - a for a, b in zip(sizes, sizes[1:], strict=False)]
        assert (steps[2] - steps[1] > 0) == curved
        assert (steps[1] == steps[0]) != curved
        assert steps[0] > tables
    weights = 32 * 32 * 8192**2 * 2  # layers, heads, pairs, bytes
    logs = 32 * 32 * 8192 * 4
    more = llama.activation_bytes(1, 8192, fused=False)
    assert more - llama.activation_bytes(1, 8192) == weights - logs


def test_activation_bytes_of_a_gpt_layer_equal_the_published_formula():
    """Korthikanti et al. 2022, equation 1, without the norms' statistics."""
    s, b, h, a = 1024, 3, 768, 12
    shapes = [replace(PUBLISHED["GPT-2"], num_layers=n) for n in (0, 1)]
    without, with_one = (
        x.activation_bytes(b, s, torch.float16, fused=False, dropout=True)
        for x in shapes
    )
    statistics = 4 * 4 * s * b  # two norms, mean and deviation
    published = s * b * h * 34 + 5 * a * s * s * b
    assert with_one - without - statistics == published


def test_a_token_costs_two_flops_a_parameter_and_six_in_training():
    llama = PUBLISHED["Llama-3-8B"]
    lookup = llama.vocab_size * llama.embed_dim  # no product
    N = llama.parameters() - lookup
    assert llama.flops(1, 1) == pytest.approx(2 * N, rel=0.001)
    assert llama.training_flops(1, 512) == pytest.approx(6 * N * 512, rel=0.02)
    assert llama.training_flops(1, 2**17) > 1.5 * 6 * N * 2**17


def test_a_window_reduces_flops_and_bytes():
    for S, L, w in ((9, 9, 4), (9, 1, 4), (9, 3, 20), (3, 9, 2)):
        seen = [min(max(S - L + 1 + i, 0), w) for i in range(L)]
        got = cost.attention_cost(1, L, S, 1, 1, 1, is_causal=True, window=w)
        assert got.flops == 4 * sum(seen)
    step = cost.attention_cost(
        1, 1, 999, 2, 2, 8, torch.float32, is_causal=True, window=4
    )
    assert step.bytes == 4 * 8 * 2 * (2 * 1 + 2 * 4)
    mistral = PUBLISHED["Mistral-7B-v0.1"]
    full = replace(mistral, window=None, windowed_layers=0)
    assert mistral.flops(1, 4096) == full.flops(1, 4096)
    assert mistral.flops(1, 4097) < full.flops(1, 4097)


def test_invalid_model_shapes_are_refused():
    with pytest.raises(ValueError, match="seq_len must be an int.*got -1"):
        PUBLISHED["GPT-2"].activation_bytes(1, -1)
    with pytest.raises(TypeError, match="q_len must be an int.*got 0.5"):
        PUBLISHED["GPT-2"].flops(1, 0.5)
    for changes, says in (
        (
            {"num_layers": "3"},
            "num_layers must be an int, at least 0; got '3'",
        ),
        ({"vocab_size": -1}, "vocab_size must be an int"),
        ({"num_kv_heads": 3}, r"num_heads must be a multiple .*got 4 and 3"),
        ({"num_kv_heads": 8}, r"num_heads must be a multiple .*got 4 and 8"),
        ({"num_kv_heads": 0}, "num_heads must be a multiple"),
        ({"norm": "batch"}, "norm must be one of .*; got 'batch'"),
        ({"norms": 3}, "norms must be one of .*; got 3"),
        ({"window": 4}, "window and windowed_layers .*; got 4 and 0"),
        ({"windowed_layers": 1}, "window and windowed_layers .*None and 1"),
        (
            {"window": 4, "windowed_layers": 4},
            "windowed_layers must be at most 3, all layers; got 4",
        ),
    ):
        error = TypeError if says.endswith("got '3'") else ValueError
        with pytest.raises(error, match=says):
            ModelShape(**SIZES | changes)


def test_attention_cost_refuses_invalid_heads_and_windows():
    with pytest.raises(ValueError, match="multiple of num_kv_heads.*4 and 3"):
        cost.attention_cost(1, 8, 8, 4, 3, 8)
    with pytest.raises(ValueError, match="window must be None without is_ca"):
        cost.attention_cost(1, 8, 8, 4, 2, 8, window=4)
