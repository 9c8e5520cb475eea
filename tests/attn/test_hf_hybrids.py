"""Hybrids of softmax attention and states: their softmax layers attach.

The families that ``hf_families`` makes small by the names of their fields are
in the book's table; these need sizes that fit each other.
"""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("transformers")

import transformers as T

from attn import hf
from tests.attn.hf_families import model_class
from tests.attn.hf_zoo import randomised
from tests.marks import exhaustive_but

SIZES = {
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
MAMBA = {
    "mamba_n_heads": 8,
    "mamba_d_head": 8,
    "mamba_d_state": 8,
    "mamba_chunk_size": 4,
}
FAMILIES = {
    "bamba": MAMBA | {"attn_layer_indices": [1], "mamba_n_groups": 1},
    "falcon_h1": MAMBA | {"mamba_d_ssm": 64, "head_dim": 8},
    "granitemoehybrid": MAMBA
    | {
        "layer_types": ["mamba", "attention"],
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "shared_intermediate_size": 32,
    },
    "nemotron_h": {
        "layers_block_type": ["mamba", "attention"],
        "head_dim": 8,
        "mamba_num_heads": 8,
        "mamba_head_dim": 8,
        "ssm_state_size": 8,
        "n_groups": 2,
        "chunk_size": 4,
    },
    "zamba2": {
        "layers_block_type": ["mamba", "hybrid"],
        "num_key_value_heads": 4,
        "num_mem_blocks": 1,
        "n_mamba_heads": 8,
        "mamba_headdim": 8,
        "mamba_ngroups": 1,
        "mamba_d_state": 8,
        "chunk_size": 4,
    },
}


@pytest.mark.parametrize("family", exhaustive_but(["bamba"], FAMILIES))
@torch.no_grad()
def test_the_softmax_layers_of_a_hybrid_are_attached(family):
    config = T.AutoConfig.for_model(family, **SIZES | FAMILIES[family])
    config._attn_implementation = "eager"
    model = randomised(model_class(family)(config), 0).eval()
    g = torch.Generator().manual_seed(1)
    ids = torch.randint(4, 60, (2, 7), generator=g)
    mask = torch.ones_like(ids)
    mask[1, :3] = 0
    real = mask.bool()

    def results():
        padded = model(ids, attention_mask=mask).logits[real]
        text = model.generate(ids, max_new_tokens=5, do_sample=False)
        return model(ids).logits, padded, text

    want = results()
    hf.attach(model)
    got = results()
    for a, b in zip(got[:2], want[:2], strict=True):
        assert (a - b).abs().max() <= 1e-5 * b.abs().max()
    assert torch.equal(got[2], want[2])
