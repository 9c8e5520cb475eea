"""The rules of attn.linear: three forms of one definition, in float64."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F

import attn
from attn.linear import gated_delta_rule, linear_attention, short_convolution
from tests.attn.cases import assert_equal, randn
from tests.attn.refusals import refused
from tests.marks import exhaustive_but

B, HK, H, D, DV = 2, 2, 4, 6, 5
RULES = ("linear", "delta")
DECAYS = {
    "none": None,
    "by head": (H,),
    "by token": (B, H, "L"),
    "by channel": (B, H, "L", D),
}
LENGTHS = (1, 63, 64, 65, 129)
every_rule = pytest.mark.parametrize("rule", RULES)
#: Of the sum of log decays in a chunk of 64: about -50, and -1500.
MILD, STRONG = 1.0, 30.0


def inputs(length, decay="by token", size=MILD, seed=0, dtype=torch.float64):
    """The arguments of a rule, with an initial state and gates to forget."""
    shape = DECAYS[decay]
    g = None
    if shape is not None:
        shape = [length if n == "L" else n for n in shape]
        g = -size * F.softplus(randn(*shape, seed=seed + 4))
    return {
        "query": randn(B, HK, length, D, seed=seed + 1).to(dtype),
        "key": randn(B, HK, length, D, seed=seed + 2).to(dtype),
        "value": randn(B, H, length, DV, seed=seed + 3).to(dtype),
        "g": g,
        "beta": 2 * randn(B, H, length, seed=seed + 5).sigmoid(),
        "initial_state": randn(B, H, D, DV, seed=seed + 6),
    }


def run(rule, tensors, **options):
    """Call a rule; the output and the state after it."""
    call = {"output_final_state": True, **tensors, **options}
    if rule == "delta":
        return gated_delta_rule(**call)
    call.pop("beta")
    return linear_attention(**call)


def part(tensors, tokens, state=None):
    """The arguments for a part of the tokens."""
    cut = {
        name: x[:, :, tokens] if x is not None and x.dim() > 2 else x
        for name, x in tensors.items()
    }
    return cut | {"initial_state": state}


def token_by_token(query, key, value, g, beta, initial_state):
    """The definition, as the book writes it, for one row and head."""
    state, outs = initial_state.clone(), []
    for t in range(len(query)):
        state = g[t].exp()[..., None] * state
        new = value[t]
        if beta is not None:
            new = beta[t] * (new - key[t] @ state)
        state = state + torch.outer(key[t], new)
        outs.append(query[t] @ state * D**-0.5)
    return torch.stack(outs), state


def close(got, want, tolerance=1e-12):
    """Require an error that is small beside the largest element."""
    for a, b in zip(got, want, strict=True):
        assert a.shape == b.shape and not a.isnan().any()
        if b.numel():
            error, size = (a - b).abs().max(), b.abs().max().clamp(min=1)
            assert error <= tolerance * size, float(error)


def with_gradients(rule, tensors, **options):
    """Output, state, and the gradients of every argument."""
    leaves = {
        name: x.clone().requires_grad_()
        for name, x in tensors.items()
        if x is not None and not (rule == "linear" and name == "beta")
    }
    out, state = run(rule, {**tensors, **leaves}, **options)
    weights = randn(*out.shape, seed=9)
    loss = (out * weights).sum() + state.square().sum()
    return [out, state, *torch.autograd.grad(loss, leaves.values())]


@every_rule
@pytest.mark.parametrize("decay", ("by token", "by channel"))
def test_the_recurrent_form_is_the_definition(rule, decay):
    x = inputs(9, decay)
    got = run(rule, x, mode="recurrent")
    for b in range(B):
        for h in range(H):
            q, k = (x[n][b, h // (H // HK)] for n in ("query", "key"))
            if rule == "delta":
                q, k = (y / (y.square().sum(-1, True) + 1e-6).sqrt()
                        for y in (q, k))  # fmt: skip
            want = token_by_token(
                q, k, x["value"][b, h], x["g"][b, h].view(9, -1),
                x["beta"][b, h] if rule == "delta" else None,
                x["initial_state"][b, h],
            )  # fmt: skip
            close([y[b, h] for y in got], want)


@every_rule
@pytest.mark.parametrize("decay", DECAYS)
@pytest.mark.parametrize("length", exhaustive_but([65], LENGTHS))
@pytest.mark.parametrize("size", (MILD, STRONG))
def test_three_forms_and_their_gradients_are_equal(rule, decay, length, size):
    x = inputs(length, decay, size)
    want = with_gradients(rule, x, mode="recurrent")
    for options in (
        {"mode": "parallel"},
        {"mode": "chunk"},
        {"mode": "chunk", "chunk_size": 7},
    ):
        close(with_gradients(rule, x, **options), want)


@every_rule
@pytest.mark.parametrize("mode", ("recurrent", "parallel", "chunk"))
def test_a_decay_to_zero_forgets_all_and_has_a_gradient(rule, mode):
    x = inputs(12)
    x["g"][:, :, 7] = -torch.inf
    results = with_gradients(rule, x, mode=mode)
    assert all(y.isfinite().all() for y in results)
    alone = run(rule, part(x, slice(7, 12)), mode=mode)
    close([results[0][:, :, 7:], results[1]], alone)


@every_rule
@pytest.mark.parametrize("mode", ("recurrent", "chunk"))
@pytest.mark.parametrize("cut", (1, 63, 64, 65))
def test_a_text_in_two_parts_gives_what_it_gives_in_one(rule, mode, cut):
    x = inputs(70)
    whole = run(rule, x, mode=mode)
    first, state = run(
        rule, part(x, slice(0, cut), x["initial_state"]), mode=mode
    )
    second, state = run(rule, part(x, slice(cut, 70), state), mode="chunk")
    close([torch.cat([first, second], 2), state], whole)


@every_rule
@pytest.mark.parametrize("mode", ("recurrent", "parallel", "chunk"))
def test_a_packed_text_reads_no_other(rule, mode):
    lengths = (3, 1, 0, 65)
    cu = torch.tensor((0, *lengths)).cumsum(0)
    x = {n: y[:1] for n, y in inputs(69).items()}
    x["initial_state"] = randn(len(lengths), H, D, DV, seed=11)
    out, states = run(rule, x, mode=mode, cu_seqlens=cu)
    for i, length in enumerate(lengths):
        here = slice(int(cu[i]), int(cu[i]) + length)
        alone = part(x, here, x["initial_state"][i : i + 1])
        want = run(rule, alone, mode="recurrent")
        close([out[:, :, here], states[i : i + 1]], want)


def test_without_decay_it_is_attention_without_a_softmax():
    x = inputs(30, "none")
    q, k = (x[n].repeat_interleave(2, 1) for n in ("query", "key"))
    scores = (q @ k.mT * D**-0.5).tril()
    got, none = linear_attention(x["query"], x["key"], x["value"])
    assert none is None
    close([got], [scores @ x["value"]])


def test_normalised_weights_sum_to_one():
    x = inputs(70)
    ones = torch.ones_like(x["value"])
    for g in (None, x["g"]):
        out, state = linear_attention(
            x["query"], x["key"], ones, g, feature_map="elu",
            normalize=True, output_final_state=True,
        )  # fmt: skip
        close([out], [ones])
        assert state.shape == (B, H, D, DV + 1)


def test_the_taylor_map_is_the_start_of_the_exponential_series():
    q, k = 0.3 * randn(2, 5, D)
    s = q @ k.mT * D**-0.5
    q, k = map(attn.linear.taylor, (q, k))
    close([q @ k.mT], [1 + s + s * s / 2])
    x = inputs(40)
    query, key = 0.3 * x["query"], 0.3 * x["key"]
    value = x["value"][:, ::2]
    out, _ = linear_attention(
        query, key, value, feature_map="taylor", normalize=True
    )
    exact = attn.attention(query, key, value, is_causal=True)
    assert (out - exact).abs().max() < 1e-3 < exact.abs().max()


def test_with_beta_1_a_key_reads_the_value_that_it_was_given_last():
    key = randn(1, 1, 4, 16)[:, :, [0, 1, 2, 3, 0, 1]]
    value = randn(1, 1, 6, 3, seed=1)
    beta = torch.ones(1, 1, 6, dtype=torch.float64)
    out, _ = gated_delta_rule(key, key, value, None, beta, scale=1.0)
    assert (out - value).abs().max() < 1e-5
    unit = F.normalize(key, dim=-1)
    plain, _ = linear_attention(unit, unit, value, scale=1.0)
    assert (plain - value).abs().max() > 0.5


def test_beta_2_counts_modulo_2():
    """A reflection at each 1: the sign of the state is the parity."""
    bits = torch.tensor([1, 0, 1, 1, 1, 0, 0, 1])
    key = torch.zeros(1, 8, 2).double()
    key[..., 0] = 1
    zero = torch.zeros(1, 8, 1).double()
    state = torch.tensor([[[1.0], [0.0]]]).double()
    out, _ = gated_delta_rule(
        key, key, zero, None, 2.0 * bits[None].double(), scale=1.0,
        initial_state=state,
    )  # fmt: skip
    assert torch.equal(out.flatten() < 0, bits.cumsum(0) % 2 == 1)


@every_rule
@pytest.mark.parametrize("mode", ("recurrent", "chunk"))
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
def test_low_precision_keeps_its_dtype_and_a_wide_state(rule, mode, dtype):
    x = inputs(129, "by token", dtype=dtype)
    low = {n: y.to(dtype) for n, y in x.items()}
    out, state = run(rule, low, mode=mode)
    assert (out.dtype, state.dtype) == (dtype, torch.float32)
    exact = run(rule, {n: y.double() for n, y in low.items()})
    close([state.double()], [exact[1]], 2e-5)
    close([out.double()], [exact[0]], max(2e-5, torch.finfo(dtype).eps))


@every_rule
def test_no_tokens_leave_the_state_as_it_was(rule):
    x = inputs(0)
    for mode in ("recurrent", "parallel", "chunk"):
        out, state = run(rule, x, mode=mode)
        assert out.shape == (B, H, 0, DV)
        assert_equal(state, x["initial_state"])


@every_rule
def test_any_number_of_batch_axes(rule):
    x = inputs(5)
    want = run(rule, x)
    rows = {n: y[0] for n, y in x.items()}
    close(run(rule, rows), [y[0] for y in want])
    more = {n: torch.stack([y, y]) for n, y in x.items()}
    close(run(rule, more), [torch.stack([y, y]) for y in want])


# --- the short convolution ---------------------------------------------------

E, K = 6, 4


@pytest.mark.parametrize("bias", (None, randn(E, seed=3)))
def test_the_convolution_equals_pytorchs_and_sees_no_later_token(bias):
    x, weight = randn(B, 9, E), randn(E, K, seed=1)
    got, state = short_convolution(x, weight, bias)
    want = F.conv1d(x.mT, weight[:, None], bias, padding=K - 1, groups=E)
    close([got], [F.silu(want[..., :9].mT)])
    assert_equal(state, x[:, -3:])
    other = torch.cat([x[:, :5], randn(B, 4, E, seed=7)], 1)
    close([short_convolution(other, weight, bias)[0][:, :5]], [got[:, :5]])


def test_a_packed_convolution_sees_no_other_text():
    x, weight = randn(1, 9, E), randn(E, K, seed=1)
    state = randn(3, K - 1, E, seed=2)
    cu = torch.tensor([0, 2, 3, 9])
    got, last = short_convolution(x, weight, state=state, cu_seqlens=cu)
    for i, tokens in enumerate(x.split([2, 1, 6], 1)):
        y, end = short_convolution(tokens, weight, state=state[i : i + 1])
        close([got[:, cu[i] : cu[i + 1]], last[i : i + 1]], [y, end])


def test_a_filter_of_one_token_needs_no_state():
    x, weight = randn(B, 3, E), randn(E, 1)
    y, state = short_convolution(x, weight, activation=None)
    assert state.shape == (B, 0, E)
    close([y], [x * weight[:, 0]])


# --- errors ------------------------------------------------------------------

X = inputs(4)
Q, KEY, V, G = (X[n] for n in ("query", "key", "value", "g"))
WRONG = {
    "g must be the log of a decay, at most 0; got 0.9": {"g": G * 0 + 0.9},
    r"g must have shape \(4,\) or \(2, 4, 4\) or .*; got \(2, 2, 4\)": {
        "g": G[:, :2]
    },
    "value must have as many heads as key, or a multiple": {"value": V[:, :3]},
    r"key must have the heads and tokens of query, \(2, 4\); got \(1, 4\)": {
        "key": KEY[:, :1]
    },
    "value must have one position for each key, 4; got 3": {
        "value": V[:, :, :3]
    },
    r"query must have shape \(..., H, L, D\)": {"query": Q[0, 0]},
    "mode must be one of .*; got 'chunks'": {"mode": "chunks"},
    "chunk_size must be an int, at least 1; got 0": {"chunk_size": 0},
    "feature_map must be one of .*; got 'exp'": {"feature_map": "exp"},
    r"initial_state must have shape \(2, 4, 6, 5\); got \(2, 4, 5, 6\)": {
        "initial_state": X["initial_state"].mT
    },
    "cu_seqlens must be None with 2 rows": {
        "cu_seqlens": torch.tensor([0, 4])
    },
}
test_invalid_arguments_of_linear_attention_are_refused = refused(
    WRONG, ValueError, partial(linear_attention, query=Q, key=KEY, value=V)
)
REFUSED = {
    "beta must be 0 to 2 with keys of length 1; got -1 to -1": (
        lambda: gated_delta_rule(Q, KEY, V, G, X["beta"] * 0 - 1)
    ),
    r"beta must have shape \(2, 4, 4\); got \(2, 4, 4, 1\)": (
        lambda: gated_delta_rule(Q, KEY, V, G, X["beta"][..., None])
    ),
    "cu_seqlens must rise from 0 to 4, the number of tokens": (
        lambda: linear_attention(
            Q[:1], KEY[:1], V[:1], cu_seqlens=torch.tensor([0, 3])
        )
    ),
    "cu_seqlens must be an integer tensor": (
        lambda: linear_attention(Q[:1], KEY[:1], V[:1], cu_seqlens=[0, 4])
    ),
    r"x must have shape \(B, L, E\); got \(2, 2, 4, 6\)": (
        lambda: short_convolution(Q, randn(6, 4))
    ),
    r"weight must have shape \(E, K\) = \(6, K\)": (
        lambda: short_convolution(Q[:, 0], randn(4, 6))
    ),
    r"state must have shape \(2, 3, 6\), the tokens before": (
        lambda: short_convolution(Q[:, 0], randn(6, 4), state=randn(2, 4, 6))
    ),
    "activation must be one of .*; got 'relu'": (
        lambda: short_convolution(Q[:, 0], randn(6, 4), activation="relu")
    ),
}  # fmt: skip
test_invalid_arguments_are_refused = refused(REFUSED)
