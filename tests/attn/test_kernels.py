"""The Triton kernels, in the interpreter: a grid, judged against float64.

An error may be twice that of a peer in the same dtype (PyTorch's function or
the readable reference), plus a few roundings.
"""

import pytest
import torch
import torch.nn.functional as F

import attn
from tests.attn.cases import ROUNDINGS, distance
from tests.marks import exhaustive_but

pytest.importorskip("triton")

from attn.kernels import configs, fused_attention
from attn.kernels.attention import unsupported_reasons

FP16, BF16, FP32 = torch.float16, torch.bfloat16, torch.float32


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    """Use tiles so small that every case needs several, of two sizes."""

    def tiles(*_):
        return configs.Config(16, 32, 4, 1, "for a test")

    monkeypatch.setattr(configs, "config_of", tiles)


def randn(*shape, seed=0, dtype=FP32):
    g = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(shape, generator=g).to(dtype)


def random_bools(*shape, p=0.6):
    g = torch.Generator().manual_seed(sum(shape))
    return torch.rand(shape, generator=g) < p


#        B  H  Hkv  L   S   D   Dv
SIZES = {
    "sizes differ": (2, 6, 2, 19, 37, 16, 24),
    "one tile": (1, 2, 2, 16, 32, 16, 16),
    "a tile and one": (1, 2, 1, 17, 33, 32, 32),
    "collide": (2, 2, 2, 20, 20, 20, 20),
    "one query": (2, 4, 1, 1, 45, 16, 16),
    "one key": (1, 2, 2, 18, 1, 16, 16),
    "narrow": (1, 3, 1, 18, 35, 3, 5),
    "odd heads": (1, 2, 1, 18, 35, 80, 72),
}
BIG = {
    "D = 128": (1, 1, 1, 18, 34, 128, 128),
    "D = 256": (1, 1, 1, 17, 33, 256, 256),
}


def every_option(sizes):
    """Return the keyword arguments of calls, by their names in the grid."""
    B, H, _, L, S, *_ = sizes
    return {
        "plain": {},
        "causal": {"is_causal": True},
        "causal, last": {"is_causal": True, "q_offset": S - L},
        "causal, dead rows": {"is_causal": True, "q_offset": -3},
        "offset of each": {
            "is_causal": True,
            "q_offset": torch.tensor([S - L, 2][:B]),
        },
        "window": {"window": (5, 2), "q_offset": max(S - L, 0)},
        "half window": {"window": (None, 1), "q_offset": 0},
        "far window": {"window": (2, 0), "q_offset": S + 9},
        "softcap": {"softcap": 1.5, "is_causal": True},
        "sinks": {"sinks": randn(H, seed=7), "is_causal": True},
        "bool": {"attn_mask": random_bools(B, 1, L, S)},
        "bool of a head": {"attn_mask": random_bools(1, H, L, 1)},
        "numbers": {"attn_mask": randn(L, S, seed=8)},
        "padding": {
            "attn_mask": attn.causal() & attn.padding(random_bools(B, S)),
            "q_offset": 2,
        },
        "all": {
            "attn_mask": random_bools(L, S),
            "is_causal": True,
            "q_offset": 4,
            "softcap": 2.0,
            "sinks": randn(H, seed=7),
            "scale": 0.3,
        },
    }


def options(name, sizes):
    return every_option(sizes)[name]


NAMES = tuple(every_option(SIZES["sizes differ"]))
GRID = [
    (size, name, FP32)
    for size in SIZES
    for name in NAMES
    if size in ("sizes differ", "a tile and one")
    or name in ("plain", "causal, last", "window", "all", "padding")
]
GRID += [
    (size, name, dtype)
    for dtype in (FP16, BF16)
    for size in ("sizes differ", "collide", "one query")
    for name in NAMES
]
GRID += [(size, "causal", dtype) for size in BIG for dtype in (FP32, BF16)]


#: The options that other sizes are for; those of the others, "a tile and one".
ELSEWHERE = {
    "plain": "collide",
    "causal, last": "one query",
    "window": "one key",
    "all": "odd heads",
    "padding": "narrow",
    "bool": "sizes differ",
}


def is_quick(size, name, dtype):
    """Every size, every option and every dtype, each in some case."""
    if dtype == FP32:
        at = ELSEWHERE.get(name, "a tile and one")
        return size in (at, "D = 128") or (size, name) == ("one tile", "all")
    if dtype == FP16:
        return (size, name) == ("sizes differ", "all")
    return (size, name) in (("collide", "sinks"), ("D = 256", "causal"))


QUICK = [case for case in GRID if is_quick(*case)]


def leaves(sizes, dtype, sinks=None):
    B, H, Hkv, L, S, D, Dv = sizes
    inputs = [
        randn(B, H, L, D, seed=1, dtype=dtype),
        randn(B, Hkv, S, D, seed=2, dtype=dtype),
        randn(B, Hkv, S, Dv, seed=3, dtype=dtype),
    ]
    inputs += [] if sinks is None else [sinks]
    return [x.detach().clone().requires_grad_() for x in inputs]


def run(call, inputs, kwargs, dtype):
    """Return the output, the lse and the gradients of both together."""
    kwargs = dict(kwargs)
    if "sinks" in kwargs:
        kwargs["sinks"] = inputs[3]
    mask = kwargs.get("attn_mask")
    if isinstance(mask, torch.Tensor) and mask.is_floating_point():
        kwargs["attn_mask"] = mask.to(dtype)
    out, lse = call(*inputs[:3], enable_gqa=True, return_lse=True, **kwargs)
    finite = lse.masked_fill(lse == -torch.inf, 0.0)
    seeds = (randn(*out.shape, seed=4), randn(*lse.shape, seed=5))
    loss = sum(
        (x.double() * seed.to(dtype).double()).sum()
        for x, seed in zip((out, finite), seeds, strict=True)
    )
    return [out, lse, *torch.autograd.grad(loss, inputs)]


def check(sizes, kwargs, dtype, function=fused_attention):
    kwargs = dict(kwargs)
    inputs = leaves(sizes, dtype, kwargs.get("sinks"))
    doubles = [x.detach().double().requires_grad_() for x in inputs]
    peers = [x.detach().clone().requires_grad_() for x in inputs]
    ours = run(function, inputs, kwargs, dtype)
    call = attn.scaled_dot_product_attention
    exact = run(call, doubles, kwargs, torch.float64)
    reference = run(call, peers, kwargs, dtype)
    assert ours[0].dtype == dtype and ours[1].dtype == FP32
    for mine, peer, oracle in zip(ours, reference, exact, strict=True):
        size = oracle.detach()[oracle.isfinite()].abs()
        size = max(1.0, float(size.max()) if size.numel() else 1.0)
        # Weights and slopes are rounded once more than the peer's; and in
        # base 2 a large score is rounded before it meets the others.
        several = ROUNDINGS if dtype == FP32 else 4
        few = several * torch.finfo(dtype).eps * size
        error, peer_error = distance(mine, oracle), distance(peer, oracle)
        assert error <= 2 * peer_error + few, (error, peer_error, few)


@pytest.mark.parametrize("case", exhaustive_but(QUICK, GRID), ids=str)
def test_forward_and_gradients(case):
    size, name, dtype = case
    sizes = (SIZES | BIG)[size]
    check(sizes, options(name, sizes), dtype)


def test_the_grid_is_large_and_a_part_of_it_has_everything_once():
    assert len(GRID) >= 150
    for axis in range(3):
        assert {x[axis] for x in QUICK} == {x[axis] for x in GRID}


STORED = {
    "transposed heads": lambda x: (
        x.transpose(1, 2).contiguous().transpose(1, 2)
    ),
    "transposed features": lambda x: x.mT.contiguous().mT,
    "every other": lambda x: torch.stack([x, x + 9], -2).flatten(2, 3)[
        :, :, ::2
    ],
    "expanded batch": lambda x: x[:1].expand_as(x),
    "expanded tokens": lambda x: x[:, :, :1].expand_as(x),
    "a view inside": lambda x: F.pad(x, (3, 5, 1, 2))[:, :, 1:-2, 3:-5],
}


@pytest.mark.grid
@pytest.mark.parametrize("how", STORED)
def test_how_the_inputs_are_stored_does_not_matter(how):
    sizes = (2, 2, 1, 17, 33, 16, 24)
    inputs = [STORED[how](x.detach()) for x in leaves(sizes, FP32)]
    inputs.append(torch.stack([randn(2), randn(2)], -1)[:, 0])  # the sinks
    plain = [x.contiguous() for x in inputs]
    for x in (*inputs, *plain):
        x.requires_grad_()
    kwargs = {"is_causal": True, "sinks": inputs[3]}
    ours = run(fused_attention, inputs, kwargs, FP32)
    same = run(fused_attention, plain, kwargs, FP32)
    for x, y in zip(ours, same, strict=True):
        assert torch.equal(x, y)


@pytest.mark.parametrize(
    "lead", ((), (3,), (2, 2, 3)), ids=("two axes", "three", "five")
)
def test_any_number_of_axes(lead):
    q, k, v = (randn(*lead, 18, 16, seed=i) for i in range(3))
    out, lse = fused_attention(q, k, v, is_causal=True, return_lse=True)
    want = attn.scaled_dot_product_attention(
        q, k, v, is_causal=True, return_lse=True
    )
    assert out.shape == want[0].shape and lse.shape == want[1].shape
    assert torch.allclose(out, want[0], atol=1e-5)
    assert torch.allclose(lse, want[1], atol=1e-5)


@pytest.mark.parametrize("sizes", [(1, 2, 2, 5, 0), (1, 2, 2, 0, 5)], ids=str)
def test_nothing_to_attend_to(sizes):
    check((*sizes, 16, 16), {}, FP32)


def test_positions_beyond_32_bits():
    far = 2**31 + 64  # elements between two keys; the memory is not touched
    room = torch.empty(far + 64, dtype=FP16)
    key = room.as_strided((1, 1, 2, 16), (0, 0, far, 1))
    key.copy_(randn(1, 1, 2, 16, dtype=FP16))
    query = randn(1, 1, 3, 16, dtype=FP16)
    out = fused_attention(query, key, key)
    assert torch.equal(out, fused_attention(query, *[key.contiguous()] * 2))


def test_nan_behind_the_last_key_is_not_read():
    room = torch.full((1, 1, 64, 32), float("nan"))
    query = randn(1, 1, 20, 16)
    key = room[:, :, :33, :16].copy_(randn(1, 1, 33, 16))
    key = room[:, :, :33, :16].requires_grad_()
    out = fused_attention(query, key, key)
    (grad,) = torch.autograd.grad(out.sum(), key)
    assert not out.isnan().any() and not grad.isnan().any()


# --- one operator ------------------------------------------------------------


@pytest.mark.grid
@pytest.mark.parametrize(
    "changes",
    (
        {},
        {"sinks": randn(2).requires_grad_()},
        {"mask": random_bools(18, 20).view(torch.uint8).expand(1, 2, 18, 20)},
        {"valid": torch.ones(1, 20, dtype=torch.uint8)},
    ),
    ids=("plain", "sinks", "mask", "valid"),
)
@pytest.mark.filterwarnings("ignore")
def test_torch_holds_it_for_a_good_operator(changes):
    tensors = leaves((1, 2, 1, 18, 20, 16, 16), FP32)
    others = dict.fromkeys(("mask", "valid", "sinks")) | changes
    tensors += [*others.values(), torch.zeros(1, dtype=torch.int32)]
    torch.library.opcheck(
        torch.ops.attn.fused_attention.default,
        (*tensors, 0.25, 0.0, configs.UNBOUNDED, 0),
    )


@pytest.mark.filterwarnings("ignore")
def test_it_compiles_into_one_graph():
    def layer(q, k, v):
        return fused_attention(
            2 * q, k, v, is_causal=True, enable_gqa=True
        ).sum()

    inputs = leaves((1, 2, 1, 18, 20, 16, 16), FP32)
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    eager = torch.autograd.grad(layer(*inputs), inputs)
    traced = torch.autograd.grad(compiled(*inputs), inputs)
    for x, y in zip(eager, traced, strict=True):
        assert torch.equal(x, y)


# --- what is not supported ---------------------------------------------------


def reasons(*args, **options):
    from attn.functional.inputs import validate

    return unsupported_reasons(validate(*args, **options))


def test_each_obstacle_is_a_reason():
    q = randn(1, 2, 4, 16)
    assert reasons(q, q, q, is_causal=True) == []
    (why,) = reasons(*[q.double()] * 3)
    assert "float64" in why
    (why,) = reasons(q, q, q, dropout_p=0.1)
    assert "dropout_p is 0.1" in why
    wide = randn(1, 2, 4, 257)
    assert len(reasons(wide, wide, wide)) == 2
    for mask in (attn.prefix(2), attn.causal() | attn.prefix(2)):
        (why,) = reasons(q, q, q, mask)
        assert "kernels support causal" in why
    with pytest.raises(ValueError, match="cannot: query is float64.*drop"):
        fused_attention(*[q.double()] * 3, dropout_p=0.5)


def test_padding_by_lengths_is_padding():
    q, lengths = randn(2, 2, 20, 16), torch.tensor([20, 7])
    valid = torch.arange(20) < lengths[:, None]
    long_enough = torch.ones(2, 30, dtype=torch.bool)
    out = fused_attention(
        q, q, q, attn.padding(lengths) & attn.padding(long_enough)
    )
    assert torch.equal(out, fused_attention(q, q, q, attn.padding(valid)))
