"""An unknown keyword is answered by the function that was called."""

from __future__ import annotations

import importlib

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
MEANT = {
    "causal": "is_causal",
    "is_casual": "is_causal",
    "softmax_scale": "scale",
    "window_size": "window, with None for no bound",
    "attention_mask": "attn_mask=attn.padding",
    "logits_soft_cap": "softcap",
}
CALLS = {
    attn.attention: MEANT | {"backend": "impl", "dropout": "dropout_p"},
    attn.api.explain: MEANT,
    attn.api.autotune: MEANT,
    attn.attention_weights: MEANT,
    attn.scaled_dot_product_attention: MEANT | {"return_softmax_lse": "ret"},
    attn.tiled_attention: MEANT,
    attn.generate: {
        "do_sample": "temperature, 0 for",
        "eos_token_id": "eos",
        "max_length": "max_new_tokens, which",
    },
    attn.serving.Engine: {"max_batch_size": "max_num_seqs"},
    attn.MultiHeadAttention: {
        "num_key_value_heads": "num_kv_heads",
        "dropout_p": "dropout",
        "batch_first": "",
    },
    attn.MultiHeadAttention.forward: {"past_key_value": "cache", **MEANT},
    attn.Transformer.forward: {"key_padding_mask": "attention_mask, with 1"},
    attn.kernels.varlen_attention: {"cu_seqlens": "cu_seqlens_q"},
}
ROWS = [(f, x, meant) for f, row in CALLS.items() for x, meant in row.items()]
FEW = {attn.MultiHeadAttention.forward: ("scale", "window", "softcap")}


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


def tensors(function):
    return [torch.zeros(1, 2, 3, 4)] * 3 if function is attn.attention else []


@pytest.mark.parametrize(("function", "keyword", "meant"), ROWS)
def test_the_name_that_was_probably_meant_is_suggested(
    function, keyword, meant
):
    if meant.startswith(FEW.get(function, ())):
        pytest.skip("has no such argument")
    says = rf"{function.__name__}\(\) got an unexpected keyword.*'{keyword}': "
    with pytest.raises(TypeError, match=f"{says}(use {meant}|inputs have)"):
        function(*tensors(function), **{keyword: True})


def test_a_function_may_be_the_only_one_that_takes_any_keyword():
    own = attn.api.Registry(parent=attn.api.registry)
    own.register("any")(lambda query, *others, **options: query)
    with pytest.raises(TypeError, match=r"^attention\(\) .*: use is_causal"):
        attn.attention(*tensors(attn.attention), registry=own, causal=True)


def test_every_foreign_name_is_foreign():
    for here, foreign in arguments._FOREIGN.items():
        assert here not in foreign.split()
        assert arguments.suggestion(foreign.split()[0], [here]), here
