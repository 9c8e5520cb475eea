"""Token by token is the same as all at once, whatever keeps the keys."""

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import attn
from attn.cache import DynamicCache, QuantizedCache, SlidingCache, StaticCache
from attn.profiling import peak_bytes
from tests.attn.cases import assert_exact, randn
from tests.attn.graphs import in_one_graph
from tests.attn.refusals import type_error, value_error
from tests.attn.test_decoding import IDS, model_of

B, H, HKV, N, D, DV = 2, 4, 2, 11, 8, 6
WINDOW = 4
CHUNKS = ([1] * N, [N], [4, 3, 4], [5, 1, 1, 1, 3], [1, 9, 1], [0, 6, 0, 5])
NAN = float("nan")


def static(batch=B, capacity=N + 2, dtype=torch.float64, **layout):
    cache = StaticCache(batch, HKV, capacity, D, DV, dtype=dtype, **layout)
    cache.key.fill_(NAN), cache.value.fill_(NAN)  # poison
    return cache


def paged(batch=B, page_size=3, pages=20, dtype=torch.float64):
    pool = attn.PagePool(pages, page_size, HKV, D, DV, dtype=dtype)
    pool.key.fill_(NAN), pool.value.fill_(NAN)
    # Pages come in no order, as after a long day.
    g = torch.Generator().manual_seed(1)
    pool.free_pages = torch.randperm(pages, generator=g).tolist()
    return attn.PagedCache(pool, batch)


def transposed():
    return static(transposed_keys=True)


KINDS = {
    "dynamic": DynamicCache,
    "static": static,
    "transposed": transposed,
    "paged": paged,
    "quantized": QuantizedCache,  # exact until a group is full
}
SLIDING = KINDS | {"sliding": lambda: SlidingCache(WINDOW)}
every_cache = pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
every_chunking = pytest.mark.parametrize("chunks", CHUNKS, ids=str)


#: A text's query, key and value, which no test writes to.
Q, K, V = (
    randn(B, H, N, D),
    randn(B, HKV, N, D, seed=1),
    randn(B, HKV, N, DV, seed=2),
)


def pieces(chunks, *tensors):
    """Split tensors along their tokens, together."""
    return zip(*(x.split(chunks, 2) for x in tensors), strict=True)


def in_chunks(cache, chunks, q, k, v, **options):
    """Feed a cache chunk by chunk; the outputs, put together."""
    outs = []
    for query, key, value in pieces(chunks, q, k, v):
        key, value, at = cache.update(key, value)
        out = attn.grouped_attention(query, key, value, q_offset=at, **options)
        outs.append(out)
    return torch.cat(outs, 2)


@every_chunking
@pytest.mark.parametrize("make", SLIDING.values(), ids=SLIDING)
def test_attention_over_a_cache_in_chunks_equals_that_at_once(make, chunks):
    for near in ({"window": (WINDOW - 1, 0)}, {"is_causal": True}):
        if make in KINDS.values() or "window" in near:
            whole = attn.scaled_dot_product_attention(
                Q, K, V, enable_gqa=True, q_offset=0, **near
            )
            assert_exact(in_chunks(make(), chunks, Q, K, V, **near), whole)


@pytest.mark.parametrize("make", SLIDING.values(), ids=SLIDING)
def test_a_fork_and_its_origin_do_not_share_new_tokens(make):
    cache = make()
    cache.update(K[:, :, :5], V[:, :, :5])
    fork = cache.fork()
    mine = cache.update(K[:, :, 5:6], V[:, :, 5:6])
    kept = mine.key.clone()
    other = fork.update(K[:, :, 6:8] + 9, V[:, :, 6:8])
    again = cache.update(K[:, :, 6:7], V[:, :, 6:7])
    assert torch.equal(mine.key, kept)
    assert torch.equal(again.key[:, :, -1], K[:, :, 6])
    assert torch.equal(again.key[:, :, -2], K[:, :, 5])
    assert torch.equal(other.key[:, :, -2:], K[:, :, 6:8] + 9)
    assert torch.equal(other.key[:, :, -3], K[:, :, 4])
    assert torch.as_tensor(fork.seq_len == cache.seq_len).all()


@pytest.mark.parametrize("make", SLIDING.values(), ids=SLIDING)
def test_nbytes_counts_the_stored_elements(make):
    cache = make()
    cache.update(K[:, :, :5], V[:, :, :5])
    tokens = {StaticCache: N + 2, attn.PagedCache: 6, SlidingCache: WINDOW - 1}
    stored = tokens.get(type(cache), 5)  # whole memory, pages, a window
    keys = stored if make is not transposed else 16  # a line of the CPU's
    assert cache.nbytes == 8 * B * HKV * (keys * D + stored * DV)


@every_cache
def test_a_cropped_cache_continues_as_if_the_rest_was_never_read(make):
    cache = make()
    cache.update(K[:, :, :4], V[:, :, :4])
    wrong_guess = randn(B, HKV, 3, D, seed=9)
    cache.update(wrong_guess, randn(B, HKV, 3, DV, seed=9))
    cache.crop(4)
    assert cache.positions(2).flatten().tolist()[:2] == [4, 5]
    key, value, q_offset = cache.update(K[:, :, 4:], V[:, :, 4:])
    out = attn.grouped_attention(
        Q[:, :, 4:], key, value, is_causal=True, q_offset=q_offset
    )
    whole = attn.grouped_attention(Q, K, V, is_causal=True)
    assert_exact(out, whole[:, :, 4:])


@pytest.mark.parametrize("make", SLIDING.values(), ids=SLIDING)
@pytest.mark.parametrize("rows", ([1, 0], [1, 1], [0, 1, 1, 0], [1]), ids=str)
def test_reordered_rows_continue_from_the_keys_of_their_source_row(make, rows):
    cache = make()
    cache.update(K[:, :, :5], V[:, :, :5])
    cache.reorder(torch.tensor(rows))
    new_k = randn(len(rows), HKV, 1, D, seed=5)
    new_v = randn(len(rows), HKV, 1, DV, seed=6)
    key, value, _ = cache.update(new_k, new_v)
    want = torch.cat([K[rows, :, :5], new_k], 2)
    assert torch.equal(key, want[:, :, -key.shape[2] :])
    want = torch.cat([V[rows, :, :5], new_v], 2)
    assert torch.equal(value, want[:, :, -value.shape[2] :])


@pytest.mark.parametrize("make", SLIDING.values(), ids=SLIDING)
def test_positions_continue_and_first_position_is_that_of_the_first_key(make):
    cache = make()
    assert cache.positions(3).reshape(-1, 3)[0].tolist() == [0, 1, 2]
    cache.update(K[:, :, :7], V[:, :, :7])
    assert cache.positions(2).reshape(-1, 2)[0].tolist() == [7, 8]
    first = cache.first_position
    assert first == (4 if isinstance(cache, SlidingCache) else 0)
    view = cache.update(K[:, :, 7:8], V[:, :, 7:8])
    assert torch.equal(view.key[0, :, 0], K[0, :, first])


def test_a_sliding_cache_keeps_no_more_than_its_window():
    cache = SlidingCache(WINDOW)
    for i in range(N):
        view = cache.update(K[:, :, i : i + 1], V[:, :, i : i + 1])
        assert view.key.shape[2] == min(i + 1, WINDOW)
        assert cache.key.shape[2] == min(i + 1, WINDOW - 1)
    cache.crop(N)  # nothing to forget
    with value_error("forgotten the tokens before"):
        cache.crop(N - 1)


def test_a_static_cache_has_one_shape_in_a_compiled_graph():
    cache = StaticCache(B, HKV, 6, D, DV, dtype=torch.float64)
    assert not cache.key.any() and not cache.value.any(), "0 * NaN is NaN"
    update, _ = in_one_graph(
        lambda k, v: (*cache.update(k, v), cache.valid(), cache.seq_len)
    )
    update(K[:, :, :2], V[:, :, :2])
    key, value, q_offset, valid, seq_len = update(K[:, :, 2:4], V[:, :, 2:4])
    assert (int(q_offset), int(seq_len), cache.seq_len) == (2, 4, 4)
    assert valid.tolist() == [[True] * 4 + [False] * 2]
    assert torch.equal(key[:, :, :4], K[:, :, :4]) and key.shape[2] == 6
    assert torch.equal(value[:, :, :4], V[:, :, :4])
    fork = cache.fork()
    cache.crop(1)  # from Python in between; the fork has a length of its own
    update(K[:, :, 1:3], V[:, :, 1:3])
    assert (cache.seq_len, fork.seq_len) == (3, 4)
    view = cache.update(K[:, :, 3:4], V[:, :, 3:4])
    assert torch.equal(view.key, K[:, :, :4])
    with pytest.raises(IndexError, match="index"):
        update(K[:, :, :3], V[:, :, :3])


@torch.no_grad()
@pytest.mark.parametrize("heads", (H, HKV), ids=("grouped", "each its own"))
def test_transposed_keys_are_decoded_from_without_a_copy(heads):
    size, width = 512, 64
    key, value = torch.randn(2, 1, HKV, size, width)
    cache = StaticCache(1, HKV, size, width, transposed_keys=True)
    cache.update(key[:, :, :-1], value[:, :, :-1])
    cache = cache.fork()
    cache.reorder(torch.tensor([0]))
    stored, value, q_offset = cache.update(key[:, :, -1:], value[:, :, -1:])
    assert torch.equal(stored, key)
    assert stored.stride(2) == 1 < size < stored.stride(3)
    query = torch.randn(1, heads, 1, width)
    options = {"is_causal": True, "enable_gqa": True, "q_offset": q_offset}
    out = attn.attention(query, stored, value, **options)
    exact = [x.double() for x in (query, key, value)]
    assert_exact(out, attn.grouped_attention(*exact, **options))
    spent = peak_bytes(lambda: attn.attention(query, stored, value, **options))
    assert spent < key.nbytes / 4
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):  # an error without it
        many = torch.randn(1, heads, size, width)
        attn.attention(many, stored, value, is_causal=True, enable_gqa=True)


@pytest.mark.parametrize("lead", ((), (3,), (2, 3)), ids=str)
def test_transposed_keys_may_have_any_rank(lead):
    q, v = randn(*lead, 2, D), randn(*lead, N, DV)
    k = randn(*lead, D, N).mT
    assert_exact(attn.attention(q, k, v), attn.grouped_attention(q, k, v))


# --- a window that keeps the first tokens, too: attention sinks --------------

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
def test_sinks_and_window_keep_positions_and_the_rest_goes(sinks, chunks):
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


# --- errors ------------------------------------------------------------------


@pytest.mark.parametrize("make", SLIDING.values(), ids=SLIDING)
@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ((B, HKV, 1, D + 1), (B, HKV, 1, DV), "key must have the shape"),
        ((B, HKV, 1, D), (B, HKV, 1, DV + 1), "value must have the shape"),
        ((B, HKV, 2, D), (B, HKV, 1, DV), "equal shapes but for the last"),
        (
            (B + 1, HKV, 1, D),
            (B + 1, HKV, 1, DV),
            "key must have the shape of the cache",
        ),
        ((B, 1, 1, D), (B, 1, 1, DV), "key must have the shape of the cache"),
        ((HKV, 1, D), (HKV, 1, DV), r"must have shape \(B, Hkv, L, D\)"),
    ],
)
def test_keys_that_do_not_fit_are_refused_and_leave_the_cache_unchanged(
    make, key, value, message
):
    cache = make()
    cache.update(K[:, :, :5], V[:, :, :5])
    with pytest.raises(ValueError, match=message):
        cache.update(randn(*key), randn(*value))
    with type_error("of the cache, torch.float64 .*; got torch.float32"):
        cache.update(K[:, :, :1].float(), V[:, :, :1].float())
    with value_error("rows must be 0 to 1; got 0 to 2"):
        cache.reorder(torch.tensor([0, B]))
    with type_error("rows must be integers .*; got torch.float32"):
        cache.reorder(torch.tensor([0.0]))
    with value_error("length must be 0 to 5, .*; got 6"):
        cache.crop(6)
    view = cache.update(K[:, :, 5:6], V[:, :, 5:6])
    assert torch.equal(view.key, K[:, :, 6 - view.key.shape[2] : 6])


def test_a_full_static_cache_refuses_tokens_and_states_its_room():
    cache = static(capacity=6)
    cache.update(K[:, :, :4], V[:, :, :4])
    with value_error("at most 2 tokens, as 4 of 6 .*; got 3"):
        cache.update(K[:, :, :3], V[:, :, :3])
    assert cache.update(K[:, :, 4:6], V[:, :, 4:6]).key.shape[2] == 6


@pytest.mark.parametrize(
    "cache",
    (static(), DynamicCache(), SlidingCache(3), QuantizedCache()),
    ids=lambda x: type(x).__name__,
)
def test_a_cache_refuses_lists_none_and_lengths_that_are_no_integers(cache):
    with type_error("key must be a torch.Tensor; got li"):
        cache.update(K.tolist(), V)
    with type_error("value must be a torch.Tensor; got"):
        cache.update(K, None)
    cache.update(K[:, :, :4], V[:, :, :4])
    for length in (2.5, None, "2"):
        with type_error("length must be an int, at le"):
            cache.crop(length)
    with type_error("rows must be a torch.Tensor; got list"):
        cache.reorder([0])
    assert cache.seq_len == 4


def test_cache_sizes_must_be_integers_of_at_least_their_minimum():
    for name, least, make in (
        ("window", 1, SlidingCache),
        ("num_sink_tokens", 0, lambda size: SlidingCache(3, size)),
        ("group_size", 1, QuantizedCache),
        ("capacity", 0, lambda size: StaticCache(1, 1, size, 4)),
        ("page_size", 1, lambda size: attn.PagePool(4, size, 1, 4)),
    ):
        for size in (-1, 2.5, "3", None, True):
            message = f"{name} must be an int, at least {least}; got {size!r}"
            error = ValueError if size == -1 else TypeError
            with pytest.raises(error, match=message):
                make(size)
    with value_error("length must be an int, .*; got -1"):
        DynamicCache().positions(-1)
