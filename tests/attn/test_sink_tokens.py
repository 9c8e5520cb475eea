"""A window that keeps the first tokens, too: attention sinks."""

import pytest
import torch

import attn
from attn.cache import SlidingCache
from tests.attn.cases import assert_exact
from tests.attn.test_cache import (
    WINDOW,
    K,
    N,
    Q,
    V,
    every_chunking,
    in_chunks,
    pieces,
)
from tests.attn.test_decoding import IDS, model_of

every_number = pytest.mark.parametrize("sinks", (0, 1, 2, 5, N + 1))


def seen(i, sinks):
    """The positions that a query at position i sees."""
    near = {*range(max(i - WINDOW + 1, 0), i + 1)}
    return sorted(near | {*range(min(sinks, i + 1))})


@every_chunking
@every_number
def test_attention_over_sinks_in_chunks_equals_its_mask_at_once(sinks, chunks):
    cache = SlidingCache(WINDOW, sinks)
    dense = cache.mask.dense(N)[0, 0]
    assert [x.nonzero().flatten().tolist() for x in dense] == [
        seen(i, sinks) for i in range(N)
    ]
    whole = attn.grouped_attention(Q, K, V, cache.mask)
    out = in_chunks(cache, chunks, Q, K, V, attn_mask=cache.mask)
    assert_exact(out, whole)


@every_chunking
@every_number
def test_sinks_and_window_keep_their_positions_and_the_rest_is_dropped(
    sinks, chunks
):
    cache, end = SlidingCache(WINDOW, sinks), 0
    for new_key, new_value in pieces(chunks, K, V):
        start, end = end, end + new_key.shape[2]
        view = cache.update(new_key, new_value)
        at = cache.key_positions(view)
        assert torch.equal(view.key, K[:, :, at])
        assert torch.equal(view.value, V[:, :, at])
        assert at[view.q_offset :].tolist() == list(range(start, end))
        stored = min(end, sinks + WINDOW - 1)
        assert cache.key.shape[2] == stored
        assert cache.first_position == (0 if sinks else end - stored)
    if stored < N:
        with pytest.raises(ValueError, match="has forgotten the tokens bef"):
            cache.crop(N - 1)


@pytest.mark.parametrize("name", ("RoPE", "ALiBi"))
@torch.no_grad()
def test_a_model_with_sink_caches_equals_its_mask_on_a_padded_text(name):
    model, ids = model_of(name), IDS
    kept = [SlidingCache(WINDOW, 2) for _ in model.blocks]
    real = torch.ones_like(ids)
    real[1, :1] = 0  # one of its two sinks
    at = attn.position_ids(real)
    options = {"attn_mask": kept[0].mask}
    whole = model(ids, attention_mask=real, positions=at, **options)
    parts, done = [], 0
    for part in ids.split([3, 1, 4, 1, 1], 1):
        end = done + part.shape[1]
        options["attention_mask"] = real[:, :end]
        options["positions"] = at[:, done:end]
        parts.append(model(part, caches=kept, **options))
        done = end
    error = (torch.cat(parts, 1) - whole).abs()[real.bool()]
    assert error.max() < 1e-4
