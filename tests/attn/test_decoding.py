"""A whole model with caches, token by token, equals one run without."""

import pytest
import torch

import attn
from tests.attn.graphs import in_one_graph
from tests.attn.refusals import type_error, value_error
from tests.attn.test_ragged_prompts import (
    HKV,
    D,
    E,
    H,
    V,
    caches,
    kinds,
    model_of,
)

N = 10
IDS = torch.randint(V, (2, N), generator=torch.Generator().manual_seed(0))
every_chunking = pytest.mark.parametrize(
    "chunks", ([1] * N, [4, 3, 3], [6, 1, 1, 1, 1], [N]), ids=str
)


@every_chunking
@pytest.mark.parametrize("name", ("RoPE", "ALiBi", "learned", "window"))
@pytest.mark.parametrize("padding", (0, 3))
@torch.no_grad()
def test_a_model_with_caches_in_chunks_equals_one_run(padding, name, chunks):
    model, ids = model_of(name), IDS
    mask = torch.ones(2, N, dtype=torch.long)
    mask[1, :padding] = 0
    at = attn.position_ids(mask)
    alone = model(ids[1:, padding:])
    for kind in kinds(name):
        kept, parts, done = caches(kind, 2), [], 0
        for part in ids.split(chunks, 1):
            end = done + part.shape[1]
            places = {
                "attention_mask": mask[:, :end],
                "positions": at[:, done:end],
            }
            said = places if padding else {}
            parts.append(model(part, caches=kept, **said))
            done = end
        out = torch.cat(parts, 1)
        assert (out[:1] - model(ids[:1])).abs().max() < 1e-4, kind
        assert (out[1:, padding:] - alone).abs().max() < 1e-4, kind


@torch.no_grad()
def test_a_dynamic_cache_needs_one_more_graph():
    """One for the first step, one for any length."""
    torch.manual_seed(0)
    layer = attn.MultiHeadAttention(E, H, HKV, D, rope=attn.Rope(D))
    x, kept = torch.randn(2, 8, E), attn.DynamicCache()
    step, counter = in_one_graph(layer)
    parts = [step(y, cache=kept) for y in x.split([3] + [1] * 5, 1)]
    whole = layer(x, is_causal=True)
    assert (torch.cat(parts, 1) - whole)[:, 3:].abs().max() < 1e-6
    assert counter.frame_count == 3


@torch.no_grad()
def test_unwritten_cache_slots_are_masked_without_a_causal_mask():
    torch.manual_seed(0)
    layer = attn.MultiHeadAttention(E, H, HKV, D)
    x = torch.randn(2, 4, E)
    kept = caches("static", 2)[0]
    step, _ = in_one_graph(layer)
    step(x[:, :3], cache=kept)
    out = step(x[:, 3:], cache=kept)
    assert (out - layer(x)[:, 3:]).abs().max() < 1e-6


def test_calls_that_a_cache_cannot_serve_are_refused():
    model, ids = model_of("RoPE"), IDS
    layer, x = model.blocks[0].attention, torch.zeros(2, 3, E)
    cache = attn.DynamicCache()
    with value_error("must be self-attention"):
        layer(x, torch.zeros(2, 5, E), cache=cache)
    with value_error("q_offset must be None with a cache.*; got 2"):
        layer(x, q_offset=2, cache=cache)
    with value_error("caches must have one entry .*, 2; got 1"):
        model(ids, caches=[cache])
    with type_error("caches must be .*; got DynamicC"):
        model(ids, caches=cache)
    for kind in ("dynamic", "sliding", "static"):
        with value_error("caches must be different obj"):
            model(ids, caches=caches(kind, 2)[:1] * 2)
    used = attn.DynamicCache()
    used.update(torch.zeros(2, HKV, 3, D), torch.zeros(2, HKV, 3, D))
    with value_error("the same tokens; got 0 and 3 of"):
        model(ids, caches=[cache, used])
    with value_error(r"attention_mask must .* = \(2, 10\); got \(2, 3\)"):
        model(ids, caches=caches("dynamic", 2), attention_mask=ids[:, :3] > 0)
    padding = torch.zeros(2, 5, dtype=torch.bool)
    with value_error("key_padding_mask must cover .* cache, 3; got 5"):
        layer(x, cache=cache, key_padding_mask=padding)
    with value_error("cache, 3 or 10; got 5"):
        layer(x, cache=caches("static", 2, N)[0], key_padding_mask=padding)
    assert cache.seq_len == 0
