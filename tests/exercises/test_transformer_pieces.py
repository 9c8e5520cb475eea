"""Chapter 9's solutions agree with transformers: logits, sampled tokens."""

import pytest
import torch
from torch import nn

import attn
from attn.positions import convert_pairing
from solutions.ch09_transformer import (
    TransformerBlock,
    map_llama_weights,
    rms_norm,
    sample,
)
from tests.attn import hf_zoo
from tests.attn.test_sampling import theirs as filtered


class Llama(nn.Module):
    """Build the chapter's whole model of the solutions' pieces."""

    def __init__(self, c):
        super().__init__()
        self.c = c
        E, V = c.hidden_size, c.vocab_size
        heads = c.num_attention_heads, c.num_key_value_heads
        self.embedding = nn.Embedding(V, E)
        self.blocks = nn.ModuleList(
            TransformerBlock(E, *heads, c.intermediate_size, c.rms_norm_eps)
            for _ in range(c.num_hidden_layers)
        )
        self.norm = nn.Parameter(torch.ones(E))
        self.head = nn.Linear(E, V, bias=False)

    def forward(self, ids):
        D = self.c.hidden_size // self.c.num_attention_heads
        inv_freq, _ = attn.rope_frequencies(D, base=10_000.0)
        cos, sin = attn.rope_tables(torch.arange(ids.shape[1]), inv_freq)
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x, cos, sin)
        return self.head(rms_norm(x, self.norm, self.c.rms_norm_eps))


@pytest.mark.grid
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("interleaved", [False, True], ids=["half", "pairs"])
@pytest.mark.parametrize("kv_heads", [4, 2, 1])
def test_mapped_weights_give_transformers_logits(kv_heads, interleaved, tied):
    options = {"num_key_value_heads": kv_heads, "tie_word_embeddings": tied}
    theirs, ids = hf_zoo.model("llama", seed=kv_heads, **options), hf_zoo.ids()
    state = dict(theirs.state_dict())
    if tied:
        del state["lm_head.weight"]  # a file of a tied model has none
    if interleaved:
        how = {"to": "interleaved", "dim": 0, "head_dim": 6}
        for name, x in state.items():
            if "q_proj" in name or "k_proj" in name:
                state[name] = convert_pairing(x, **how)
    mine = Llama(theirs.config)
    mine.load_state_dict(map_llama_weights(state, 4, kv_heads, interleaved))
    with torch.no_grad():
        logits = mine(ids), theirs(ids).logits
    torch.testing.assert_close(*logits, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"),
    [(0.7, None, None), (1.0, 3, None), (1.3, None, 0.6), (0.8, 4, 0.75)],
)
def test_tokens_come_as_often_as_from_transformers(temperature, top_k, top_p):
    rng = torch.Generator().manual_seed(0)
    logits = 1.5 * torch.randn(1, 7, generator=rng)
    right = filtered(logits, temperature, top_k, top_p, None)[0].softmax(-1)
    drawn = sample(logits.expand(40_000, -1), temperature, top_k, top_p, rng)
    shares = drawn.bincount(minlength=7) / len(drawn)
    assert torch.equal(shares > 0, right > 0)
    assert (shares - right).abs().max() < 0.02  # eight standard deviations
