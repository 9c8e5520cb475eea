"""The models that attn.nn builds take the weights of ``hf.load``."""

import pytest
import torch

from attn import hf
from attn.nn import Transformer, gpt2_small, llama_style
from tests.attn import hf_zoo
from tests.attn.cases import assert_exact


def names_and_shapes(module):
    return {name: x.shape for name, x in module.state_dict().items()}


def test_gpt2_small_equals_the_model_loaded_from_gpt2s_configuration():
    from transformers.models.gpt2.configuration_gpt2 import GPT2Config
    from transformers.models.gpt2.modeling_gpt2 import GPT2LMHeadModel

    with torch.device("meta"):
        theirs = GPT2LMHeadModel._from_config(GPT2Config(n_layer=1))
        packed = Transformer(gpt2_small(dropout=0.1))
    count = sum(p.numel() for p in packed.parameters())
    assert count == 124_439_808
    ours = hf.load(theirs)
    of_ours = names_and_shapes(ours)
    of_small = names_and_shapes(packed)
    for name, shape in of_ours.items():
        name = name.replace("q_proj", "packed_proj")
        if "packed_proj" in name:
            shape = (3 * shape[0], *shape[1:])
        if "k_proj" not in name and "v_proj" not in name:
            assert of_small[name] == shape, name
    block, other = ours.blocks[0], packed.blocks[0]
    assert block.feed_forward.activation == other.feed_forward.activation
    assert block.attention_norm.eps == other.attention_norm.eps == 1e-5
    assert other.attention.dropout == packed.dropout.p == 0.1
    assert ours.head.weight is ours.token_embedding.weight


PRESETS = {
    "gpt2": lambda c: gpt2_small(
        vocab_size=c.vocab_size,
        embed_dim=c.n_embd,
        num_layers=c.n_layer,
        num_heads=c.n_head,
        max_positions=c.n_positions,
        norm_eps=c.layer_norm_epsilon,
    ),
    "llama": lambda c: llama_style(
        vocab_size=c.vocab_size,
        embed_dim=c.hidden_size,
        num_layers=c.num_hidden_layers,
        num_heads=c.num_attention_heads,
        num_kv_heads=c.num_key_value_heads,
        hidden_dim=c.intermediate_size,
        norm_eps=c.rms_norm_eps,
    ),
}


@pytest.mark.parametrize("family", PRESETS)
def test_a_preset_takes_the_weights_of_load(family):
    theirs = hf_zoo.model(family)
    loaded = hf.load(theirs)
    preset = Transformer(PRESETS[family](theirs.config)).eval()
    preset.load_state_dict(loaded.state_dict())
    with torch.no_grad():
        a, b = (x(hf_zoo.ids()) for x in (preset, loaded))
    assert_exact(a, b.double())
