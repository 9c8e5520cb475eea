"""Models that are known: their sizes, their first loss, that they learn."""

import math

import pytest
import torch

import attn
from tests.attn.models import new, small_llama


def test_all_blocks_of_llama_style_share_one_rope():
    """test_hf_presets has the rest of its parts, in the weights of a Llama."""
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
