"""Implementations under names: masks, overrides, selection, switches."""

import pytest
import torch
from torch import Tensor

import attn
from attn import api
from attn.backends import Registry
from tests.attn.cases import assert_as_exact
from tests.attn.cases import randn32 as randn

Q, K, V = (
    randn(2, 4, 5, 8),
    randn(2, 2, 7, 8, seed=1),
    randn(2, 2, 7, 8, seed=2),
)
SAID = {"is_causal": True, "q_offset": 2, "enable_gqa": True}
VALID = torch.tensor([[1] * 7, [0, 0, 1, 1, 1, 1, 1]]).bool()
PADDED = {**SAID, "attn_mask": VALID[:, None, None]}


@pytest.fixture
def own():
    """A registry that sees the book's, and leaves it alone."""
    return Registry(parent=api.registry)


def by_hand(query, key, value, mask, *, scale, enable_gqa=False, softcap=None):
    """Attend with booleans, or without a mask."""
    key, value = (x.repeat_interleave(2, 1) for x in (key, value))
    scores = query @ key.mT * scale
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if mask is not None:
        assert mask.dtype == torch.bool
        scores = scores.masked_fill(~mask, -torch.inf)
    return scores.softmax(-1).nan_to_num(0.0) @ value


@pytest.mark.parametrize(
    "said",
    [
        {},
        SAID,
        {**SAID, "window": (2, 0)},
        {**SAID, "attn_mask": attn.padding(VALID)},
        PADDED,
        {**SAID, "softcap": 2.0},
        {**SAID, "attn_mask": torch.rand(5, 7) > 0.3},
        {**PADDED, "window": (1, 3)},
        {**PADDED, "q_offset": torch.tensor([2, 0])},
        {**PADDED, "q_offset": torch.tensor(2)},
    ],
)
def test_all_masks_of_a_call_are_one_tensor_of_booleans(own, said):
    own.register("mine", mask="bool")(by_hand)
    said = {"enable_gqa": True, **said}
    got = attn.attention(Q, K, V, impl="mine", registry=own, **said)
    assert_as_exact(got, Q, K, V, **said)


def test_what_booleans_cannot_express_is_a_reason(own):
    own.register("mine", mask="bool")(by_hand)
    numbers = torch.zeros(5, 7)
    for said, says in (
        ({"attn_mask": numbers}, "pass booleans"),
        ({"dropout_p": 0.1}, "dropout_p is given: its function declares none"),
        ({"sinks": torch.zeros(4)}, "sinks is given"),
    ):
        with pytest.raises(ValueError, match=f"mine cannot: .*{says}"):
            attn.attention(
                Q, K, V, enable_gqa=True, impl="mine", registry=own, **said
            )


@pytest.mark.parametrize("lead", [(), (4,), (3, 2, 4)])
def test_it_gets_them_for_inputs_of_any_rank(own, lead):
    @own.register("mine", mask="bool")
    def plain(query, key, value, mask, *, scale):
        scores = query @ key.mT * scale
        return scores.masked_fill(~mask, -torch.inf).softmax(-1) @ value

    q, k, v = (randn(*lead, 5, 8, seed=i) for i in range(3))
    mask = torch.rand(5, 5) > 0.5
    mask |= torch.eye(5).bool()
    want = attn.scaled_dot_product_attention(q, k, v, mask)
    got = attn.attention(q, k, v, mask, impl="mine", registry=own)
    assert torch.allclose(got, want, atol=1e-5)


def test_booleans_of_a_float_bias_are_refused(own):
    bias = torch.zeros(5, 7)
    own.register("expert", mask="inputs")(lambda call: call.allowed())
    with pytest.raises(ValueError, match="must be booleans; got torch.float"):
        attn.attention(
            Q, K, V, bias, enable_gqa=True, impl="expert", registry=own
        )


def test_it_is_a_dictionary(own):
    own.register("mine")(attn.scaled_dot_product_attention)
    assert list(own)[0] == "mine" and len(own) == len(api.registry) + 1
    assert "sdpa" in own and "mine" in own and "flash" not in own
    assert own.get("flash") is None
    assert own["sdpa"] is api.registry["sdpa"]
    assert dict(own.items())["mine"].function is own["mine"].function
    assert "mine" not in api.registry
    with pytest.raises(
        ValueError, match="impl must be 'auto' .*; got 'flash'"
    ):
        own["flash"]


def test_one_registry_overrides_a_name_for_itself_alone(own):
    calls = []

    @own.register("sdpa", mask="inputs")
    def mine(call):
        calls.append(call)
        return call.query

    attn.attention(Q, K, V, impl="sdpa", **SAID)
    assert not calls
    got = attn.attention(Q, K, V, impl="sdpa", registry=own, **SAID)
    assert len(calls) == 1 and got is Q
    assert api.explain(Q, K, V, **SAID, registry=own).selected == "sdpa"


def test_extra_keywords_reach_who_declares_them_and_nobody_else(own):
    @own.register("warm")
    def warm(query, key, value, temperature=1.0, **said):
        said["scale"] = (said["scale"] or 8**-0.5) / temperature
        return attn.scaled_dot_product_attention(query, key, value, **said)

    @own.register("cold", mask="bool")
    def cold(query, key, value, mask, *, scale, enable_gqa=False):
        return query

    said = {"temperature": 2.0, "registry": own, **SAID}
    want = attn.scaled_dot_product_attention(Q, K, V, scale=32**-0.5, **SAID)
    for impl in ("warm", "auto"):
        got = attn.attention(Q, K, V, impl=impl, **said)
        assert torch.allclose(got, want, atol=1e-6)
    for impl in ("cold", "sdpa"):
        with pytest.raises(TypeError, match="unexpected keyword"):
            attn.attention(Q, K, V, impl=impl, **said)


def test_a_model_is_switched_while_it_runs(own):
    calls = []

    @api.register("counted")
    def counted(*args, **said):
        calls.append(said)
        return attn.scaled_dot_product_attention(*args, **said)

    try:
        model = attn.MultiHeadAttention(16, 4)
        x = randn(2, 5, 16)
        want = model(x)
        assert not calls
        with api.use_impl("counted"):
            assert torch.allclose(model(x), want, atol=1e-6)
            with api.use_impl("auto"):
                model(x)
        model(x)
        assert len(calls) == 1
        nobody = pytest.raises(ValueError, match="must be 'auto' or one of")
        with nobody, api.use_impl("nobody"):
            pass
    finally:
        api.registry.remove("counted")


def test_a_parent_may_be_empty_at_first():
    parent = Registry()
    child = Registry(parent)
    parent.register("mine")(attn.scaled_dot_product_attention)
    assert list(child) == ["mine"] and "mine" in child


def returns(result, **options):
    return lambda query, *others, **given: result(query), options


WRONG = {
    "unsupported_reasons of mine must return a list .*; got 'no'": returns(
        Tensor.clone, unsupported_reasons=lambda call: "no"
    ),
    "deprioritized of mine must return a sentence .*; got False": returns(
        Tensor.clone, deprioritized=lambda call: False
    ),
    "mine must return a tensor; got NoneType": returns(lambda query: None),
    "return out in torch.float32 on cpu; got torch.float64": returns(
        Tensor.double
    ),
    r"L, Dv\) = .2, 4, 5, 8.; got .2, 5, 4, 8.": returns(
        lambda query: query.transpose(1, 2)
    ),
    r"mine must return \(out, lse\) with return_lse; got Tensor": returns(
        Tensor.clone
    ),
    r"return lse of shape .* = \(2, 4, 5\); got \(2, 4, 5, 8\)": returns(
        lambda query: (query, query)
    ),
    "return_lse is given: its function declares none": (
        by_hand,
        {"mask": "bool"},
    ),
    "mine must declare .*; got a function without .*dropout_p, .*window": (
        lambda query, key, value, attn_mask, is_causal: query,
        {},
    ),
    "function must have a signature; got <built-in": (
        torch.nn.functional.scaled_dot_product_attention,
        {},
    ),
}


@pytest.mark.parametrize("says", WRONG)
def test_what_a_function_of_yours_answers_is_checked(own, says):
    function, options = WRONG[says]
    said = {"enable_gqa": True, "registry": own, "return_lse": "lse" in says}
    with pytest.raises((TypeError, ValueError), match=says):
        own.register("mine", **options)(function)
        api.explain(Q, K, V, **said)
        attn.attention(Q, K, V, impl="mine", **said)


def test_names_and_masks_are_checked(own):
    with pytest.raises(TypeError, match=r"name must be .*@register\("):
        own.register(by_hand)
    own.register("mine")(attn.scaled_dot_product_attention)
    for name in ("mine", "auto"):
        with pytest.raises(ValueError, match="name must be new"):
            own.register(name)
    for mask in ("additive", "block", None):
        with pytest.raises(ValueError, match=f"mask must be .*; got {mask!r}"):
            own.register("other", mask=mask)
