"""Inputs and tables for the tests of RoPE."""

import functools

import torch

import attn
from tests.attn import cases

randn = functools.partial(cases.randn, dtype=torch.float32)


def tables(positions, dim, interleaved=False, base=10000.0):
    frequencies = attn.rope_frequencies(dim, base)
    return attn.rope_tables(positions, frequencies, interleaved=interleaved)
