"""``explain`` says what torch does: its sentences are checked by running."""

import re
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import attn
from attn.backends import explain_torch, sdpa_backends

BACKENDS = (
    "FLASH_ATTENTION",
    "EFFICIENT_ATTENTION",
    "CUDNN_ATTENTION",
    "MATH",
)


def a_call(
    batch=(2, 2, 2), heads=(4, 4), lengths=(3, 5), dims=(8, 8), **arguments
):
    """Query, key and value of those sizes, and the other arguments."""
    (B, Bk, Bv), (H, Hkv), (L, S), (D, Dv) = batch, heads, lengths, dims
    dtype = arguments.pop("dtype", torch.float32)
    shapes = ((B, H, L, D), (Bk, Hkv, S, D), (Bv, Hkv, S, Dv))
    g = torch.Generator().manual_seed(0)
    qkv = [torch.randn(s, generator=g).to(dtype) for s in shapes]
    change = arguments.pop("change", lambda x: x)
    return [change(x) for x in qkv], {"enable_gqa": Hkv != H, **arguments}


def sideways(x):
    return x.mT.contiguous().mT


MASKS = {
    "no mask": None,
    "mask of two axes": torch.ones(3, 5, dtype=torch.bool),
    "mask of one row": torch.zeros(1, 5),
    "mask of three axes": torch.ones(1, 3, 5, dtype=torch.bool),
    "mask of four axes": torch.ones(2, 1, 3, 5, dtype=torch.bool),
    "mask that needs a gradient": torch.zeros(3, 5, requires_grad=True),
}
GRID = {
    f"{name}, {mask}, dropout {p}, causal {is_causal}": a_call(
        **sizes, attn_mask=MASKS[mask], dropout_p=p, is_causal=is_causal
    )
    for name, sizes in {
        "plain": {},
        "gqa": {"heads": (4, 2)},
        "one query": {"lengths": (3, 5), "heads": (1, 1)},
        "value dim differs": {"dims": (8, 6)},
        "odd head_dim": {"dims": (7, 7)},
        "large head_dim": {"dims": (300, 300)},
        "batch broadcasts": {"batch": (2, 1, 1)},
        "one query batch": {"batch": (1, 2, 2)},
        "double": {"dtype": torch.float64},
        "half": {"dtype": torch.float16},
        "bfloat16": {"dtype": torch.bfloat16},
        "not contiguous": {"change": sideways},
        "needs a gradient": {"change": lambda x: x.requires_grad_()},
    }.items()
    for mask in MASKS
    for p in (0.0, 0.1)
    for is_causal in (False, True)
} | {
    "two axes": a_call(change=lambda x: x[0, 0]),
    "three axes": a_call(change=lambda x: x[0]),
    "five axes": a_call(change=lambda x: x[None]),
    "three axes, gqa": a_call(heads=(4, 2), change=lambda x: x[0]),
    "a scale": a_call(scale=0.3),
    "head_dim 1, stored sideways": a_call(dims=(1, 1), change=sideways),
}


def runs(backend, qkv, arguments):
    with warnings.catch_warnings(), sdpa_kernel(getattr(SDPBackend, backend)):
        warnings.simplefilter("ignore")
        try:
            F.scaled_dot_product_attention(*qkv, **arguments)
        except RuntimeError:
            return False
    return True


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_backend_without_reasons_runs_and_one_with_reasons_raises(backend):
    assert GRID
    for name, (qkv, arguments) in GRID.items():
        reasons = explain_torch(*qkv, **arguments)[backend]
        assert runs(backend, qkv, arguments) == (not reasons), (name, reasons)


def test_the_selected_backend_is_the_one_that_torch_chooses():
    seen = set()
    for name, (qkv, arguments) in GRID.items():
        taken = explain_torch(*qkv, **arguments).selected
        index = torch._fused_sdp_choice(*qkv, **arguments)
        seen.add(taken)
        if taken is None:  # torch chooses one, which then raises
            with pytest.raises(RuntimeError):
                F.scaled_dot_product_attention(*qkv, **arguments)
        else:
            assert int(getattr(SDPBackend, taken)) == index, name
    assert seen == {"FLASH_ATTENTION", "MATH", None}


def test_reasons_are_given_exactly_where_torch_warns():
    """The path that other devices use, on calls whose answer is known."""
    for name, (qkv, arguments) in GRID.items():
        inputs = attn.functional.inputs.validate(*qkv, **arguments)
        full = {
            "attn_mask": None,
            "dropout_p": 0.0,
            "is_causal": False,
            "scale": None,
        }
        call = sdpa_backends._Given(*qkv, **(full | arguments), inputs=inputs)
        ours = explain_torch(*qkv, **arguments)["FLASH_ATTENTION"]
        words = sdpa_backends._in_torchs_words("FLASH_ATTENTION", call)
        assert bool(ours) == bool(words), (name, ours, words)
    qkv, arguments = GRID["two axes"]
    call = sdpa_backends._Given(*qkv, None, 0.0, False, None, False, inputs)
    words = " ".join(sdpa_backends._in_torchs_words("FLASH_ATTENTION", call))
    assert "4 dimensional" in words and "not used because" not in words


@pytest.mark.parametrize(
    "about,call",
    (
        ("dropout_p", a_call(dropout_p=0.5)),
        ("head_dim", a_call(dims=(8, 6))),
        ("axes", a_call(change=lambda x: x[0])),
        ("stride", a_call(change=sideways)),
        ("batch sizes are 2 and 1", a_call(batch=(2, 1, 1))),
        ("three|3", a_call(attn_mask=torch.ones(1, 3, 5))),
        ("gradient", a_call(attn_mask=MASKS["mask that needs a gradient"])),
    ),
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_each_reason_against_flash_on_the_cpu_is_named(about, call):
    qkv, arguments = call
    text = " ".join(explain_torch(*qkv, **arguments)["FLASH_ATTENTION"])
    assert re.search(about, text), text
    assert explain_torch(*qkv, **arguments).selected == "MATH"


def test_all_reasons_are_listed_not_only_the_first():
    qkv, arguments = a_call(batch=(2, 1, 1), dims=(8, 6), dropout_p=0.1)
    assert len(explain_torch(*qkv, **arguments)["FLASH_ATTENTION"]) == 3


@pytest.mark.parametrize(
    "name,argument",
    (
        ("softcap", {"softcap": 30.0}),
        ("sinks", {"sinks": torch.zeros(4)}),
        ("window", {"window": (1, 0), "q_offset": 2}),
        ("q_offset", {"is_causal": True, "q_offset": 2}),
        ("attn_mask", {"attn_mask": attn.causal(), "q_offset": 0}),
        ("return_lse", {"return_lse": True}),
    ),
)
def test_options_that_torch_lacks_rule_out_every_backend(name, argument):
    qkv, arguments = a_call(**argument)
    explanation = explain_torch(*qkv, **arguments)
    assert explanation.selected is None
    for backend in BACKENDS:
        assert any(name in reason for reason in explanation[backend])


def test_a_disabled_backend_is_reported_as_switched_off():
    qkv, arguments = a_call()
    with sdpa_kernel(SDPBackend.MATH):
        found = explain_torch(*qkv, **arguments)
    assert found.selected == "MATH"
    assert found["FLASH_ATTENTION"] == ["it is switched off (sdpa_kernel)"]
    assert found["MATH"] == []


def test_an_empty_call_needs_no_backend():
    qkv, arguments = a_call(lengths=(3, 0))
    explanation = explain_torch(*qkv, **arguments)
    assert explanation.selected is None
    assert all("empty" in " ".join(explanation[b]) for b in BACKENDS)
    assert all(runs(b, qkv, arguments) for b in BACKENDS)


def jagged(contiguous=True):
    parts = [torch.randn(3, 4, 8), torch.randn(5, 4, 8)]
    x = torch.nested.nested_tensor(parts, layout=torch.jagged)
    if not contiguous:
        packed = [torch.cat((part, part), -1) for part in parts]
        x = torch.nested.nested_tensor(packed, layout=torch.jagged)
        x = x.chunk(2, -1)[0]
    return x.transpose(1, 2)


@pytest.mark.parametrize(
    "arguments",
    ({}, {"is_causal": True}, {"dropout_p": 0.1}),
    ids=("plain", "causal", "dropout"),
)
@pytest.mark.parametrize("contiguous", (True, False))
@pytest.mark.filterwarnings("ignore")
def test_nested_tensors_run_where_explain_says_so(contiguous, arguments):
    x = jagged(contiguous)
    found = explain_torch(x, x, x, **arguments)
    for backend in BACKENDS:
        assert runs(backend, (x, x, x), arguments) == (not found[backend])
    assert found.selected == (None if found["MATH"] else "MATH")
    if not contiguous:
        assert "contiguous()" in " ".join(found["MATH"])


def test_nested_tensors_refuse_masks_and_dense_tensors():
    x = jagged()
    explanation = explain_torch(x, x, x, attn_mask=torch.ones(5, 5))
    assert "attn_mask" in " ".join(explanation["MATH"])
    with pytest.raises(TypeError, match="key must be a jagged nested tensor"):
        explain_torch(x, torch.randn(2, 4, 5, 8), x)


def test_explain_torch_validates_a_call_as_attention_does():
    qkv, arguments = a_call(heads=(4, 2))
    with pytest.raises(ValueError, match="enable_gqa"):
        explain_torch(*qkv)


def test_a_device_without_fused_kernels_selects_math():
    qkv, arguments = a_call(change=lambda x: x.to("meta"))
    explanation = explain_torch(*qkv, **arguments)
    assert explanation.selected == "MATH"
    assert explanation["FLASH_ATTENTION"] == ["torch has none for meta"]


def test_an_explanation_prints_as_a_table():
    qkv, arguments = a_call(dropout_p=0.1)
    assert str(explain_torch(*qkv, **arguments)).splitlines() == [
        "FLASH_ATTENTION      no: dropout_p is 0.1: it has no dropout",
        "EFFICIENT_ATTENTION  no: the tensors are on the CPU: it needs a GPU",
        "MATH                 selected",
        "CUDNN_ATTENTION      no: the tensors are on the CPU: it needs a GPU",
    ]


def test_explain_torch_computes_nothing_and_does_not_warn():
    state = torch.random.get_rng_state()
    qkv, arguments = a_call(dropout_p=0.1)
    with warnings.catch_warnings(action="error"):
        explain_torch(*qkv, **arguments)
    assert torch.equal(state, torch.random.get_rng_state())
