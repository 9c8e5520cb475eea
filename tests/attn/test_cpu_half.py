"""16 bits on a CPU: as exact as torch or better, and chosen where it pays."""

import functools

import pytest
import torch

import attn
from attn import api
from attn.backends import cpu_half, cpu_window
from tests.attn import cases
from tests.attn.cases import SIZES, assert_exact, distance, qkv

HALVES = (torch.float16, torch.bfloat16)
BY_DTYPE = pytest.mark.parametrize("dtype", HALVES, ids=str)


randn = functools.partial(cases.randn, dtype=torch.bfloat16)


@pytest.fixture(params=[(1, 1), (1, 2), (2, 2), (9, 9)], ids=str)
def tile(request, monkeypatch):
    """Rows of the batch and key heads at a time: ragged ends too."""

    def cut(call):
        rows, heads = request.param
        return rows, min(heads, call.num_kv_heads)

    monkeypatch.setattr(cpu_half, "_tile", cut)


def masks(call_shape, dtype):
    """Every kind of mask, of every rank that broadcasts to the scores."""
    L, S = call_shape[-2:]
    g = torch.Generator().manual_seed(5)
    some = torch.rand(call_shape, generator=g) > 0.3
    numbers = torch.randn(call_shape, generator=g)
    yield {}
    yield {"is_causal": True, "q_offset": 0}
    yield {"is_causal": True, "q_offset": S - L}
    yield {"window": (3, 1), "q_offset": S - L}
    yield {"attn_mask": some}
    yield {"attn_mask": some[..., :1, :]}
    yield {"attn_mask": some.reshape(-1, S)[:1]}
    yield {"attn_mask": numbers.to(dtype)}
    yield {"attn_mask": numbers[..., :1], "is_causal": True, "q_offset": 0}
    if len(call_shape) > 3:
        yield {"attn_mask": numbers[:, :1]}
        yield {"attn_mask": some[:1]}


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@BY_DTYPE
def test_cpu_half_is_exact_for_every_shape_and_mask(sizes, dtype, tile):
    q, k, v = qkv(sizes, dtype)
    if 0 in (*q.shape, *k.shape, *v.shape):
        with pytest.raises(
            ValueError, match="cpu_half cannot: a tensor is em"
        ):
            api.attention(q, k, v, enable_gqa=True, impl="cpu_half")
        return
    scores, rival = (*q.shape[:-1], k.shape[-2]), attn.grouped_attention
    for kwargs in masks(scores, dtype):
        kwargs = {"enable_gqa": True, "scale": 0.3, **kwargs}
        ours = api.attention(q, k, v, impl="cpu_half", **kwargs)
        assert ours.dtype == dtype
        cases.assert_as_exact(ours, q, k, v, rival=rival, **kwargs)


@BY_DTYPE
def test_gradients_are_closer_to_float64_than_pytorchs(dtype, tile):
    tensors = [
        randn(2, h, 24, 16, seed=h, dtype=dtype).requires_grad_()
        for h in (6, 3, 3)
    ]
    bias = randn(2, 1, 24, 24, seed=9, dtype=dtype).requires_grad_()
    kwargs = {"enable_gqa": True, "is_causal": True}

    def gradients(function, tensors, bias, **options):
        out = function(*tensors, bias, **kwargs, **options)
        seed = torch.linspace(-1, 1, out.numel()).view(out.shape)
        return torch.autograd.grad(out, [*tensors, bias], seed.to(out.dtype))

    wide = [x.detach().double().requires_grad_() for x in (*tensors, bias)]
    exact = gradients(attn.scaled_dot_product_attention, wide[:3], wide[3])
    ours = gradients(api.attention, tensors, bias, impl="cpu_half")
    torchs = gradients(api.attention, tensors, bias, impl="sdpa")
    for mine, theirs, want in zip(ours, torchs, exact, strict=True):
        assert mine.dtype == dtype
        rounding = torch.finfo(dtype).eps * float(want.abs().max())
        assert distance(mine, want) <= distance(theirs, want) + rounding


def test_probabilities_are_not_rounded_to_16_bits():
    """Sums of many small ones: torch keeps 8 bits of each, this all 24."""
    q = randn(1, 2, 64, 32)
    k, v = randn(1, 2, 512, 32, seed=1), randn(1, 2, 512, 32, seed=2)
    exact = attn.scaled_dot_product_attention(*(x.double() for x in (q, k, v)))
    ours = api.attention(q, k, v, impl="cpu_half")
    error = (ours.double() - exact).abs().mean()
    torchs = api.attention(q, k, v, impl="sdpa").double() - exact
    assert error < torchs.abs().mean()
    rounded = exact.bfloat16().double() - exact  # none can be nearer
    assert error <= 1.01 * rounded.abs().mean()


def test_dropout_keeps_the_mean_in_16_bits():
    torch.manual_seed(0)
    q, k = randn(2, 4, 8, 16), randn(2, 4, 64, 16, seed=1)
    ones = torch.ones(2, 4, 64, 1, dtype=torch.bfloat16)
    out = api.attention(q, k, ones, dropout_p=0.5, impl="cpu_half")
    assert out.float().mean() == pytest.approx(1.0, abs=0.1)
    assert out.std() > 0.01


# --- selection ------------------------------------------------------------


@pytest.fixture
def on_cpu(monkeypatch):
    """Pretend to run on a CPU with these features."""

    def pretend(architecture="x86_64", **features):
        capabilities = {"architecture": architecture, "avx2": True, **features}
        monkeypatch.setattr(cpu_half, "cpu_features", lambda: capabilities)

    return pretend


@pytest.fixture
def as_measured(on_cpu):
    """As on a CPU where casting pays the most."""
    on_cpu()


def selected(*tensors, **kwargs) -> str:
    return api.explain(*tensors, enable_gqa=True, **kwargs).selected


def test_cpu_half_is_selected_where_it_was_measured_faster(as_measured):
    long, short = randn(1, 4, 128, 16), randn(1, 4, 64, 16)
    query, cache = randn(1, 4, 1, 16), randn(1, 4, 4096, 16)
    assert selected(long.half(), long.half(), long.half()) == "cpu_half"
    assert selected(short.half(), short.half(), short.half()) == "sdpa"
    assert selected(long, long, long) == "sdpa", "bfloat16 is fast enough"
    assert selected(query, cache, cache) == "cpu_half", "but not for one query"
    assert selected(query, long, long) == "sdpa", "of few keys"
    assert selected(query, cache[:, :2], cache[:, :2]) == "pack_gqa"
    few = cache[:, :2].half()
    assert selected(query.half(), few, few) == "cpu_half"
    assert selected(long.float(), long.float(), long.float()) == "sdpa"


def test_selection_depends_on_whether_gradients_are_needed(as_measured):
    long = randn(1, 4, 128, 16).requires_grad_()
    assert selected(long, long, long) == "cpu_half"
    with torch.no_grad():
        assert selected(long, long, long) == "sdpa"


def test_bfloat16_training_is_not_cast_on_a_cpu_with_avx512(on_cpu):
    on_cpu(avx512_f=True, avx512_bf16=True)
    long = randn(1, 4, 128, 16).requires_grad_()
    query, cache = randn(1, 4, 1, 16), randn(1, 4, 4096, 16)
    explanation = api.explain(long, long, long)
    assert explanation.selected == "sdpa"
    assert "with AVX-512" in explanation.deprioritized["cpu_half"]
    assert selected(long.half(), long.half(), long.half()) == "cpu_half"
    assert selected(query, cache, cache) == "cpu_half"


@pytest.mark.parametrize(
    ("features", "says"),
    [
        ({"architecture": "aarch64"}, "this CPU is aarch64"),
        ({"avx512_fp16": True, "amx_tile": True}, "avx512_fp16, amx_tile"),
        (None, "does not say"),
    ],
    ids=("ARM", "new instructions", "old torch"),
)
def test_an_unmeasured_cpu_is_a_reason_against_cpu_half(
    features, says, on_cpu, monkeypatch
):
    if features is None:
        monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    else:
        on_cpu(**features)
    x = randn(1, 4, 128, 16, dtype=torch.float16)
    explanation = api.explain(x, x, x)
    assert explanation.selected == "sdpa"
    assert says in explanation.deprioritized["cpu_half"]
    assert "autotune" in explanation.deprioritized["cpu_half"]


def test_a_compiled_graph_does_not_select_by_length(as_measured):
    x = randn(1, 4, 128, 16, dtype=torch.float16)
    compiled = torch.compile(api.attention, backend="eager", fullgraph=True)
    want = api.attention(x, x, x, impl="sdpa")
    torch.testing.assert_close(compiled(x, x, x), want)


@BY_DTYPE
def test_window_training_in_16_bits_is_cast(dtype, as_measured, monkeypatch):
    """Windows in training: float32, but what comes out is what went in."""
    monkeypatch.setattr(cpu_window, "BLOCK", 16)
    tensors = [randn(1, 4, 128, 16, seed=i, dtype=dtype) for i in range(3)]
    kwargs = {"window": (9, 0), "impl": "cpu_window"}
    wide = [x.double().requires_grad_() for x in tensors]
    want = attn.scaled_dot_product_attention(*wide, window=(9, 0))
    tensors = [x.requires_grad_() for x in tensors]
    assert cpu_half.casting_pays(attn.functional.inputs.validate(*tensors))
    ours = api.attention(*tensors, **kwargs)
    monkeypatch.setattr(cpu_window, "casting_pays", lambda call: False)
    torchs = api.attention(*tensors, **kwargs)
    assert ours.dtype == dtype
    assert_exact(ours, want, torchs)
    seed = torch.ones_like(ours)
    for mine, theirs, exact in zip(
        torch.autograd.grad(ours, tensors, seed),
        torch.autograd.grad(torchs, tensors, seed),
        torch.autograd.grad(want, wide, seed.double()),
        strict=True,
    ):
        assert mine.dtype == dtype
        assert distance(mine, exact) <= distance(theirs, exact) * 1.1


def test_a_tile_is_as_large_as_the_cache_allows(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)

    def tile(batch, heads, keys, features=64):
        x = torch.empty(batch, heads, keys, features, dtype=torch.half)
        return cpu_half._tile(attn.functional.inputs.validate(x, x, x))

    assert tile(4, 8, 4096) == (1, 2), "a head for each thread"
    assert tile(4, 8, 1024) == (1, 4), "2 MiB of keys and values"
    assert tile(4, 8, 128) == (4, 8), "whole rows"
    assert tile(4, 1, 4096) == (2, 1), "rows for the threads"
