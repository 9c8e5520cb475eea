"""A call that was seen is neither validated nor selected again, and equal."""

import gc
import threading
import weakref

import pytest
import torch
import torch.nn.functional as F

import attn
from attn import api
from attn.backends import cpu_gqa, seen_calls
from attn.functional.inputs import validate
from tests.attn.cases import assert_as_exact, randn
from tests.attn.public_calls import With


def qkv(L=5, S=9, H=4, Hkv=2, seed=0, dtype=torch.float32):
    shapes = ((2, H, L, 8), (2, Hkv, S, 8), (2, Hkv, S, 8))
    return [
        randn(*shape, seed=seed + i).to(dtype)
        for i, shape in enumerate(shapes)
    ]


@pytest.fixture(autouse=True)
def unseen(monkeypatch):
    monkeypatch.setattr(seen_calls, "_outcomes", {})


@pytest.fixture
def validated(record):
    """Collect the calls that are validated."""
    return record(api, "validate")


OPTIONS = {
    "none": {},
    "causal": {"is_causal": True, "q_offset": 4},
    "window": {"window": (2, 0), "q_offset": 4},
    "capped": {"softcap": 2.0, "scale": 0.3},
    "lse": {"return_lse": True},
}


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16), ids=str)
def test_a_second_call_is_not_validated_and_as_exact(name, dtype, validated):
    said = {"enable_gqa": True, **OPTIONS[name]}
    for seed in (0, 10, 20):
        tensors = qkv(seed=seed, dtype=dtype)
        ours = attn.attention(*tensors, **said)
        rival = attn.grouped_attention
        assert_as_exact(ours, *tensors, rival=rival, **said)
    assert len(validated) == 1


def test_a_mask_is_the_one_of_the_call(validated):
    tensors = qkv()
    floats = [randn(2, 1, 5, 9, seed=i).float() for i in range(3)]
    for mask in (*floats, *(x > 0 for x in floats)):
        ours = attn.attention(*tensors, mask, enable_gqa=True)
        exact = attn.grouped_attention(*tensors, mask)
        assert torch.allclose(ours, exact, atol=1e-5)
    assert len(validated) == 2


@pytest.mark.parametrize(
    ("first", "second"),
    (
        ({"is_causal": True}, {"is_causal": 1}),
        ({"return_lse": True}, {"return_lse": 1}),
        ({"q_offset": 1}, {"q_offset": True}),
        ({"q_offset": 1}, {"q_offset": 1.0}),
        ({"dropout_p": 0.0}, {"dropout_p": False}),
        ({"scale": 1.0}, {"scale": True}),
        ({"softcap": 1.0}, {"softcap": True}),
        ({"window": (1, 0)}, {"window": (1, False)}),
        ({"scale": 1.0}, {"scale": [1.0]}),
    ),
    ids=str,
)
def test_equal_numbers_of_another_type_are_still_refused(first, second):
    said = {"enable_gqa": True, "q_offset": 4, "is_causal": True}
    attn.attention(*qkv(), **said | first)
    with pytest.raises(TypeError, match=f"{next(iter(second))} must be "):
        attn.attention(*qkv(), **said | second)


def test_shapes_layouts_and_gradients_tell_calls_apart(validated):
    q, k, v = qkv()
    said = {"enable_gqa": True}
    learned = k.clone().requires_grad_()
    for key in (k, learned):
        out = attn.attention(q, key, v, **said)
        assert torch.allclose(out, attn.grouped_attention(q, k, v), atol=1e-5)
    with pytest.raises(ValueError, match="one position for each key"):
        attn.attention(q, k[:, :, :-1], v, **said)
    with pytest.raises(TypeError, match="dtype of query"):
        attn.attention(q, k.double(), v, **said)
    with pytest.raises(TypeError, match="must be a dense tensor"):
        attn.attention(q, k.to_sparse(), v, **said)
    assert len(validated) == 5


def test_seen_calls_keep_no_tensor_alive():
    tensors = qkv()
    mask = randn(2, 1, 5, 9) > 0
    attn.attention(*tensors, mask, enable_gqa=True)
    known = [weakref.ref(x) for x in (*tensors, mask)]
    del tensors, mask
    gc.collect()
    assert seen_calls._outcomes and not any(ref() for ref in known)


def test_few_calls_are_kept(monkeypatch):
    monkeypatch.setattr(seen_calls, "MOST", 3)
    for length in range(1, 9):
        attn.attention(*qkv(L=length), enable_gqa=True)
        assert 0 < len(seen_calls._outcomes) <= 3


def test_what_is_registered_measured_or_named_later_counts(validated):
    tensors = qkv(Hkv=4)
    for _ in range(2):
        attn.attention(*tensors)
    sdpa = api.registry._own["sdpa"]
    order = dict(api.registry._own)
    try:
        api.registry.remove("sdpa")
        out = attn.attention(*tensors)
        assert torch.allclose(out, sdpa.function(validate(*tensors)))
    finally:
        api.registry._own = order
        api.registry._changed()
    with api.use_impl("reference"):
        attn.attention(*tensors)
    own = api.Registry(parent=api.registry)
    attn.attention(*tensors, registry=own)
    assert len(validated) == 4


def test_threads_share_seen_calls():
    sizes = [(L, S) for L in (1, 2, 3) for S in (4, 5, 6)]
    wrong, start = [], threading.Barrier(4)

    def run(seed):
        start.wait()
        for i in range(90):
            L, S = sizes[(i + seed) % len(sizes)]
            q, k, v = qkv(L=L, S=S, seed=seed)
            ours = attn.attention(q, k, v, enable_gqa=True)
            want = attn.grouped_attention(q, k, v)
            if not torch.allclose(ours, want, atol=1e-5):
                wrong.append((L, S))

    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and len(seen_calls._outcomes) == len(sizes)


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_a_traced_graph_has_no_memory():
    tensors = qkv()
    attn.attention(*tensors, enable_gqa=True)
    seen_calls._outcomes.clear()

    def call(*tensors):
        return attn.attention(*tensors, enable_gqa=True)

    module = With(None, lambda _, *tensors: call(*tensors))
    traced = torch.jit.trace(call, tuple(tensors), check_trace=False)
    exported = torch.export.export(module, tuple(tensors)).module()
    assert not seen_calls._outcomes
    for made in (traced, exported):
        assert torch.allclose(made(*tensors), call(*tensors), atol=1e-6)


@pytest.mark.parametrize("argument", ["query", "attn_mask"])
def test_a_call_that_was_seen_has_forward_mode_gradients(argument):
    query, key, value = qkv()
    given = {"query": query, "attn_mask": randn(5, 9, seed=3).float()}

    def attend(fn, x):
        inputs = {**given, argument: x}
        q, mask = inputs["query"], inputs["attn_mask"]
        return fn(q, key, value, mask, enable_gqa=True)

    x, tangent = given[argument], torch.ones_like(given[argument])
    attend(attn.attention, x)
    got, want = (
        torch.func.jvp(lambda x, fn=fn: attend(fn, x), (x,), (tangent,))
        for fn in (attn.attention, attn.scaled_dot_product_attention)
    )
    torch.testing.assert_close(got, want)


@pytest.mark.parametrize("which", range(3), ids=("query", "key", "value"))
def test_other_strides_are_another_call(which, validated):
    tensors = qkv(Hkv=4)
    attn.attention(*tensors)
    apart = [*tensors]
    apart[which] = apart[which].mT.contiguous().mT  # the same numbers
    ours = attn.attention(*apart)
    assert torch.allclose(ours, attn.grouped_attention(*tensors), atol=1e-5)
    assert len(validated) == 2


def test_a_call_that_pytorch_computes_alone_goes_straight_to_it():
    tensors = qkv(Hkv=4)
    before = attn.attention(*tensors)
    (outcome,) = seen_calls._outcomes.values()
    assert outcome.repeated.func is F.scaled_dot_product_attention
    assert outcome.repeated.keywords == {"dropout_p": 0.0, "scale": 8**-0.5}
    assert torch.equal(attn.attention(*tensors), before)
    attn.attention(*tensors, window=(2, 0), q_offset=4)  # a mask is made
    *_, outcome = seen_calls._outcomes.values()
    assert outcome.repeated is None


@pytest.mark.parametrize(
    ("said", "is_direct"),
    [({}, True), ({"dropout_p": 1.0}, True), (OPTIONS["window"], False)],
    ids=str,
)
def test_packed_groups_go_straight_to_it_without_a_mask(said, is_direct):
    tensors, said = qkv(L=2), {"enable_gqa": True, **said}
    first = attn.attention(*tensors, **said)
    (outcome,) = seen_calls._outcomes.values()
    assert outcome.implementation.function is cpu_gqa.run
    assert (outcome.repeated is not None) == is_direct
    assert torch.equal(attn.attention(*tensors, **said), first)
