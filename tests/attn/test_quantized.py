"""A cache in 8 bits: how far off, how small, and the rest is unchanged."""

import pytest
import torch

import attn
from tests.attn.test_cache import DV, HKV, B, D, K, N, Q, V, every_chunking

GROUP = 4
FULL = N // GROUP * GROUP  # tokens in groups


def read(chunks=(N,), group=GROUP, key=None):
    """A cache of the text, and what it returns afterwards."""
    k = K if key is None else key
    cache = attn.QuantizedCache(group)
    for new in zip(k.split(chunks, 2), V.split(chunks, 2), strict=True):
        cache.update(*new)
    return cache, cache.update(K[:, :, :0], V[:, :, :0])


def groups(x):
    return x[:, :, :FULL].unflatten(2, (-1, GROUP))


def half_a_step(x, axis):
    least, most = groups(x).aminmax(dim=axis, keepdim=True)
    return (most - least) / 255 / 2 * 1.0001


def test_errors_are_at_most_half_a_step_of_a_keys_channel_or_a_values_token():
    _, (key, value, _) = read()
    for x, exact, axis in ((key, K, -2), (value, V, -1)):
        error = groups(x - exact).abs()
        assert (error <= half_a_step(exact, axis)).all()
        assert (error > 0).any()
        assert torch.equal(x[:, :, FULL:], exact[:, :, FULL:]), "the newest"


def test_an_outlier_channel_does_not_affect_other_channels():
    large = K.clone()
    large[..., 2] = 1000 + 100 * K[..., 2]
    others = [i for i in range(D) if i != 2]
    plain, outlier = (read(key=x)[1].key for x in (K, large))
    assert torch.equal(outlier[..., others], plain[..., others])
    assert (outlier[..., 2] / large[..., 2] - 1).abs().max() < 1e-3


def test_equal_elements_are_quantized_exactly():
    k = torch.full((B, HKV, N, D), 0.3).double()
    assert (read(key=k)[1].key - k).abs().max() < 1e-7


@every_chunking
def test_quantization_does_not_depend_on_the_chunks(chunks):
    for x, y in zip(read(tuple(chunks))[1], read()[1], strict=True):
        assert torch.equal(torch.as_tensor(x), torch.as_tensor(y))


def test_prefill_returns_the_unquantized_keys_and_values():
    view = attn.QuantizedCache(GROUP).update(K, V)
    assert torch.equal(view.key, K) and torch.equal(view.value, V)


def test_attention_over_quantized_keys_is_within_one_percent():
    _, (key, value, _) = read()
    out, want = (
        attn.attention(Q, *kept, is_causal=True, enable_gqa=True)
        for kept in ((key, value), (K, V))
    )
    assert 0 < (out - want).norm() / want.norm() < 0.01


def test_a_quantized_cache_takes_little_more_than_a_byte_an_element():
    k = torch.randn(1, 2, 256, 64)
    cache, exact = attn.QuantizedCache(), attn.DynamicCache()
    cache.update(k, k), exact.update(k, k)
    codes = 2 * k.numel()
    steps = 2 * 4 * (k.numel() // 64 + k[..., 0].numel())
    assert cache.nbytes == codes + steps
    assert cache.nbytes < 0.29 * exact.nbytes


def test_a_quantized_cache_forks_crops_and_reorders():
    cache, before = read()
    fork = cache.fork()
    fork.reorder(torch.tensor([1, 1, 0]))
    fork.crop(6)
    k, v = K[[1, 1, 0]], V[[1, 1, 0]]
    view = fork.update(k[:, :, 6:8], v[:, :, 6:8])
    assert (view.q_offset, fork.seq_len) == (6, 8)
    assert torch.equal(view.key[:, :, :6], before.key[[1, 1, 0], :, :6])
    assert torch.equal(view.value[:, :, :6], before.value[[1, 1, 0], :, :6])
    assert torch.equal(view.key[:, :, 6:], k[:, :, 6:8])
    same = cache.update(k[:B, :, :0], v[:B, :, :0])
    assert torch.equal(same.key, before.key), "the origin is unchanged"
    cache.crop(FULL + 1)
    assert cache.update(k[:B, :, :0], v[:B, :, :0]).key.shape[2] == FULL + 1


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16), ids=str)
def test_a_quantized_cache_returns_the_dtype_of_its_inputs(dtype):
    k, v = K.to(dtype), V.to(dtype)
    cache = attn.QuantizedCache(GROUP)
    cache.update(k, v)
    key, value, _ = cache.update(k, v)
    assert key.dtype == value.dtype == dtype
    assert value.shape == (B, HKV, 2 * N, DV)
    with pytest.raises(TypeError, match="must have dtype and device"):
        cache.update(k.double(), v.double())
