"""Inputs and tables for the tests of RoPE."""

import attn
from tests.attn.cases import randn32 as randn

__all__ = ["randn", "tables"]


def tables(positions, dim, interleaved=False, base=10000.0):
    frequencies = attn.rope_frequencies(dim, base)
    return attn.rope_tables(positions, frequencies, interleaved=interleaved)
