"""Recurrence, convolution and attention: one interface, other distances."""

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from attn import cost
from attn.api import use_impl
from attn.nn import LSTM, RNN, CausalConv1d, MultiHeadAttention
from tests.attn.cases import randn32 as randn
from tests.attn.refusals import refused

B, L, E = 2, 12, 16
MIXERS = {
    "rnn": lambda: RNN(E),
    "lstm": lambda: LSTM(E),
    "convolution": lambda: CausalConv1d(E),
    "dilated convolution": lambda: CausalConv1d(E, dilation=4),
    "window": lambda: MultiHeadAttention(E, 4, is_causal=True, window=(2, 0)),
    "attention": lambda: MultiHeadAttention(E, 4, is_causal=True),
}
every_mixer = pytest.mark.parametrize("kind", MIXERS)


def made(kind, seed=0):
    torch.manual_seed(seed)
    return MIXERS[kind]()


def reach(module, length=L):
    """The gradient of each output by each token, its size, (L, L)."""
    x = randn(1, length, E).requires_grad_()
    out = module(x)
    assert out.shape == x.shape
    weights = randn(E, seed=2)
    rows = [
        torch.autograd.grad((y @ weights).sum(), x, retain_graph=True)[0]
        for y in out.unbind(1)
    ]
    return torch.cat(rows).norm(dim=-1)


@every_mixer
def test_no_output_depends_on_a_later_token(kind):
    by_token = reach(made(kind))
    assert not by_token.triu(1).any()
    assert (by_token.diagonal() > 0).all()


@every_mixer
def test_rows_of_a_batch_do_not_mix(kind):
    module, x = made(kind), randn(B, L, E)
    torch.testing.assert_close(module(x)[1:], module(x[1:]))


@pytest.mark.parametrize("kernel_size,dilation", ((1, 1), (3, 1), (2, 3)))
def test_a_convolution_sees_its_receptive_field(kernel_size, dilation):
    by_token = reach(CausalConv1d(E, kernel_size, dilation))
    seen = {int(i - j) for i, j in by_token.nonzero() if i == L - 1}
    assert seen == {n * dilation for n in range(kernel_size)}


def test_a_causal_convolution_equals_pytorchs_after_zeros():
    ours = CausalConv1d(E, 3, 2)
    x = randn(B, L, E)
    padded = torch.cat([x.new_zeros(B, 4, E), x], 1)
    torch.testing.assert_close(ours(x), ours.layer(padded.mT).mT)


STACKS = {
    "convolution": lambda n: [CausalConv1d(E, 3) for _ in range(n)],
    "dilated convolution": lambda n: [
        CausalConv1d(E, 3, 3**i) for i in range(n)
    ],
    "window": lambda n: [made("window", i) for i in range(n)],
    "attention": lambda n: [made("attention")] * n,
}


@pytest.mark.parametrize("length", (9, 10, 14))
@pytest.mark.parametrize("kind", STACKS)
def test_the_path_length_is_how_many_layers_connect_the_ends(kind, length):
    layers = cost.mixer_cost(kind, length, E, kernel_size=3).path_length
    torch.manual_seed(0)
    deep = nn.Sequential(*STACKS[kind](layers)).double()
    x = randn(1, length, E).double().requires_grad_()
    for stack, joined in ((deep, True), (deep[:-1], False)):
        last = stack(x)[:, -1].sum()
        (grad,) = torch.autograd.grad(last, x)
        assert bool(grad[:, 0].any()) == joined


def test_the_path_length_of_a_recurrence_is_the_sequence_length():
    """The shortest way back, counted in matrix products."""
    cell = nn.RNNCell(E, E)
    tokens = [randn(1, E, seed=i).requires_grad_() for i in range(L)]
    state = None
    for x in tokens:
        state = cell(x, state)
    products, ways = 0, {state.grad_fn}
    while not any(getattr(w, "variable", None) is tokens[0] for w in ways):
        next_ways = {
            after for way in ways for after, _ in way.next_functions if after
        }
        products += any("Addmm" in type(way).__name__ for way in next_ways)
        ways = next_ways
    assert products == cost.mixer_cost("rnn", L, E).path_length == L


def norms_by_distance(kind, length=64):
    """Of the last output's gradient, averaged over models."""
    rows = [reach(made(kind, seed), length)[-1] for seed in range(4)]
    return torch.stack(rows).mean(0).flip(0)


def test_the_gradient_decays_in_recurrence_and_not_in_attention():
    for kind in ("rnn", "lstm"):
        near, mid, far = norms_by_distance(kind)[[1, 12, 24]]
        assert far < 0.02 * mid < 0.02**2 * near
    sizes = norms_by_distance("attention")
    assert sizes[32:].mean() > 0.5 * sizes[1:32].mean()


@every_mixer
@pytest.mark.filterwarnings("ignore:TF32 acceleration")
@torch.no_grad()
def test_flops_of_a_mixer_equal_those_that_torch_counts(kind):
    module, x = made(kind), randn(1, L, E)
    counter = FlopCounterMode(display=False)
    # A library's recurrence or attention is one call, which is not counted.
    plain = use_impl("reference")
    with torch.backends.mkldnn.flags(enabled=False), plain, counter:
        module(x)
    got = cost.mixer_cost(kind, L, E, kernel_size=3, is_causal=False)
    if kind == "window":  # torch computes the pairs out of sight too
        got = cost.mixer_cost("attention", L, E, is_causal=False)
    assert got.flops == counter.get_total_flops()


def test_mixer_costs_equal_table_1_of_vaswani_et_al():
    """Vaswani et al. 2017, table 1, with the constants it leaves out."""
    n, d, k = 1024, 512, 3
    table = {x: cost.mixer_cost(x, n, d, kernel_size=k) for x in MIXERS}
    assert {kind: x.path_length for kind, x in table.items()} == {
        "rnn": n,
        "lstm": n,
        "convolution": 512,  # n / k, nearly
        "dilated convolution": 7,  # 3 ** 7 is 2187
        "window": 512,
        "attention": 1,
    }
    recurrent = {k for k, x in table.items() if x.sequential_steps > 1}
    assert recurrent == {"rnn", "lstm"}
    assert {table[k].parallel_over for k in recurrent} == {"sequences"}
    assert table["rnn"].flops == 4 * n * d**2
    assert table["lstm"].flops == 4 * table["rnn"].flops
    assert table["convolution"].flops == 2 * k * n * d**2
    pairs = n * (n + 1) // 2
    assert table["attention"].flops == 8 * n * d**2 + 4 * d * pairs
    pairs = k * n - k * (k - 1) // 2
    assert table["window"].flops == 8 * n * d**2 + 4 * d * pairs


REFUSED = {
    "kind must be one of .*; got 'cnn'": lambda: cost.mixer_cost("cnn", 8, 8),
    "kernel_size must be 2 or more: a token sees itself; got 1": (
        lambda: cost.mixer_cost("convolution", 8, 8, kernel_size=1)
    ),
    "seq_len must be an int, at least 0; got -1": (
        lambda: cost.mixer_cost("rnn", -1, 8)
    ),
}
test_invalid_mixers_are_refused = refused(REFUSED, ValueError)
