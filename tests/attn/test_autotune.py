"""What is measured when asked to, and what is made of it."""

import warnings

import pytest
import torch

import attn
from attn import api
from attn.backends import Registry, autotune
from attn.functional.inputs import validate
from tests.attn.cases import randn32 as randn

Q, K, V = randn(2, 4, 6, 8), randn(2, 2, 9, 8, seed=1), randn(2, 2, 9, 8)
SAID = {"enable_gqa": True, "is_causal": True, "q_offset": 3}


@pytest.fixture
def own():
    """A registry of its own, with the book's reference in it."""
    one = Registry()
    one.register("right")(attn.scaled_dot_product_attention)
    return one


@pytest.fixture
def clock(monkeypatch):
    """Times that are said beforehand, for tests that depend on none."""
    said: dict[str, float] = {}
    ran: list[str] = []

    def benchmark(calls, rounds, device):
        for name, call in calls.items():
            call()
            ran.append(name)
        return {name: [said.get(name, 1.0)] * rounds for name in calls}

    monkeypatch.setattr(autotune, "benchmark_interleaved", benchmark)
    said_and_ran = (said, ran)
    return said_and_ran


def test_the_fastest_is_taken_for_such_calls_and_no_others(own, clock):
    own.register("quick")(attn.grouped_attention)
    said, _ = clock
    said |= {"right": 3.0, "quick": 2.0}
    assert api.explain(Q, K, V, **SAID, registry=own).selected == "right"
    found = api.autotune(Q, K, V, **SAID, registry=own)
    assert found.selected == "quick"
    assert found.deprioritized == {"right": "3e+03 ms here; quick 2e+03 ms"}
    other = randn(2, 4, 6, 8, seed=7)
    assert api.explain(other, K, V, **SAID, registry=own).selected == "quick"
    for changed in (
        {"is_causal": False},
        {"q_offset": 2},
        {"softcap": 2.0},
        {"return_lse": True},
        {"dropout_p": 0.1},
        {"sinks": torch.zeros(4)},
        {"attn_mask": torch.zeros(6, 9)},
        {"window": (2, 0)},
    ):
        options = {**SAID, **changed}
        found = api.explain(Q, K, V, **options, registry=own)
        assert found.selected == "right", changed
    shorter = api.explain(Q[:, :, 1:], K, V, **SAID, registry=own)
    assert shorter.selected == "right", "another length"
    wants = Q.clone().requires_grad_()
    assert api.explain(wants, K, V, **SAID, registry=own).selected == "right"
    assert not api.registry.seconds, "the book's own has learned nothing"


def test_what_is_hardly_faster_changes_nothing(own, clock):
    own.register("quick")(attn.grouped_attention)
    said, _ = clock
    said |= {"right": 1.0, "quick": 0.97}
    found = api.autotune(Q, K, V, **SAID, registry=own)
    assert found.selected == "right"
    assert "too close to change" in found.deprioritized["quick"]


def test_the_hopeless_run_once_more_and_the_others_on(own, clock):
    own.register("lame")(attn.grouped_attention)
    said, ran = clock
    said |= {"right": 1.0, "lame": 4.5}
    api.autotune(Q, K, V, **SAID, registry=own)
    assert ran.count("right") == 2 and ran.count("lame") == 1


def test_gradients_count_where_they_are_asked_for(own, clock):
    asked = []

    @own.register("mine")
    def mine(*args, **options):
        found = attn.scaled_dot_product_attention(*args, **options)
        out = found[0] if isinstance(found, tuple) else found
        if out.requires_grad:
            out.register_hook(lambda grad: asked.append(grad))
        return found

    api.autotune(Q, K, V, **SAID, registry=own)
    assert not asked
    wants = Q.clone().requires_grad_()
    api.autotune(wants, K, V, **SAID, registry=own)
    api.autotune(wants, K, V, **SAID, return_lse=True, registry=own)
    assert len(asked) == 6, "each: compared once, and timed twice"
    assert wants.grad is None, "the learner's own is left alone"


def test_who_fails_is_warned_of_and_not_taken(own, clock):
    own.remove("right")

    @own.register("broken")
    def broken(*args, **options):
        raise RuntimeError("no room")

    own.register("right")(attn.scaled_dot_product_attention)
    with pytest.warns(UserWarning, match="broken failed: no room"):
        found = api.autotune(Q, K, V, **SAID, registry=own)
    assert found.selected == "right"
    own.remove("right")
    with pytest.warns(UserWarning, match="no room"):
        found = api.autotune(Q, K, V, **SAID, registry=own)
    assert found.selected == "broken", "nobody else is there"


LIARS = {
    "its out differs by 0.64 from": lambda out: 0 * out,
    "its out differs by inf": lambda out: out + torch.inf,
    "its out differs by nan": lambda out: out * torch.nan,
    "its out differs by 0.00": lambda out: torch.cat(
        [out[..., :-1, :], 1.01 * out[..., -1:, :]], -2
    ),
    "its gradient of query differs": lambda out: 3 * out - 2 * out.detach(),
    "must return a tensor; got NoneType": lambda out: None,
}


@pytest.mark.parametrize("says", LIARS)
def test_who_is_wrong_is_warned_of_and_not_taken(own, clock, says):
    @own.register("liar")
    def liar(*tensors, **options):
        return LIARS[says](attn.grouped_attention(*tensors, **options))

    said, _ = clock
    said |= {"liar": 0.5, "right": 2.0}
    q = Q.clone().requires_grad_()
    with pytest.warns(UserWarning, match=f"^liar .*{says}"):
        found = api.autotune(q, K, V, **SAID, dropout_p=0.1, registry=own)
    assert found.selected == "right"


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
def test_who_is_right_is_not_warned_of(monkeypatch, clock, dtype):
    monkeypatch.setattr(api.registry, "seconds", {})
    for factor in (1.0, 30.0):  # gradients that cancel
        q, k, v = (x.to(dtype).requires_grad_() for x in (Q * factor, K, V))
        for said in ({"return_lse": True}, {"sinks": torch.zeros(4)}, {}):
            api.autotune(q, k, v, **SAID, **said)


def test_who_cannot_or_should_not_is_not_tried(own, clock):
    _, ran = clock
    own.register(
        "cannot", unsupported_reasons=lambda call: ["it is Saturday"]
    )(attn.grouped_attention)
    own.register("never", tunable=False)(attn.grouped_attention)
    found = api.autotune(Q, K, V, **SAID, registry=own)
    assert {*ran} == {"right"}
    assert found["cannot"] == ["it is Saturday"]


def test_a_new_name_makes_old_times_void(own, clock):
    api.autotune(Q, K, V, **SAID, registry=own)
    assert own.seconds
    own.register("new")(attn.grouped_attention)
    assert not own.seconds
    api.autotune(Q, K, V, **SAID, registry=own)
    own.remove("new")
    assert not own.seconds


def test_who_can_no_longer_is_passed_over(own):
    """Times never outweigh a reason."""
    refuses = []
    own.register("quick", unsupported_reasons=lambda call: refuses)(
        attn.grouped_attention
    )
    own.seconds[validate(Q, K, V, **SAID).tuning_key()] = {
        "gone": 0.5,
        "quick": 1.0,
        "right": 2.0,
    }
    assert own.select(validate(Q, K, V, **SAID))[0] == "quick"
    refuses.append("not now")
    assert own.select(validate(Q, K, V, **SAID))[0] == "right"


def test_times_do_not_reach_a_graph(own):
    own.register("quick")(attn.grouped_attention)
    call = validate(Q, K, V, **SAID)
    own.seconds[call.tuning_key()] = {"quick": 1.0, "right": 2.0}
    chosen = []

    def traced(query):
        chosen.append(own.select(validate(query, K, V, **SAID))[0])
        return query

    torch.compile(traced, backend="eager", fullgraph=True)(Q)
    assert chosen == ["right"]


def test_random_numbers_are_as_if_nobody_had_measured(own):
    torch.manual_seed(3)
    want = torch.rand(2)
    torch.manual_seed(3)
    api.autotune(Q, K, V, **SAID, dropout_p=0.5, registry=own)
    assert torch.equal(torch.rand(2), want)


def test_a_real_clock_and_the_books_own(monkeypatch):
    monkeypatch.setattr(api.registry, "seconds", {})
    said = {**SAID, "softcap": 2.0, "sinks": torch.zeros(4)}  # not for Flex
    with warnings.catch_warnings(action="error"):
        found = api.autotune(Q, K, V, **said)
    (seconds,) = api.registry.seconds.values()
    assert {*seconds} == {"tiled", "grouped"}
    assert found.selected in seconds and "reference" in found.deprioritized
