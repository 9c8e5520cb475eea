"""The kernel of linear attention with decay, in the interpreter."""

import pytest
import torch
import torch.nn.functional as F

from attn.linear import linear_attention
from tests.attn.cases import distance, randn
from tests.attn.refusals import refused
from tests.marks import exhaustive_but

pytest.importorskip("triton")

from attn.kernels import configs, linear_attention_chunks
from attn.kernels.configs import Config

BF16, FP32 = torch.bfloat16, torch.float32
MILD, STRONG = 1.0, 30.0


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    """Use chunks of 16 tokens, and blocks of 16 columns of the value."""
    small = Config(16, 16, 4, 1, "for a test")
    monkeypatch.setattr(configs, "config_of", lambda *_: small)


def inputs(length, dtype=FP32, size=MILD, B=2, Hk=1, H=2, D=20, Dv=18):
    q, k = (randn(B, Hk, length, D, seed=i, dtype=dtype) for i in (1, 2))
    v = randn(B, H, length, Dv, seed=3, dtype=dtype)
    g = -size * F.softplus(randn(B, H, length, seed=4, dtype=FP32))
    return q, k, v, g


def check(tensors, roundings=64, **options):
    """Compare with the definition in float64, and a peer in its dtype."""
    out, state = linear_attention_chunks(*tensors, **options)
    exact = {
        n: x.double() if isinstance(x, torch.Tensor) else x
        for n, x in options.items()
    }
    want = linear_attention(
        *(x.double() for x in tensors), **exact, mode="recurrent",
        output_final_state=True,
    )  # fmt: skip
    dtype = tensors[0].dtype
    assert out.dtype == dtype and state.dtype == FP32
    for got, x in zip((out, state), want, strict=True):
        limit = roundings * torch.finfo(dtype).eps
        assert distance(got, x) <= limit * max(1.0, float(x.abs().max()))
    return out


@pytest.mark.parametrize("dtype", (FP32, BF16))
@pytest.mark.parametrize(
    "length", exhaustive_but([33], (1, 15, 16, 17, 33, 64))
)
@pytest.mark.parametrize("size", (MILD, STRONG))
def test_the_kernel_equals_the_definition(length, dtype, size):
    tensors = inputs(length, dtype, size)
    start = randn(2, 2, 20, 18, seed=6, dtype=FP32)
    # A decay is the difference of two sums: of up to 700 when it is strong.
    several = 64 if size == MILD else 2**10
    options = {"initial_state": start, "scale": 0.3}
    check(tensors, 4 if dtype == BF16 else several, **options)


@pytest.mark.parametrize(("D", "Dv"), ((1, 1), (16, 40), (65, 16), (16, 3)))
def test_heads_of_any_size(D, Dv):
    check(inputs(18, D=D, Dv=Dv))


def test_strided_tensors_are_read_where_they_are():
    plain = inputs(20)
    strided = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in plain]
    assert not strided[2].is_contiguous()
    assert torch.equal(check(strided), check(plain))


def test_a_decay_to_zero_gives_no_nan():
    q, k, v, g = inputs(20)
    g[:, :, 5] = -torch.inf
    check([q, k, v, g], 2**10)


def test_no_tokens_and_no_batch():
    start = randn(2, 2, 20, 18, seed=6, dtype=FP32)
    out, state = linear_attention_chunks(*inputs(0), initial_state=start)
    assert out.shape == (2, 2, 0, 18) and torch.equal(state, start)
    out, state = linear_attention_chunks(*inputs(5, B=0))
    assert out.shape == (0, 2, 5, 18) and state.shape == (0, 2, 20, 18)


Q, K, V, G = inputs(5)
REFUSED = {
    r"query and key must have shape \(B, Hk, L, D\)": (
        lambda: linear_attention_chunks(Q[0], K[0], V[0], G[0])
    ),
    "value must have the batch and tokens of query": (
        lambda: linear_attention_chunks(Q, K, V[:1], G)
    ),
    r"g must have shape \(B, H, L\) = \(2, 2, 5\); got \(2, 5, 2\)": (
        lambda: linear_attention_chunks(Q, K, V, G.mT)
    ),
    "query must not be float64": (
        lambda: linear_attention_chunks(*(x.double() for x in (Q, K, V)), G)
    ),
    r"initial_state must have shape \(2, 2, 20, 18\)": (
        lambda: linear_attention_chunks(Q, K, V, G, initial_state=V)
    ),
}
test_invalid_arguments_are_refused = refused(REFUSED)
