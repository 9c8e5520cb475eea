"""Norms and feed-forwards are torch's and transformers'."""

import copy

import pytest
import torch
from torch import nn

import attn
from attn.nn import BatchNorm, FeedForward, LayerNorm, RMSNorm, SwiGLU
from tests.attn.cases import assert_exact, randn
from tests.attn.models import count, randomised
from tests.attn.refusals import value_error

C = 6


def with_the_same_weights(ours, theirs):
    """Give ours the weights of theirs, in float64."""
    randomised(theirs.double())
    ours.double().load_state_dict(theirs.state_dict())
    return ours, theirs


def run(module, x):
    """Output and every gradient."""
    x = x.clone().requires_grad_()
    module.zero_grad()
    out = module(x)
    out.backward(randn(*out.shape, seed=7).to(out.dtype))
    return [out, x.grad, *(p.grad.clone() for p in module.parameters())]


# --- norms ------------------------------------------------------------------

NORMS = [
    (LayerNorm(C), nn.LayerNorm(C)),
    (LayerNorm(C, eps=0.1), nn.LayerNorm(C, eps=0.1)),
    (LayerNorm(C, bias=False), nn.LayerNorm(C, bias=False)),
    (RMSNorm(C), nn.RMSNorm(C, eps=1e-6)),
    (RMSNorm(C, eps=0.1), nn.RMSNorm(C, eps=0.1)),
    (BatchNorm(C), nn.BatchNorm1d(C)),
    (BatchNorm(C, eps=0.1, momentum=0.7), nn.BatchNorm1d(C, 0.1, 0.7)),
]


@pytest.mark.parametrize("ours,theirs", NORMS, ids=[str(a) for a, _ in NORMS])
@pytest.mark.parametrize(
    "dtype,offset",
    (
        (torch.float64, 0.0),
        (torch.float32, 0.0),
        (torch.float32, 100.0),  # most digits cancel
        (torch.bfloat16, 0.0),
    ),
)
def test_a_norm_and_its_gradients_equal_pytorchs(ours, theirs, dtype, offset):
    """The one of one operation, and its definition."""
    ours, theirs = with_the_same_weights(*copy.deepcopy((ours, theirs)))
    x = (randn(9, C) * 3 + offset).to(dtype)
    oracle = run(theirs, x.double())
    rival = run(theirs.to(dtype), x)
    for form in ("forward", "definition"):
        ours.forward = getattr(ours, form, ours.forward)
        results = run(ours.to(dtype), x)
        assert {x.dtype for x in results} == {dtype}
        assert_exact(results, oracle, rival)


@pytest.mark.parametrize("norm", [x for x, _ in NORMS[:5]], ids=str)
def test_a_norm_has_second_and_forward_derivatives(norm):
    norm = randomised(copy.deepcopy(norm).double())
    x = randn(3, C).requires_grad_()
    assert torch.autograd.gradgradcheck(norm, x)
    derivative = torch.func.jvp(norm, (x,), (torch.ones_like(x),))
    defined = torch.func.jvp(norm.definition, (x,), (torch.ones_like(x),))
    assert_exact(derivative, defined)


@pytest.mark.parametrize("ours,theirs", NORMS[:5], ids=str)
def test_layer_norm_and_rms_norm_accept_any_number_of_axes(ours, theirs):
    ours, theirs = with_the_same_weights(*copy.deepcopy((ours, theirs)))
    for shape in ((C,), (3, C), (2, 3, C), (2, 3, 4, C), (0, C)):
        x = randn(*shape)
        assert_exact(ours(x), theirs(x))


@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float16))
def test_norms_round_half_precision_once(dtype):
    x = (randn(9, C) * 3 + 20).to(dtype)
    for norm in (LayerNorm(C), RMSNorm(C), BatchNorm(C)):
        wide = copy.deepcopy(norm)(x.float())
        assert torch.equal(norm(x), wide.to(dtype))


def test_a_token_of_zeros_stays_finite():
    for norm in (LayerNorm(C), RMSNorm(C)):
        x = torch.zeros(2, C, requires_grad=True)
        norm(x).sum().backward()
        assert not x.grad.isnan().any()


@pytest.mark.parametrize("shape", ((9, C), (4, C, 5), (2, C, 1)))
def test_batch_norm_keeps_the_running_statistics_of_pytorch(shape):
    ours, theirs = with_the_same_weights(BatchNorm(C), nn.BatchNorm1d(C))
    for step in range(3):
        x = randn(*shape, seed=step) * (step + 1) + step
        assert_exact(ours(x), theirs(x))
        mine, other = ours.state_dict(), theirs.state_dict()
        assert list(mine) == list(other)
        for name, value in other.items():
            assert_exact(mine[name].double(), value.double())
    ours.eval(), theirs.eval()
    before = copy.deepcopy(ours.state_dict())
    assert_exact(ours(x), theirs(x))
    assert_exact(ours(x[:1]), ours(x)[:1])  # one is enough now
    assert all(map(torch.equal, before.values(), ours.state_dict().values()))


def test_batch_norm_refuses_a_single_value_and_wrong_shapes():
    norm = BatchNorm(C)
    with value_error("two values a feature .*; got 1"):
        norm(torch.zeros(1, C))
    with value_error(r"\(N, C, L\) with C = 6; got \(2, 5, 6\)"):
        norm(torch.zeros(2, 5, C))
    with value_error(r"x must have shape \(N, C\) or .*; got \(6,\)"):
        norm(torch.zeros(C))


# --- feed-forwards ----------------------------------------------------------


def rename(module, **names):
    """A state dict with our names for theirs."""
    return {
        ".".join(names.get(part, part) for part in key.split(".")): x
        for key, x in module.state_dict().items()
    }


@pytest.mark.parametrize(
    "name,activation",
    (
        ("gelu", nn.GELU()),
        ("gelu_tanh", nn.GELU(approximate="tanh")),
        ("relu", nn.ReLU()),
        ("silu", nn.SiLU()),
    ),
)
@pytest.mark.parametrize("bias", (False, True))
def test_a_feed_forward_is_linear_activation_linear(name, activation, bias):
    theirs = nn.Sequential(
        nn.Linear(C, 10, bias), activation, nn.Linear(10, C, bias)
    )
    randomised(theirs.double())
    ours = FeedForward(C, 10, activation=name, bias=bias).double()
    ours.load_state_dict(rename(theirs, **{"0": "up_proj", "2": "down_proj"}))
    x = randn(2, 3, C) * 3
    assert_exact(ours(x), theirs(x))


@pytest.mark.parametrize("embed_dim", (6, 48, 64, 768, 1000, 4096))
def test_a_gated_feed_forward_has_as_many_weights(embed_dim):
    with torch.device("meta"):
        plain = count(FeedForward(embed_dim, bias=False))
        gated = count(SwiGLU(embed_dim))
    assert plain == 8 * embed_dim**2
    assert 0 <= plain - gated < 3 * embed_dim  # less than one hidden feature
    assert attn.nn.gated_hidden_dim(embed_dim) == int(8 * embed_dim / 3)


def test_multiple_of_gives_llamas_hidden_width():
    assert attn.nn.gated_hidden_dim(4096, multiple_of=256) == 11008
    assert attn.nn.gated_hidden_dim(768, multiple_of=256) == 2048
    with value_error("multiple_of must be an int, at least 1; got 0"):
        attn.nn.gated_hidden_dim(768, 0)


@pytest.mark.parametrize("cls", (FeedForward, SwiGLU))
def test_feed_forwards_drop_in_training_and_refuse_unknown_activations(cls):
    module = cls(C, dropout=0.5)
    x = torch.randn(2, 3, C)
    assert not torch.equal(module(x), module(x))
    module.eval()
    assert torch.equal(module(x), module(x))
    with value_error("activation must be one of .*; got 'swish'"):
        cls(C, activation="swish")
