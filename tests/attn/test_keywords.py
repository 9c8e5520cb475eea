"""An unknown keyword is answered by the function, and a number is one."""

import importlib
from operator import attrgetter

import numpy as np
import pytest
import torch

import attn
from attn import arguments
from tests.attn.test_examples import MODULES

FUNCTIONS = {
    f"{path}.{name}": function
    for path in MODULES
    for name in getattr(importlib.import_module(path), "__all__", ())
    if callable(function := getattr(importlib.import_module(path), name))
}
#: What these get is for another, which answers for it.
PASS_ON = {
    *("attention", "AttentionOptions", "BidirectionalLlamaConfig", "Rope"),
    *("StateLayer", "Transformer", "TransformerBlock", "gpt2_small"),
    *("llama_style", "model_attention", "peak_bytes", "rope_frequencies"),
    "traffic",
}
CALL = (
    "causal=is_causal is_casual=is_causal softmax_scale=scale mask=attn_mask"
)
MEANT = {
    "attention": f"{CALL} window_size=window backend=impl dropout=dropout_p",
    "api.explain": CALL,
    "api.autotune": CALL,
    "attention_weights": CALL,
    "scaled_dot_product_attention": f"{CALL} return_softmax_lse=return_lse",
    "tiled_attention": CALL,
    "generate": "do_sample=temperature eos_token_id=eos input_ids=ids",
    "serving.Engine": "max_batch_size=max_num_seqs",
    "MultiHeadAttention": "n_head=num_heads dropout_p=dropout batch_first=",
    "MultiHeadAttention.forward": "causal=is_causal past_key_value=cache",
    "Transformer.forward": "key_padding_mask=attention_mask",
    "kernels.varlen_attention": "cu_seqlens=cu_seqlens_q",
    "TransformerConfig": (
        "num_head=num_heads rope=positions norm_layer=norm alibi=positions "
        "hidden_size=embed_dim sliding_window=window"
    ),
}


def test_every_public_function_names_itself_and_the_keyword():
    wrong = {}
    for name, function in FUNCTIONS.items():
        if name.rpartition(".")[2] in PASS_ON:
            continue
        with pytest.raises(TypeError) as info:
            function(zzz=1)
        kinds = getattr(function, "__mro__", (function,))
        names = ("Registry.", *(x.__name__ for x in kinds))
        text = str(info.value)
        if not text.startswith(names) or not (
            text.endswith(("argument 'zzz'", "own fields; got 'zzz'"))
            or "takes no arguments" in text
        ):
            wrong[name] = text
    assert wrong == {}


@pytest.mark.parametrize("name", MEANT)
def test_the_name_that_was_probably_meant_is_suggested(name):
    function, short = attrgetter(name)(attn), name.rpartition(".")[2]
    x = [torch.zeros(1, 2, 3, 4)] * 3 if name == "attention" else []
    for pair in MEANT[name].split():
        keyword, meant = pair.split("=")
        way_out = f"use {meant}" if meant else "inputs have the batch first"
        says = rf"{short}\b.* got .*'{keyword}': {way_out}(\W|$)"
        with pytest.raises(TypeError, match=says):
            function(*x, **{keyword: True})


def test_a_function_of_any_keyword_is_not_taken_for_one_that_declares_it():
    own = attn.api.Registry(parent=attn.api.registry)
    own.register("any")(lambda query, *others, **options: query)
    x = torch.zeros(1, 2, 3, 4)
    with pytest.raises(TypeError, match=r"^attention\(\) .*: use is_causal"):
        attn.attention(x, x, x, registry=own, causal=True)


# --- sizes that are traced, and numbers of NumPy, are numbers ----------------


def test_a_size_that_is_traced_is_a_count():
    """Its sizes are tensors in torch.jit, and symbols in torch.export."""

    class Layer(torch.nn.Module):
        def forward(self, x):
            arguments.count("length", x.shape[0])
            arguments.integer("length", x.shape[0])
            return x + x.shape[0]

    x = torch.zeros(3)
    traced = torch.jit.trace(Layer(), x)
    assert torch.equal(traced(torch.zeros(5)), torch.full((5,), 5.0))
    lengths = {"x": {0: torch.export.Dim.DYNAMIC}}
    program = torch.export.export(Layer(), (x,), dynamic_shapes=lengths)
    assert torch.equal(program.module()(torch.zeros(5)), torch.full((5,), 5.0))


def test_numbers_of_numpy_are_numbers():
    """Sizes come from arrays, and from what a grid search draws."""
    two, four, eight = np.array([2, 4, 8])
    x = torch.randn(1, eight, 6, four)
    for make in (
        lambda n: attn.sliding_window(n).dense(6),
        lambda n: attn.causal().shift(q=n).dense(3, 6),
        lambda n: attn.alibi_slopes(n),
        lambda n: attn.repeat_kv(x, n),
        lambda n: attn.rope_frequencies(n)[0],
        lambda n: attn.sinusoidal(n, 4),
        lambda n: attn.attention(x, x, x, window=(n, 0), scale=1 / n),
        lambda n: attn.tiled_attention(x, x, x, block_q=n, block_k=n),
        lambda n: attn.nn.MultiHeadAttention(8, n).q_proj.weight[:0],
        lambda n: attn.StaticCache(1, n, n, n).capacity,
    ):
        given, plain = make(two), make(2)
        if isinstance(given, torch.Tensor):
            assert torch.equal(given, plain)
        else:
            assert given == plain
