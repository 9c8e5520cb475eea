"""Our caches beside those of transformers: keys, values and masks."""

from __future__ import annotations

import pytest
import torch

import attn
from tests.attn.cases import assert_exact, randn
from tests.attn.test_cache import (
    DV,
    HKV,
    SLIDING,
    WINDOW,
    B,
    D,
    H,
    pieces,
)

cache_utils = pytest.importorskip("transformers.cache_utils")
masks = pytest.importorskip("transformers.masking_utils")


CAPACITY = {"max_cache_len": 20}
IN_WINDOW = {"sliding_window": WINDOW}
LAYERS = {
    "dynamic": [(cache_utils.DynamicLayer, {})],
    "static": [(cache_utils.StaticLayer, CAPACITY)],
    "transposed": [(cache_utils.StaticLayer, CAPACITY)],
    "paged": [(cache_utils.DynamicLayer, {})],
    "sliding": [
        (cache_utils.DynamicSlidingWindowLayer, IN_WINDOW),
        (cache_utils.StaticSlidingWindowLayer, CAPACITY | IN_WINDOW),
    ],
}


@pytest.mark.parametrize("chunks", ([5, 1, 3, 1, 3], [1, 1, 6, 2, 3]), ids=str)
@pytest.mark.parametrize("kind", LAYERS)
def test_attention_over_uneven_chunks_equals_that_of_transformers(
    kind, chunks
):
    """With their masks over their keys, and padding on the left."""
    size = sum(chunks)
    q = randn(B, H, size, D, seed=0)
    k, v = (randn(B, HKV, size, x, seed=x) for x in (D, DV))
    real = torch.arange(size) >= torch.tensor([[0], [3]])
    near, function = {"is_causal": True}, masks.causal_mask_function
    if kind == "sliding":
        near = {"window": (WINDOW - 1, 0)}
        function = masks.sliding_window_causal_mask_function(WINDOW)
    for layer, arguments in LAYERS[kind]:
        other = layer(**arguments)
        ours = SLIDING[kind]()
        for q_new, k_new, v_new in pieces(chunks, q, k, v):
            length = q_new.shape[2]
            done = int(other.get_seq_length())
            kv_length, kv_offset = other.get_mask_sizes(length)
            mask = masks.sdpa_mask(
                batch_size=B,
                q_length=length,
                kv_length=kv_length,
                q_offset=done,
                kv_offset=kv_offset,
                mask_function=function,
                attention_mask=real[:, : done + length],
                allow_is_causal_skip=False,
            )
            keys, values = other.update(k_new, v_new)
            want = torch.nn.functional.scaled_dot_product_attention(
                q_new, keys, values, mask, enable_gqa=True
            )
            view = ours.update(k_new, v_new)
            stored = attn.padding(real[:, ours.key_positions(view)])
            out = attn.attention(
                q_new,
                view.key,
                view.value,
                stored,
                enable_gqa=True,
                q_offset=view.q_offset,
                **near,
            )
            assert_exact(out, want)
