"""One module for every kind of attention, compared with PyTorch's own."""

import copy
import itertools

import pytest
import torch
from torch import nn

from attn.nn import MultiHeadAttention
from tests.attn.cases import assert_exact, randn
from tests.attn.mha import B, E, H, L, S, make, pair


@pytest.mark.parametrize("bias", (False, True))
@pytest.mark.parametrize("packed", (False, True))
def test_pytorchs_state_dict_loads_into_packed_and_separate_ones(packed, bias):
    theirs, ours = pair(packed, bias)
    x, y = randn(B, L, E), randn(B, S, E, seed=1)
    for q, k, v in ((x, x, x), (x, y, y), (x, y, y + 1), (x, x, x + 1)):
        assert_exact(ours(q, k, v, need_weights=True), theirs(q, k, v))
        _, each = theirs(q, k, v, average_attn_weights=False)
        heads = ours(q, k, v, need_weights=True, average_attn_weights=False)
        assert_exact(heads[1], each)
        assert heads[1].shape == (B, H, L, k.shape[1])


@pytest.mark.parametrize("kdim,vdim", ((8, 10), (8, None), (None, 10)))
@pytest.mark.parametrize("bias", (False, True))
def test_keys_and_values_of_other_widths_equal_pytorchs(kdim, vdim, bias):
    theirs, ours = pair(False, bias, kdim, vdim)
    q, k = randn(B, L, E), randn(B, S, kdim or E, seed=1)
    v = randn(B, S, vdim or E, seed=2)
    assert_exact(ours(q, k, v), theirs(q, k, v)[0])


def test_packed_and_separate_projections_load_each_other():
    whole = make(MultiHeadAttention, E, 4, 2, packed=True)
    apart = MultiHeadAttention(E, 4, 2).double()
    apart.load_state_dict(whole.state_dict())
    again = MultiHeadAttention(E, 4, 2, packed=True).double()
    again.load_state_dict(apart.state_dict())
    x, y = randn(B, L, E), randn(B, S, E, seed=1)
    for inputs in ((x,), (x, y), (x, y, y + 1)):
        assert_exact(apart(*inputs), whole(*inputs))
        assert torch.equal(again(*inputs), whole(*inputs))
    before = copy.deepcopy(whole.state_dict())
    apart.load_state_dict(whole.state_dict())
    assert all(map(torch.equal, before.values(), whole.state_dict().values()))


def test_state_dicts_load_inside_a_larger_model():
    theirs, ours = pair()
    state = nn.ModuleDict({"inner": theirs}).state_dict()
    holder = nn.ModuleDict({"inner": MultiHeadAttention(E, H).double()})
    holder.load_state_dict(state)
    x = randn(B, L, E)
    assert_exact(holder["inner"](x), ours(x))


@pytest.mark.parametrize(
    "extra", ({"add_bias_kv": True}, {"embed_dim": 24}), ids=str
)
def test_a_state_dict_that_does_not_fit_is_refused(extra):
    theirs = nn.MultiheadAttention(**{"embed_dim": E, "num_heads": H, **extra})
    state = theirs.state_dict()
    for packed in (False, True):
        with pytest.raises(RuntimeError, match="state_dict"):
            MultiHeadAttention(E, H, packed=packed).load_state_dict(state)


def masks():
    """Our mask and torch's: True is the other way, heads are flattened."""
    g = torch.Generator().manual_seed(3)
    for shape in ((L, S), (B, H, L, S)):
        keep = torch.rand(shape, generator=g) < 0.7
        keep[..., 0] = True  # torch gives NaN to a row without keys
        bias = torch.randn(shape, generator=g, dtype=torch.float64)
        low = bias.masked_fill(~keep, -torch.inf)
        for ours, theirs in ((keep, ~keep), (bias, bias), (low, low)):
            flat = theirs.flatten(0, 1) if theirs.dim() == 4 else theirs
            yield ours, flat
    yield None, None


def paddings():
    """torch's key_padding_mask, which is ours."""
    pad = torch.zeros(B, S, dtype=torch.bool)
    pad[0, 4:] = pad[1, :2] = True
    pad[:, 2] = False
    yield None
    yield pad
    yield randn(B, S, seed=5)


@pytest.mark.parametrize("packed", (False, True))
@pytest.mark.filterwarnings("ignore:Support for mismatched")
@pytest.mark.parametrize("mask,padding", itertools.product(range(7), range(3)))
def test_every_mask_with_every_padding_equals_pytorchs(mask, padding, packed):
    theirs, ours = pair(packed)
    mine, flat = list(masks())[mask]
    pad = list(paddings())[padding]
    if mine is not None and pad is not None and pad.dtype == torch.bool:
        if mine.dtype == torch.bool:
            mine[..., 2] = True
            flat[..., 2] = False
        else:
            mine[..., 2] = flat[..., 2] = 0.5
    q, k = randn(B, L, E), randn(B, S, E, seed=1)
    options = {"key_padding_mask": pad, "average_attn_weights": False}
    rival = theirs(q, k, k, attn_mask=flat, **options)
    out = ours(q, k, attn_mask=mine, need_weights=True, **options)
    assert_exact(out, rival)


def test_causal_self_attention_equals_pytorchs():
    theirs, ours = pair(is_causal=True)
    x = randn(B, L, E)
    upper = torch.ones(L, L, dtype=torch.bool).triu(1)
    assert_exact(ours(x), theirs(x, x, x, attn_mask=upper)[0])
    assert_exact(ours(x, is_causal=False), theirs(x, x, x)[0])
    future = x.clone()
    future[:, 3:] += 1
    assert torch.equal(ours(future)[:, :3], ours(x)[:, :3])


def test_an_input_without_a_batch_axis_equals_pytorchs():
    theirs, ours = pair()
    q, k = randn(L, E), randn(S, E, seed=1)
    pad = torch.tensor([False] * 5 + [True] * 2)
    rival = theirs(q, k, k, key_padding_mask=pad)
    assert_exact(ours(q, k, key_padding_mask=pad, need_weights=True), rival)


def test_float32_and_bfloat16_are_as_exact_as_torchs():
    for dtype in (torch.float32, torch.bfloat16):
        theirs, ours = (m.to(dtype) for m in pair())
        wide = copy.deepcopy(ours).double()
        x = randn(B, L, E).to(dtype)
        out = ours(x)
        assert out.dtype == dtype
        assert_exact(out, wide(x.double()), theirs(x, x, x)[0])
