"""Small models of every kind, with random weights."""

import pytest
import torch

from attn.nn import Transformer, TransformerConfig, llama_style
from tests.attn.cases import randn

V, E, H, N, L = 11, 12, 3, 2, 6


@torch.no_grad()
def randomised(module, seed=0):
    for i, x in enumerate(module.parameters()):
        noise = randn(*x.shape, seed=seed + i)
        x.copy_(noise / x.shape[-1] ** 0.5 + 0.3 * (x.dim() == 1))
    return module


def ids(batch=2, length=L, seed=0):
    g = torch.Generator().manual_seed(seed)
    return torch.randint(V, (batch, length), generator=g)


def count(*modules):
    return sum(x.numel() for m in modules for x in m.parameters())


MODELS = {
    "gpt": {"positions": "learned", "max_positions": 16},
    "sinusoidal": {"positions": "sinusoidal"},
    "rope": {"positions": "rope"},
    "alibi": {"positions": "alibi"},
    "none": {"positions": "none"},
    "parallel": {"positions": "rope", "norm_order": "parallel"},
    "sandwich": {"positions": "rope", "norm_order": "sandwich"},
    "post": {
        "positions": "learned",
        "max_positions": 16,
        "norm_order": "post",
        "embed_norm": True,
    },
}
SIZES = {"vocab_size": V, "embed_dim": E, "num_layers": N, "num_heads": H}


def new(name, **options):
    fields = {**SIZES, "is_causal": True, **MODELS[name], **options}
    return Transformer(TransformerConfig(**fields))


def model(name, **options):
    return randomised(new(name, **options).double()).eval()


def small_llama(**options):
    fields = {"num_heads": 4, "num_kv_heads": 2, "embed_dim": 24}
    return Transformer(llama_style(**{**SIZES, **fields, **options}))


EVERY = pytest.mark.parametrize("name", MODELS)


@torch.no_grad()
def vary(module):
    """Let a model's greedy text not settle on one token."""
    for path, x in module.named_parameters():
        if x.dim() == 1:
            x.fill_(path.endswith("weight"))
        elif "proj" in path:
            x.mul_(2.5)
    return module


def varied(name, **options):
    return vary(model(name, **options))
