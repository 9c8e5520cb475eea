"""Models that are known: their parts, their sizes, and their first loss."""

import math

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

import attn
from attn import hf
from attn.nn import Transformer, gpt2_small, llama_style
from tests.attn import hf_zoo
from tests.attn.cases import assert_exact
from tests.attn.models import count, new, small_llama


def test_all_blocks_of_llama_style_share_one_rope():
    """The rest of its parts are in the weights of a Llama, below."""
    kinds = [type(m) for m in small_llama().modules()]
    assert kinds.count(attn.Rope) == 1


@pytest.mark.parametrize("vocab", (64, 1009))
@pytest.mark.parametrize("depth", (1, 6))
@pytest.mark.parametrize("kind", ("gpt", "llama"))
def test_the_loss_of_a_new_model_is_ln_v(vocab, depth, kind):
    """Tied or not; the source system's tied head began at 466, not 10.8."""
    torch.manual_seed(0)
    sizes = {"vocab_size": vocab, "embed_dim": 96, "num_layers": depth}
    sizes["num_heads"] = 4
    if kind == "gpt":
        built = new("gpt", **sizes, max_positions=64)
    else:
        built = small_llama(**sizes, tied=True)
    x = torch.randint(vocab, (16, 64))
    with torch.no_grad():
        loss = float(built.loss(x))
    # Logits of variance E * 0.02 ** 2 add half of it.
    assert abs(loss - math.log(vocab)) < 0.02 * math.log(vocab)


def test_projections_into_the_residual_stream_are_scaled_by_depth():
    torch.manual_seed(0)
    built = new("gpt", vocab_size=64, embed_dim=64, num_layers=8, num_heads=4)
    block = built.blocks[3]
    for weight, std in (
        (block.attention.q_proj.weight, 0.02),
        (block.feed_forward.up_proj.weight, 0.02),
        (block.attention.out_proj.weight, 0.02 / 4),
        (block.feed_forward.down_proj.weight, 0.02 / 4),
        (built.token_embedding.weight, 0.02),
    ):
        assert weight.std().item() == pytest.approx(std, rel=0.1)
    assert not block.attention.out_proj.bias.any()


# --- the presets that attn.nn builds take the weights of hf.load -------------


def names_and_shapes(module):
    return {name: x.shape for name, x in module.state_dict().items()}


def test_gpt2_small_equals_the_model_loaded_from_gpt2s_configuration():
    with torch.device("meta"):
        theirs = GPT2LMHeadModel._from_config(GPT2Config(n_layer=1))
        packed = Transformer(gpt2_small(dropout=0.1))
    assert count(packed) == 124_439_808
    ours, of_small = hf.load(theirs), names_and_shapes(packed)
    for name, shape in names_and_shapes(ours).items():
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
