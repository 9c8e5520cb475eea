"""A whole model with caches, token by token, equals one run without."""

from __future__ import annotations

import functools

import pytest
import torch

import attn
from attn.nn import llama_style
from tests.attn.graphs import in_one_graph

V, E, H, HKV, D, N = 29, 24, 4, 2, 6, 10
WINDOW = 4


def build(**fields):
    sizes = {"vocab_size": V, "embed_dim": E, "num_layers": 2}
    heads = {"num_heads": H, "num_kv_heads": HKV}
    return attn.Transformer(llama_style(**sizes, **heads, **fields))


def llama():
    return build(hidden_dim=32)


def alibi():
    return build(positions="alibi")


def learned():
    return build(positions="learned", max_positions=N)


def windowed():
    return build(hidden_dim=32, window=(WINDOW - 1, 0))


MODELS = {"RoPE": llama, "ALiBi": alibi, "learned": learned}
MODELS["window"] = windowed
every_model = pytest.mark.parametrize("name", MODELS)
every_chunking = pytest.mark.parametrize(
    "chunks", ([1] * N, [4, 3, 3], [6, 1, 1, 1, 1], [N]), ids=str
)


def caches(kind, batch, capacity=N):
    if kind == "sliding":
        return [attn.SlidingCache(WINDOW) for _ in range(2)]
    if kind == "dynamic":
        return [attn.DynamicCache() for _ in range(2)]
    if kind in ("static", "transposed"):
        layout = {"transposed_keys": kind == "transposed"}
        sizes = (batch, HKV, capacity, D)
        return [attn.StaticCache(*sizes, **layout) for _ in range(2)]
    pools = [attn.PagePool(12, 3, HKV, D) for _ in range(2)]
    return [attn.PagedCache(pool, batch) for pool in pools]


def kinds(name):
    every = ["dynamic", "static", "transposed", "paged"]
    return every + ["sliding"] * (name == "window")


@functools.cache
def model_and_ids(name):
    torch.manual_seed(0)
    model = MODELS[name]().eval()
    for x in model.parameters():
        if x.dim() > 1:
            torch.nn.init.normal_(x, std=0.2)
    return model, torch.randint(V, (2, N))


@pytest.mark.grid
@every_chunking
@every_model
@torch.no_grad()
def test_a_model_with_caches_in_chunks_equals_one_run_without(name, chunks):
    model, ids = model_and_ids(name)
    whole = model(ids)
    for kind in kinds(name):
        kept = caches(kind, 2)
        parts = [model(part, caches=kept) for part in ids.split(chunks, 1)]
        out = torch.cat(parts, 1)
        assert (out - whole).abs().max() < 1e-4, kind


@every_chunking
@every_model
@torch.no_grad()
def test_left_padding_does_not_change_the_logits_of_cached_chunks(
    name, chunks
):
    model, ids = model_and_ids(name)
    mask = torch.ones(2, N, dtype=torch.long)
    mask[1, :3] = 0
    at = attn.position_ids(mask)
    alone = model(ids[1:, 3:])
    for kind in kinds(name):
        kept, parts, done = caches(kind, 2), [], 0
        for part in ids.split(chunks, 1):
            end = done + part.shape[1]
            parts.append(
                model(
                    part,
                    caches=kept,
                    attention_mask=mask[:, :end],
                    positions=at[:, done:end],
                )
            )
            done = end
        out = torch.cat(parts, 1)
        assert (out[:1] - model(ids[:1])).abs().max() < 1e-4, kind
        assert (out[1:, 3:] - alone).abs().max() < 1e-4, kind


@pytest.mark.parametrize(
    ("name", "kind"),
    [("RoPE", "static")]
    + [
        pytest.param(name, kind, marks=pytest.mark.exhaustive)
        for name in MODELS
        for kind in ("static", "transposed")
    ][1:],
)
@torch.no_grad()
def test_compiled_decode_needs_two_graphs_for_any_number_of_steps(name, kind):
    """Prefill and one step, with padding on the left, and nothing else."""
    model, ids = model_and_ids(name)
    mask = torch.ones(2, N + 3, dtype=torch.long)
    mask[1, :3] = 0
    at = attn.position_ids(mask)
    whole = model(ids, attention_mask=mask[:, :N], positions=at[:, :N])
    step, counter = in_one_graph(model)
    for _ in range(2):  # another text needs no other graph
        kept = caches(kind, 2, N + 3)
        parts, done = [], 0
        for part in ids[:, :-1].split([3] + [1] * (N - 4), 1):
            end = done + part.shape[1]
            here = {"attention_mask": mask, "positions": at[:, done:end]}
            parts.append(step(part, caches=kept, **here))
            done = end
        here = {"attention_mask": mask[:, :N], "positions": at[:, done:N]}
        parts.append(model(ids[:, -1:], caches=kept, **here))  # and without
        error = (torch.cat(parts, 1) - whole).abs()[mask[:, :N].bool()]
        assert error.max() < 1e-4
        assert [x.seq_len for x in kept] == [N, N]
    assert counter.frame_count == 2


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
    (kept,) = caches("static", 2)[:1]
    step, _ = in_one_graph(layer)
    step(x[:, :3], cache=kept)
    out = step(x[:, 3:], cache=kept)
    assert (out - layer(x)[:, 3:]).abs().max() < 1e-6


def test_calls_that_a_cache_cannot_serve_are_refused():
    model, ids = model_and_ids("RoPE")
    layer, x = model.blocks[0].attention, torch.zeros(2, 3, E)
    cache = attn.DynamicCache()
    with pytest.raises(ValueError, match="must be self-attention"):
        layer(x, torch.zeros(2, 5, E), cache=cache)
    with pytest.raises(
        ValueError, match="q_offset must be None with a cache.*; got 2"
    ):
        layer(x, q_offset=2, cache=cache)
    with pytest.raises(
        ValueError, match="caches must have one entry .*, 2; got 1"
    ):
        model(ids, caches=[cache])
    with pytest.raises(TypeError, match="caches must be .*; got DynamicC"):
        model(ids, caches=cache)
    for kind in ("dynamic", "sliding", "static"):
        with pytest.raises(ValueError, match="caches must be different obj"):
            model(ids, caches=caches(kind, 2)[:1] * 2)
    used = attn.DynamicCache()
    used.update(torch.zeros(2, HKV, 3, D), torch.zeros(2, HKV, 3, D))
    with pytest.raises(ValueError, match="the same tokens; got 0 and 3 of"):
        model(ids, caches=[cache, used])
    with pytest.raises(
        ValueError, match=r"attention_mask must .* = \(2, 10\); got \(2, 3\)"
    ):
        model(ids, caches=caches("dynamic", 2), attention_mask=ids[:, :3] > 0)
    padding = torch.zeros(2, 5, dtype=torch.bool)
    with pytest.raises(
        ValueError, match="key_padding_mask must cover .* cache, 3; got 5"
    ):
        layer(x, cache=cache, key_padding_mask=padding)
    with pytest.raises(ValueError, match="cache, 3 or 10; got 5"):
        layer(x, cache=caches("static", 2)[0], key_padding_mask=padding)
    assert cache.seq_len == 0
