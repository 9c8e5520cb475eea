"""Sizes that are traced, and numbers of NumPy, are numbers."""

import numpy as np
import torch

import attn
from attn import arguments


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
