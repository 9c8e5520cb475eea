"""Who computes a call, who may, and that the answer is the same.

That ``attention`` keeps the contract is tested with the others; see
``implementations.py``.
"""

import itertools

import pytest
import torch
from torch import Tensor

import attn
from attn import api
from attn.backends import cpu_gqa, cpu_window, explain_torch
from attn.functional.inputs import validate
from tests.attn.cases import assert_as_exact, assert_exact
from tests.attn.cases import randn32 as randn
from tests.processes import run_python


def qkv(L=40, S=40, H=4, Hkv=2, dtype=torch.float32):
    return (
        randn(2, H, L, 8, dtype=dtype),
        randn(2, Hkv, S, 8, seed=1, dtype=dtype),
        randn(2, Hkv, S, 8, seed=2, dtype=dtype),
    )


def taken(*args, **options) -> str:
    return api.explain(*args, enable_gqa=True, **options).selected


def test_each_shape_of_call_goes_to_whom_it_suits():
    q, k, v = qkv()
    one = q[:, :, :1]
    assert taken(q, k, v) == "sdpa"
    assert taken(q, k, v, is_causal=True) == "sdpa"
    assert taken(q[:, :, :2], k, v) == "pack_gqa"
    assert taken(q[:, :, :2], k, v, is_causal=True, q_offset=38) == "pack_gqa"
    assert taken(one, q, q) == "sdpa", "nothing to pack"
    assert taken(q, k, v, softcap=2.0) == "grouped"
    assert taken(q, k, v, return_lse=True) == "grouped"
    assert taken(q, k, v, sinks=torch.zeros(4), dropout_p=0.1) == "grouped"
    q, k, v = qkv(1200, 1200)
    assert taken(q, k, v, window=(100, 0)) == "cpu_window"
    assert taken(q, k, v, window=(1000, 0)) == "sdpa"
    assert taken(q, k, v, window=(100, None)) == "sdpa"
    assert taken(q, k, v, window=(100, 0), softcap=2.0) == "grouped"


@pytest.mark.parametrize(
    ("group", "keys", "dtype", "who"),
    [
        (4, 2**10, torch.float32, "sdpa"),
        (4, 2**12, torch.float32, "pack_gqa"),
        (3, 2**12, torch.float32, "sdpa"),
        (3, 2**16, torch.float32, "pack_gqa"),
        (2, 2**10, torch.bfloat16, "pack_gqa"),
    ],
    ids=str,
)
def test_one_query_packs_its_group_where_that_pays(group, keys, dtype, who):
    """Measured on EPYC, one thread and two; large caches with AVX2 too."""
    key = torch.zeros(1, 2, keys, 32, dtype=dtype)
    one = torch.zeros(1, 2 * group, 1, 32, dtype=dtype)
    assert taken(one, key, key) == who
    transposed = key.mT.contiguous().mT
    if dtype == torch.float32:  # PyTorch would copy it
        assert taken(one, transposed, transposed) == "pack_gqa"


def test_many_scores_that_sdpa_cannot_take_are_tiled():
    q, k, v = (x.to("meta") for x in qkv(2**14, 2**14))
    assert taken(q, k, v, softcap=2.0) == "tiled"
    assert taken(q, k, v, softcap=2.0, dropout_p=0.1) == "grouped"


WINDOWS = ((5, 0), (0, 0), (3, 2), (0, 7), (60, 3))


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize(
    "L, S, q_offset",
    # Then with bands that end before the first key, and begin after the last.
    [(40, 40, 0), (7, 40, 33), (5, 40, -9), (5, 40, 110)],
)
@pytest.mark.parametrize("extra", ({}, {"is_causal": True}, {"scale": 0.3}))
def test_bands_are_exact(window, L, S, q_offset, extra, monkeypatch):
    monkeypatch.setattr(cpu_window, "BLOCK", 6)
    q, k, v = (x.double().requires_grad_() for x in qkv(L, S))
    said = {"enable_gqa": True, "window": window, "q_offset": q_offset}
    ours = api.attention(q, k, v, impl="cpu_window", **said, **extra)
    want = attn.scaled_dot_product_attention(q, k, v, **said, **extra)
    assert_exact(ours, want)
    seed = torch.ones_like(want).cumsum(-1)
    got = torch.autograd.grad(ours, (q, k, v), seed)
    assert_exact(got, torch.autograd.grad(want, (q, k, v), seed))


def test_similar_blocks_are_one_call_that_copies_no_key(monkeypatch, record):
    monkeypatch.setattr(cpu_window, "BLOCK", 8)
    calls = record(torch.nn.functional, "scaled_dot_product_attention")
    q, k, v = qkv(100, 100)
    said = {"window": (16, 0), "enable_gqa": True}
    out = api.attention(q, k, v, impl="cpu_window", **said)
    # Of 13 blocks of each row of the batch, three are cut off.
    assert [len(tensors[0]) for tensors, _ in calls] == [2, 2, 10, 10, 2]
    for given, used in zip((k, v), calls[2][0][1:3], strict=True):
        start, end = given.data_ptr(), given.numel() * given.element_size()
        assert start <= used.data_ptr() < start + end
    wide = [x.double() for x in (q, k, v)]
    assert_exact(out, attn.scaled_dot_product_attention(*wide, **said))


def test_bands_that_differ_by_place_keep_their_own_masks(monkeypatch):
    """Blocks share a mask only where the rules ask for a distance alone."""
    monkeypatch.setattr(cpu_window, "BLOCK", 6)
    q, k, v = (x.double() for x in qkv())
    valid = randn(2, 40, seed=4) > -0.5
    ids = (torch.arange(40) // 9).expand(2, -1)
    for rule in (attn.padding(valid), attn.documents(ids), attn.chunked(7)):
        said = {"enable_gqa": True, "attn_mask": attn.window(5, 3) & rule}
        ours = api.attention(q, k, v, impl="cpu_window", **said)
        assert_exact(ours, attn.scaled_dot_product_attention(q, k, v, **said))


MASKS = {
    "none": {},
    "causal": {"is_causal": True, "q_offset": 36},
    "top left": {"is_causal": True},
    "window": {"window": (9, 0), "q_offset": 36},
    "of rows": {"attn_mask": randn(2, 1, 1, 40) > 0},
    "of heads": {"attn_mask": randn(1, 4, 4, 40)},
    "padding": {"attn_mask": attn.padding(randn(2, 40) > -1)},
    "offsets": {"is_causal": True, "q_offset": torch.tensor([36, 5])},
}


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("length", (1, 4))
def test_packing_is_exact(name, length):
    q, k, v = (x.double() for x in qkv(length))
    said = {"enable_gqa": True, **MASKS[name]}
    if "attn_mask" in said and isinstance(said["attn_mask"], Tensor):
        mask = said["attn_mask"][..., :length, :]
        said["attn_mask"] = mask.double() if mask.is_floating_point() else mask
    ours = api.attention(q, k, v, impl="pack_gqa", **said)
    assert_exact(ours, attn.scaled_dot_product_attention(q, k, v, **said))


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16), ids=str)
def test_latents_of_two_widths_multiply_in_chunks(name, dtype, monkeypatch):
    """Values are a view of the keys, which are never copied."""
    monkeypatch.setattr(cpu_gqa, "CHUNK", 7)
    q, k, _ = (x.to(dtype) for x in qkv(4))
    v = k[..., :5]
    said = {"enable_gqa": True, **MASKS[name]}
    assert api.explain(q, k, v, **said).selected == "pack_gqa"
    mask = said.get("attn_mask")
    if isinstance(mask, Tensor) and mask.is_floating_point():
        said["attn_mask"] = mask.to(dtype)
    ours = api.attention(q, k, v, **said)
    assert_as_exact(ours, q, k, v, rival=attn.grouped_attention, **said)


def test_scores_of_bfloat16_are_not_rounded_to_it():
    """Of 50 and more, eight bits are off by a quarter: a weight by 28 %."""
    q, k = randn(16, 64) * 8, randn(40, 64, seed=1)
    q, k = q.bfloat16(), k.bfloat16()
    exact = q.double() @ k.double().mT
    rounded = (q @ k.mT - exact).abs().max()
    assert (cpu_gqa._scores(q, k) - exact).abs().max() < rounded / 50


@pytest.mark.parametrize("heads", (3, 4))
@pytest.mark.parametrize("batch", ((), (2,), (2, 3)), ids=str)
def test_multiplied_large_caches_are_exact(heads, batch, monkeypatch, record):
    """Keys times queries, which only pays for more than a test has."""
    monkeypatch.setattr(cpu_gqa, "LARGE_CACHE", 0)
    called = record(cpu_gqa, "_by_products")
    q = randn(*batch, 2 * heads, 1, 8).requires_grad_()
    k, v = randn(*batch, 2, 40, 8, seed=1), randn(*batch, 2, 40, 5, seed=2)
    k, v = k.requires_grad_(), v.requires_grad_()
    said = {"enable_gqa": True, "is_causal": True, "q_offset": 39}
    ours = api.attention(q, k, v, impl="pack_gqa", **said, scale=0.7)
    rival = attn.grouped_attention(q, k, v, **said, scale=0.7)
    wide = [x.detach().double().requires_grad_() for x in (q, k, v)]
    exact = attn.scaled_dot_product_attention(*wide, **said, scale=0.7)
    assert called
    assert_exact(ours, exact, rival)
    got = torch.autograd.grad(ours.sum(), (q, k, v))
    assert_exact(got, torch.autograd.grad(exact.sum(), wide))


def test_a_named_implementation_never_falls_back():
    q, k, v = qkv()
    for name, options, says in (
        ("sdpa", {"softcap": 1.0}, "sdpa cannot: softcap is given"),
        ("cpu_window", {}, "cpu_window cannot: no window"),
        ("pack_gqa", {"return_lse": True}, "computes no lse"),
        ("tiled", {"dropout_p": 0.5}, "has no dropout"),
        ("triton", {"dropout_p": 0.5}, "triton cannot: "),
    ):
        with pytest.raises(ValueError, match=says):
            api.attention(q, k, v, enable_gqa=True, impl=name, **options)
    with pytest.raises(ValueError, match="must be 'auto' or one of"):
        api.attention(q, k, k, enable_gqa=True, impl="flash")


@pytest.mark.parametrize("length", [5, 9, 33])
@pytest.mark.parametrize("query_dtype", [torch.float64, torch.bfloat16])
def test_a_float32_mask_beside_other_queries(length, query_dtype):
    """torch 2.13 misreads one beside float64: 8 keys with AVX2, 16 or more
    with AVX-512."""
    q, k, v = qkv(length, length, dtype=query_dtype)
    bias = randn(1, 4, length, length, seed=3)
    want = attn.scaled_dot_product_attention(q, k, v, bias, enable_gqa=True)
    for impl in ("sdpa", "pack_gqa", "auto"):
        got = api.attention(q, k, v, bias, enable_gqa=True, impl=impl)
        assert torch.allclose(got, want, atol=0.02, rtol=0.02), impl


@pytest.mark.parametrize("scale", [0.0, -0.7])
def test_a_causal_call_may_have_a_scale_of_0_or_below(scale):
    """torch 2.13's fused CPU kernel, with its flag, gives NaN."""
    q, k, v = (x.requires_grad_() for x in qkv(5, 5))
    options = {"is_causal": True, "scale": scale, "enable_gqa": True}
    want = attn.scaled_dot_product_attention(q, k, v, **options)
    exact = torch.autograd.grad(want.sum(), (q, k, v))
    for impl in ("sdpa", "tiled", "auto"):
        got = api.attention(q, k, v, impl=impl, **options)
        assert torch.allclose(got, want, atol=1e-6), impl
    found = torch.autograd.grad(got.sum(), (q, k, v))
    assert all(map(torch.allclose, found, exact, [1e-5] * 3, [1e-5] * 3))


def test_a_compiled_call_may_have_another_number_of_heads():
    """A graph then has no fixed sizes, and PyTorch's flag must be a bool."""
    compiled = torch.compile(api.attention, backend="eager", fullgraph=True)
    for heads in (2, 4, 3):
        q, k, v = torch.randn(3, 1, heads, 8, 16).half()
        want = api.attention(q, k, v, impl="sdpa")
        assert torch.equal(compiled(q, k, v), want)


def test_one_of_your_own_comes_last():
    api.register("last")(attn.grouped_attention)
    try:
        assert api.implementations()[-1] == "last"
    finally:
        api.registry.remove("last")


def test_a_mask_may_be_the_fourth_argument_everywhere():
    q, k, v = qkv()
    mask, options = attn.causal(), {"enable_gqa": True}
    for function in (api.explain, explain_torch, attn.attention_weights):
        fourth = function(q, k, v, mask, **options)
        named = function(q, k, v, attn_mask=mask, **options)
        without = function(q, k, v, **options)
        assert str(fourth) == str(named) != str(without)
    own = api.Registry()
    own.register("grouped")(attn.grouped_attention)
    tuned = api.autotune(q, k, v, mask, registry=own, **options)
    assert tuned.selected == "grouped"
    [tuning_key] = own.seconds
    assert "causal()" in tuning_key


def test_an_explanation_is_a_table_with_torchs_backends():
    q, k, v = qkv()
    found = api.explain(q, k, v, is_causal=True, enable_gqa=True)
    lines = str(found).splitlines()
    assert lines[0] == "attn"
    assert any(line.split() == ["sdpa", "selected"] for line in lines)
    assert any(x.split() == ["FLASH_ATTENTION", "selected"] for x in lines)
    assert found.torch.selected == "FLASH_ATTENTION"
    assert found["FLASH_ATTENTION"] == []
    mask = attn.causal() | attn.prefix(2)
    said = str(api.explain(q, k, v, mask, enable_gqa=True))
    assert str(mask) not in said, "the same in each line"


def test_nested_tensors_are_torchs():
    x = torch.nested.nested_tensor(
        [randn(n, 2, 8) for n in (3, 5)], layout=torch.jagged
    ).transpose(1, 2)
    found = api.explain(x, x, x)
    assert found.selected == "none"
    assert all("nested" in why for (why,) in found.reasons.values())


@pytest.mark.parametrize(
    ("L", "S", "q_offset", "window"),
    itertools.product((1, 3), (1, 4, 9), (-2, 0, 3, 8), ((2, 0), (9, 9))),
)
def test_rules_that_hide_nothing_are_known(L, S, q_offset, window):
    from attn.backends.sdpa import masks_nothing

    q, k = randn(1, L, 8), randn(1, S, 8)
    for options in ({"window": window}, {"is_causal": True}):
        call = validate(q, k, k, q_offset=q_offset, **options)
        assert masks_nothing(call) == bool(call.allowed().all())


WITHOUT_TRITON = """
import sys
sys.modules["triton"] = None
import torch
from attn import api
g = torch.Generator().manual_seed(0)
q, k, v = (torch.randn(1, h, 6, 8, generator=g) for h in (4, 2, 2))
said = {"is_causal": True, "enable_gqa": True, "softcap": 2.0}
print(api.explain(q, k, v, **said)["triton"][0])
print(api.attention(q, k, v, **said).double().sum().item())
"""


def test_without_triton_the_results_are_the_same():
    """As on macOS: its absence is a reason, and that is all."""
    done = run_python(WITHOUT_TRITON, check=True)
    reason, there = done.stdout.splitlines()
    assert reason == "triton is not installed: pip install triton"
    g = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, h, 6, 8, generator=g) for h in (4, 2, 2))
    here = attn.scaled_dot_product_attention(
        q, k, v, is_causal=True, enable_gqa=True, softcap=2.0
    )
    assert float(there) == pytest.approx(here.double().sum().item(), abs=1e-5)
