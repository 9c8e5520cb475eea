"""Where torch has an answer, ours is the same, and so are the gradients."""

import functools
import itertools

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import attn
from tests.attn.cases import SIZES, assert_exact, qkv, randn
from tests.attn.implementations import every_implementation

FLOATS = (torch.float64, torch.float32)
RANKS = (
    "L S",
    "1 S",
    "L 1",
    "H L S",
    "1 L S",
    "B 1 L S",
    "B 1 1 S",
    "B H L S",
)


def torch_attention(q, k, v, mask=None, **arguments):
    """torch's reference backend: the others differ where rules are unsaid."""
    arguments["enable_gqa"] = q.dim() > 2
    with sdpa_kernel(SDPBackend.MATH):
        return F.scaled_dot_product_attention(q, k, v, mask, **arguments)


def a_mask(kind, rank, sizes, dtype):
    if kind == "none":
        return None
    axes = {"B": sizes.batch[-1] if sizes.batch else 1, "H": sizes.H}
    axes |= {"L": sizes.L, "S": sizes.S}
    shape = [axes.get(axis, 1) for axis in rank.split()]
    g = torch.Generator().manual_seed(5)
    coin = torch.rand(shape, generator=g) < 0.7
    coin[..., :1, :] = False  # a row without keys
    if kind == "bool":
        return coin
    bias = torch.randn(shape, generator=g).to(dtype)
    return bias.masked_fill(~coin, -torch.inf) if kind == "-inf" else bias


def with_gradients(function, q, k, v, mask, **arguments):
    """Output and gradients, for a random gradient of the output."""
    leaves = [x.detach().clone().requires_grad_() for x in (q, k, v)]
    if mask is not None and mask.dtype != torch.bool:
        mask = mask.detach().clone().requires_grad_()
        leaves.append(mask)
    out = function(*leaves[:3], mask, **arguments)
    seed = randn(*out.shape, seed=9, dtype=out.dtype)
    # torch does not look at the mask of an empty call: its gradient is 0.
    return [
        out,
        *torch.autograd.grad(out, leaves, seed, materialize_grads=True),
    ]


@functools.lru_cache(8)  # the implementations of a case come in turn
def torchs(sizes, dtype, kind, rank, **arguments):
    """torch's result in a dtype, and in double precision."""
    q, k, v = qkv(sizes, dtype)
    mask = a_mask(kind, rank, sizes, dtype)
    rival = with_gradients(torch_attention, q, k, v, mask, **arguments)
    if mask is not None and mask.dtype != torch.bool:
        mask = mask.double()
    doubles = (x.double() for x in (q, k, v))
    oracle = with_gradients(torch_attention, *doubles, mask, **arguments)
    return rival, oracle


def assert_equals_torch(sizes, dtype, kind, rank, implementation, **arguments):
    q, k, v = qkv(sizes, dtype)
    mask = a_mask(kind, rank, sizes, dtype)
    ours = with_gradients(
        implementation, q, k, v, mask, enable_gqa=True, **arguments
    )
    theirs, exact = torchs(sizes, dtype, kind, rank, **arguments)
    assert {x.dtype for x in ours} == {dtype}
    assert_exact(ours, exact, theirs)


DTYPES = pytest.mark.parametrize("dtype", FLOATS, ids=("double", "single"))


@every_implementation
@DTYPES
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_results_without_a_mask_equal_pytorchs(sizes, dtype, implementation):
    for is_causal, scale in itertools.product((False, True), (None, 0.7)):
        assert_equals_torch(
            sizes,
            dtype,
            "none",
            "",
            implementation,
            is_causal=is_causal,
            scale=scale,
        )


def fits(sizes, rank):
    if sizes.name == "two axes":
        return len(rank.split()) == 2
    if sizes.name == "three axes":
        return len(rank.split()) <= 3
    clash = sizes.batch == (sizes.H,) != (1,)
    return not (clash and rank == "H L S")  # ambiguous: see test_differences


MASKED = [
    (sizes, rank)
    for sizes, rank in itertools.product(SIZES, RANKS)
    if fits(sizes, rank)
]


@every_implementation
@pytest.mark.parametrize(
    "sizes,rank", MASKED, ids=[f"{s}, mask {r}" for s, r in MASKED]
)
def test_results_with_a_mask_equal_pytorchs(sizes, rank, implementation):
    for kind in ("bool", "float", "-inf"):
        assert_equals_torch(sizes, torch.float32, kind, rank, implementation)


@every_implementation
@DTYPES
@pytest.mark.parametrize(
    "shapes",
    (
        ((2, 4, 3, 5), (1, 4, 6, 5), (1, 4, 6, 2)),
        ((1, 4, 3, 5), (2, 2, 6, 5), (2, 2, 6, 2)),
        ((3, 1, 2, 3, 5), (1, 4, 2, 6, 5), (3, 4, 2, 6, 2)),
        ((1, 2, 3, 5), (3, 2, 6, 5), (1, 2, 6, 2)),
    ),
    ids=str,
)
def test_batch_axes_broadcast_as_in_pytorch(shapes, dtype, implementation):
    rounded = [randn(*s, seed=i, dtype=dtype) for i, s in enumerate(shapes)]
    doubles = [x.double() for x in rounded]
    assert_exact(
        with_gradients(implementation, *rounded, None, enable_gqa=True),
        with_gradients(torch_attention, *doubles, None),
        with_gradients(torch_attention, *rounded, None),
    )


def views(x):
    """The same numbers, stored in other ways."""
    yield x.mT.contiguous().mT
    yield x.transpose(1, 2).contiguous().transpose(1, 2)
    yield x.repeat_interleave(2, -1)[..., ::2]
    yield F.pad(x, (3, 1, 2, 2))[..., 2:-2, 3:-1]


@every_implementation
def test_non_contiguous_inputs_give_the_same_output(implementation):
    q, k, v = qkv(SIZES[0])
    plain = implementation(q, k, v, enable_gqa=True)
    for a, b, c in zip(views(q), views(k), views(v), strict=True):
        assert not a.is_contiguous()
        out = implementation(a, b, c, enable_gqa=True)
        assert_exact(out, plain)


@every_implementation
def test_expanded_inputs_give_pytorchs_output(implementation):
    q, k, v = qkv(SIZES[0])
    B = 4
    q, k, v = (x[:1].expand(B, -1, -1, -1) for x in (q, k, v))
    mask = (torch.rand(1, 1, 1, k.shape[2]) < 0.7).expand(*q.shape[:3], -1)
    out = implementation(q, k, v, mask, enable_gqa=True)
    assert_exact(out, torch_attention(q, k, v, mask))
    assert torch.equal(out[0], out[-1])


@every_implementation
@pytest.mark.parametrize("kind", ("none", "bool", "float", "-inf"))
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_bfloat16_is_as_exact_as_torch(sizes, kind, implementation):
    q, k, v = qkv(sizes, torch.bfloat16)
    mask = a_mask(kind, "1 S", sizes, torch.bfloat16)
    out = implementation(q, k, v, mask, enable_gqa=True)
    assert out.dtype == torch.bfloat16
    exact = mask
    if mask is not None and mask.dtype != torch.bool:
        exact = mask.double()
    oracle = torch_attention(q.double(), k.double(), v.double(), exact)
    assert_exact(out, oracle, torch_attention(q, k, v, mask))


def test_a_float32_mask_may_accompany_half_precision():
    sizes = SIZES[0]
    q, k, v = qkv(sizes, torch.bfloat16)
    mask = torch.full((sizes.L, sizes.S), -3e5).triu(1)  # no fp16 number
    out = attn.scaled_dot_product_attention(q, k, v, mask, enable_gqa=True)
    doubles = (x.double() for x in (q, k, v))
    oracle = torch_attention(*doubles, mask.double())
    assert_exact(out, oracle)
