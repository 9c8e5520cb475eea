"""Inputs and tables for the tests of RoPE."""

import torch

import attn


def randn(*shape, dtype=torch.float32, seed=0):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=g, dtype=torch.float64).to(dtype)


def tables(positions, dim, interleaved=False, base=10000.0):
    frequencies = attn.rope_frequencies(dim, base)
    return attn.rope_tables(positions, frequencies, interleaved=interleaved)
