"""Everything that promises the whole contract; one list for all tests."""

import functools

import pytest

import attn

# Tiles so small that every case of the tests needs several.
EXACT = {
    "matrix": attn.scaled_dot_product_attention,
    "grouped": attn.grouped_attention,
    "tiled": functools.partial(attn.tiled_attention, block_q=2, block_k=3),
    "auto": attn.attention,  # sdpa, or what beats it
}
every_implementation = pytest.mark.parametrize(
    "implementation", EXACT.values(), ids=EXACT
)
