"""Decoding over split caches, and sequences end to end."""

import pytest
import torch

import attn
from attn.backends.registry import TRACING
from tests.attn.cases import assert_exact, distance

pytest.importorskip("triton")

from attn.kernels import configs, decode_attention, varlen_attention
from attn.kernels.configs import Config, config_of
from tests.attn.test_kernels import BF16, FP16, FP32, randn
from tests.marks import exhaustive_but


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    def tiles(kernel, *sizes):
        if kernel == "decode":
            return config_of(kernel, *sizes)
        return Config(16, 32, 4, 1, "for a test")

    monkeypatch.setattr(configs, "config_of", tiles)


def close(ours, exact, dtype=FP32, peer_error=0.0):
    size = max(1.0, float(exact.abs().max())) if exact.numel() else 1.0
    eps = torch.finfo(dtype).eps
    several = 16 if dtype == FP32 else 4
    assert distance(ours, exact) <= 2 * peer_error + several * eps * size


# --- decoding ----------------------------------------------------------------

B, H, HKV, S, D, DV = 3, 6, 2, 150, 16, 24


def cache(dtype=FP32, L=1):
    q = randn(B, H, L, D, seed=1, dtype=dtype)
    k = randn(B, HKV, S, D, seed=2, dtype=dtype)
    return q, k, randn(B, HKV, S, DV, seed=3, dtype=dtype)


def row_by_row(q, k, v, lengths, window=None, sinks=None, **options):
    """Compute each row with its own keys alone, in float64."""
    outs = []
    for b, length in enumerate(lengths):
        near = {} if window is None else {"window": (window, 0)}
        outs.append(
            attn.scaled_dot_product_attention(
                q[b].double(),
                k[b, :, :length].double(),
                v[b, :, :length].double(),
                enable_gqa=True,
                q_offset=length - q.shape[2],
                return_lse=True,
                sinks=None if sinks is None else sinks.double(),
                **near,
                **options,
            )
        )
    return [torch.stack(x) for x in zip(*outs, strict=True)]


@pytest.mark.grid
@pytest.mark.parametrize("splits", (None, 1, 2, 3, 100))
@pytest.mark.parametrize("lengths", ([150, 150, 150], [1, 77, 150]), ids=str)
def test_the_splits_do_not_matter(splits, lengths):
    q, k, v = cache()
    for b, length in enumerate(lengths):  # beyond the cache is poison
        k[b, :, length:] = v[b, :, length:] = float("nan")
    both = decode_attention(
        q, k, v, torch.tensor(lengths), splits=splits, return_lse=True
    )
    assert_exact(both, row_by_row(q, k, v, lengths, is_causal=True))


@pytest.mark.parametrize("L", exhaustive_but([2], (1, 2, 5)))
@pytest.mark.parametrize(
    "options",
    (
        {"softcap": 1.5},
        {"sinks": randn(H, seed=7)},
        {"window": 20},
        {"window": 0},
        {"scale": 0.4, "softcap": 2.0, "window": 70, "sinks": randn(H)},
    ),
    ids=lambda options: ", ".join(options),
)
def test_every_argument(options, L):
    q, k, v = cache(L=L)
    lengths = [150, 9, 66]
    both = decode_attention(
        q, k, v, torch.tensor(lengths), splits=3, return_lse=True, **options
    )
    assert_exact(both, row_by_row(q, k, v, lengths, is_causal=True, **options))


@pytest.mark.parametrize("dtype", (FP16, BF16), ids=str)
def test_half_precision(dtype):
    q, k, v = cache(dtype)
    want, _ = row_by_row(q, k, v, [150] * 3, is_causal=True)
    peer = attn.grouped_attention(q, k, v)
    close(decode_attention(q, k, v), want, dtype, distance(peer, want))


@pytest.mark.parametrize("group", (1, 3, 8))
def test_any_group_and_no_causality(group):
    q, k = randn(2, 2 * group, 2, D), randn(2, 2, 40, D, seed=1)
    out = decode_attention(q, k, k, is_causal=False)
    q, k = q.double(), k.double()
    close(out, attn.scaled_dot_product_attention(q, k, k, enable_gqa=True))


def test_one_cache_for_a_whole_batch():
    """Broadcast, and not read from beyond its end."""
    q, k, v = cache()
    out = decode_attention(q, k[:1], v[:1])
    want, _ = row_by_row(q, k[:1].expand_as(k), v[:1].expand_as(v), [S] * B)
    close(out, want)


@pytest.mark.parametrize("L", exhaustive_but([3], (1, 3)))
@pytest.mark.parametrize(
    "kwargs",
    (
        {},
        {"is_causal": True, "q_offset": 147},
        {"is_causal": True, "q_offset": 40},
        {"is_causal": True, "q_offset": 0},
        {"attn_mask": attn.sliding_window(20), "q_offset": 100},
        {"window": (400, 0), "q_offset": 147, "softcap": 2.0},
        {"is_causal": True, "q_offset": 147, "sinks": randn(H), "scale": 0.4},
    ),
    ids=str,
)
def test_by_the_name_of_the_backend(kwargs, L):
    q, k, v = cache(L=L)
    axes = {1: 4, 3: 3}[L] if kwargs else 5
    if axes != 4:
        drop = slice(0, 1) if axes == 3 else slice(None)
        q, k, v = (x[drop] for x in (q, k, v))
        q, k, v = (x[0] if axes == 3 else x[:, None] for x in (q, k, v))
    kwargs = {"enable_gqa": True, **kwargs}
    both = attn.attention(
        q, k, v, impl="triton_split_kv", return_lse=True, **kwargs
    )
    wide = [x.double() for x in (q, k, v)]
    if "sinks" in kwargs:
        kwargs = {**kwargs, "sinks": kwargs["sinks"].double()}
    want = attn.scaled_dot_product_attention(*wide, return_lse=True, **kwargs)
    assert_exact(both, want)


@pytest.mark.parametrize(
    ("kwargs", "why"),
    (
        ({"attn_mask": torch.zeros(3, S)}, "attn_mask is a tensor"),
        ({"is_causal": True, "q_offset": 148}, "q_offset 147 or less"),
        ({"is_causal": True, "q_offset": -1}, "q_offset 147 or less"),
        ({"is_causal": True, "q_offset": torch.tensor([1, 2, 3])}, "offset"),
        ({"window": (3, 2), "q_offset": 9}, "must be causal"),
        ({"attn_mask": attn.padding(randn(B, S) > 0)}, "must be causal"),
        ({"attn_mask": attn.prefix(3), "q_offset": 9}, "'prefix'"),
        ({"dropout_p": 0.1}, "no dropout"),
    ),
    ids=str,
)
def test_what_split_kv_does_not_support_has_a_reason(kwargs, why):
    q, k, v = cache(L=3)
    with pytest.raises(ValueError, match=f"triton_split_kv cannot: .*{why}"):
        attn.attention(
            q, k, v, enable_gqa=True, impl="triton_split_kv", **kwargs
        )


def test_decode_takes_no_long_prompts():
    _, k, v = cache()
    long = randn(B, H, 22, D)  # three heads in a group
    reasons = attn.api.explain(long, k, v, enable_gqa=True)
    assert "66 queries" in reasons["triton_split_kv"][0]
    short = attn.api.explain(long[:, :, :3], k, v, enable_gqa=True)
    assert "interpreter" in short.deprioritized["triton_split_kv"]


def test_decode_is_no_part_of_a_graph(monkeypatch):
    """Each step adds a token, and a graph would be specialized to it."""
    q, k, v = cache()
    assert attn.api.explain(q, k, v, enable_gqa=True)["triton_split_kv"] == []
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert attn.api.explain(q, k, v, enable_gqa=True)["triton_split_kv"] == [
        TRACING
    ]


def test_a_row_without_keys_is_zero():
    q, k, v = cache()
    lengths = torch.tensor([0, 3, 150])
    for x in (None, randn(H)):
        out, lse = decode_attention(q, k, v, lengths, sinks=x, return_lse=True)
        assert (out[0] == 0).all() and (lse[0] == -torch.inf).all()
        assert out[1:].abs().min() > 0


@pytest.mark.parametrize(
    ("change", "message"),
    (
        ({"lengths": torch.tensor([1, 2])}, "shape .3,.; got .* shape .2,."),
        (
            {"lengths": torch.tensor([1, 2, 151])},
            "from 0 to 150.* got 1 to 151",
        ),
        (
            {"lengths": torch.tensor([1, -2, 3])},
            "from 0 to 150.* got -2 to 3",
        ),
        ({"window": -1}, "window must be 0 or more.* got -1"),
        ({"query": randn(B, H, 22, D)}, "G . L of at most 64; got 3 . 22"),
        ({"query": randn(H, 1, D)}, "four axes, .B, H, L, D.; got 3"),
    ),
)
def test_what_does_not_fit_is_refused(change, message):
    q, k, v = cache()
    inputs = {"query": q, "key": k, "value": v} | change
    with pytest.raises(ValueError, match=message):
        decode_attention(**inputs)
    with pytest.raises(TypeError, match="float64"):
        decode_attention(*(x.double() for x in (q, k, v)))


# --- sequences end to end ----------------------------------------------------

LENGTHS = ([5, 1, 40, 0, 17], [3, 50, 1, 4, 33])
SPLIT = (*LENGTHS, LENGTHS[1])


def ragged(dtype=FP32):
    queries, keys = map(sum, LENGTHS)
    q = randn(queries, H, D, seed=1, dtype=dtype)
    k = randn(keys, HKV, D, seed=2, dtype=dtype)
    v = randn(keys, HKV, DV, seed=3, dtype=dtype)
    cu = [torch.tensor([0, *n]).cumsum(0, dtype=torch.int32) for n in LENGTHS]
    return q, k, v, *cu


@pytest.mark.parametrize(
    "dtype", exhaustive_but([FP32], (FP32, BF16)), ids=str
)
@pytest.mark.parametrize(
    "options",
    (
        pytest.param({}, marks=pytest.mark.exhaustive),
        pytest.param({"is_causal": True}, marks=pytest.mark.exhaustive),
        {"is_causal": True, "q_offset": torch.tensor([0, 49, -3, 4, 16])},
        pytest.param({"window": (3, 1)}, marks=pytest.mark.exhaustive),
        {"softcap": 1.5, "sinks": randn(H, seed=7), "scale": 0.4},
    ),
    ids=lambda options: ", ".join(options) or "plain",
)
def test_each_sequence_is_as_it_is_alone(options, dtype):
    """Output, lse and all gradients; one has no queries, its keys get 0."""
    *tensors, starts_q, starts_k = ragged(dtype)
    tensors += [options["sinks"]] if "sinks" in options else []
    seeds = randn(63, H, DV, seed=4), randn(H, 63, seed=5)

    def run(function, dtype):
        leaves = [x.to(dtype, copy=True).requires_grad_() for x in tensors]
        own = options | ({"sinks": leaves[3]} if leaves[3:] else {})
        out, lse = function(*leaves[:3], return_lse=True, **own)
        finite = lse.masked_fill(lse == -torch.inf, 0.0)
        seeded = [x.to(y.dtype) for x, y in zip(seeds, (out, lse))]  # noqa: B905
        grads = torch.autograd.grad((out, finite), leaves, seeded)
        return [out, lse, *grads]

    def packed(q, k, v, **own):
        return varlen_attention(q, k, v, starts_q, starts_k, 40, **own)

    def one_by_one(q, k, v, q_offset=(0,) * 5, **own):
        both = zip((q, k, v), SPLIT, strict=True)
        parts = (x.transpose(0, 1).split(n, 1) for x, n in both)
        alone = [
            attn.scaled_dot_product_attention(
                *text, q_offset=int(start), enable_gqa=True, **own
            )
            for *text, start in zip(*parts, q_offset, strict=True)
        ]
        out, lse = (torch.cat(x, 1) for x in zip(*alone, strict=True))
        return out.transpose(0, 1), lse

    exact, peers = run(one_by_one, torch.float64), run(one_by_one, dtype)
    ours = run(packed, dtype)
    for mine, peer, oracle in zip(ours, peers, exact, strict=True):
        assert mine.shape == oracle.shape and mine.is_contiguous()
        finite = oracle.isfinite()
        assert torch.equal(mine[~finite].double(), oracle[~finite])
        mine, peer, oracle = (x[finite] for x in (mine, peer, oracle))
        close(mine, oracle, dtype, distance(peer, oracle))


def test_torch_holds_packed_texts_for_a_good_operator():
    from attn.kernels.forward import forward

    *tensors, starts_q, starts_k = ragged()
    rows = [x.transpose(0, 1)[None].requires_grad_() for x in tensors]
    given = (*rows, None, None, None, torch.zeros(5, dtype=torch.int32))
    given += (0.25, 0.0, configs.UNBOUNDED, 0, starts_q, starts_k, 40, 50)
    tests = ("test_schema", "test_autograd_registration", "test_faketensor")
    torch.library.opcheck(forward, given, test_utils=tests)


@pytest.mark.parametrize(
    ("change", "message"),
    (
        ({"cu_seqlens_q": torch.tensor([0, 5])}, "rise from 0 to 63"),
        ({"cu_seqlens_q": torch.zeros(6)}, "integers of shape .6,.; got .*32"),
        (
            {"cu_seqlens_k": torch.tensor([0, 50, 40, 91, 91, 91])},
            "rise from 0 to 91",
        ),
        ({"cu_seqlens_k": torch.tensor([0, 91])}, "shape .6,.; got .* .2,."),
        ({"max_seqlen_q": 39}, "must be 40 or more.* got 39"),
        ({"q_offset": torch.tensor([1])}, "each batch row, .5,.; got .* .1,."),
        ({"query": randn(1, 63, H, D)}, "tokens, heads, head_dim.; got 4"),
    ),
)
def test_ends_that_do_not_fit_are_refused(change, message):
    names = ("query", "key", "value", "cu_seqlens_q", "cu_seqlens_k")
    inputs = dict(zip(names, ragged(), strict=True)) | {"max_seqlen_q": 40}
    with pytest.raises(ValueError, match=message):
        varlen_attention(**inputs | change)
    with pytest.raises(TypeError, match="q_offset must be .* integer tensor"):
        varlen_attention(**inputs, q_offset=torch.zeros(5))


def test_vectors_may_be_stored_apart():
    def apart(x):
        return torch.stack([x, x + 9], -1)[..., 0]

    q, k, v = cache()
    sinks, lengths = randn(H, seed=7), torch.tensor([3, 77, 150]).int()
    assert torch.equal(
        decode_attention(q, k, v, apart(lengths), sinks=apart(sinks)),
        decode_attention(q, k, v, lengths, sinks=sinks),
    )
    q, k, v, *ends = ragged()
    offset = torch.tensor([0, 49, -3, 4, 16]).int()
    kwargs = {"is_causal": True, "max_seqlen_q": 40}
    assert torch.equal(
        varlen_attention(
            q, k, v, *map(apart, ends), q_offset=apart(offset), **kwargs
        ),
        varlen_attention(q, k, v, *ends, q_offset=offset, **kwargs),
    )
