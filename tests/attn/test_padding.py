"""Padding is one mask, whichever of the three usual forms it is given in."""

import pytest
import torch
from torch.nn.attention.flex_attention import create_mask

import attn
from attn import causal, padding
from tests.attn.refusals import refused

S = 5
LENGTHS = torch.tensor([3, 5, 0])
VALID = torch.arange(S) < LENGTHS[:, None]  # (B, S)
FORMS = {
    "lengths": padding(LENGTHS),
    "lengths in 8 bits": padding(LENGTHS.to(torch.uint8)),
    "a tokenizer's": padding(VALID.long()),
    "a tokenizer's in 32 bits": padding(VALID.int()),
}
every_form = pytest.mark.parametrize("mask", FORMS.values(), ids=FORMS)


def pairs(a, b):
    other = causal()
    yield a, b
    yield a & other, b & other
    yield other | a, other | b
    yield ~a, ~b
    yield ~(a & other) | a, ~(b & other) | b
    yield a.shift(q=1), b.shift(q=1)
    yield a.shift(kv=-1), b.shift(kv=-1)


@every_form
def test_every_form_of_padding_equals_the_bool_mask(mask):
    for ours, same in pairs(mask, padding(VALID)):
        at = {"batch": 3, "heads": 2, "q_offset": 1}
        assert torch.equal(ours.dense(4, S, **at), same.dense(4, S, **at))
        bias = ours.bias(torch.bfloat16, 4, S, **at)
        assert torch.equal(bias, same.bias(torch.bfloat16, 4, S, **at))
        assert ours.uses_query == same.uses_query
        blocks, theirs = (
            m.block_mask(4, S, batch=3, q_offset=1, block_size=2)
            for m in (ours, same)
        )
        assert torch.equal(blocks.to_dense(), theirs.to_dense())
        made = create_mask(ours, 3, 1, 4, S, device="cpu")
        assert torch.equal(made, same.dense(4, S, batch=3))


def test_lengths_serve_any_number_of_keys():
    mask = padding(LENGTHS)
    wide = mask.dense(1, 9, batch=3)[:, 0, 0]  # (B, S)
    assert torch.equal(wide, torch.arange(9) < LENGTHS[:, None])
    assert mask.shift(kv=2).dense(1, 2, batch=3).sum() == 1 + 2, "a block"
    shared = padding(torch.tensor([2])).dense(1, 3, batch=4)
    assert shared[:, 0, 0].tolist() == [[True, True, False]] * 4


def test_padding_is_printed_by_shape_and_form():
    assert repr(padding(VALID.long())) == "padding((3, 5))"
    assert repr(padding(LENGTHS)) == "padding(lengths (3,))"
    assert repr(causal() & padding(LENGTHS)) == (
        "causal() & padding(lengths (3,))"
    )


def test_padding_follows_lengths_that_change_in_place():
    """A decoding loop adds to them in place."""
    lengths = torch.tensor([2, 3])
    mask = padding(lengths)
    lengths += 1
    assert mask.dense(1, S, batch=2).sum() == 3 + 4


Q = torch.zeros(2, 1, 3, 4)
REFUSED = {
    r"valid must have shape \(S,\) or .*lengths; got \(1, 1, 3\)": (
        lambda: padding(torch.ones(1, 1, 3).long())
    ),
    # the segments of packed rows
    "valid must be 1 for a real token .*; got values from 0 to 2": (
        lambda: padding(torch.tensor([[1, 1, 2], [1, 1, 0]]))
    ),
    "valid must be 1 for a real token .*; got values from -1 to 1": (
        lambda: padding(torch.tensor([[1, -1]]))
    ),
    "valid must have lengths of 0 or more; got -1": (
        lambda: padding(torch.tensor([3, -1]))
    ),
    r"not be ambiguous; got .*\(3,\), all 0 or 1: pass valid.bool\(\)": (
        lambda: padding(torch.tensor([1, 1, 0]))
    ),
    "padding.* must have lengths of at most .* keys, 3; got 4": (
        lambda: padding(torch.tensor([3, 4])).dense(1, 3, batch=2)
    ),
    "padding.* must have lengths of at most .* keys, 3; got 5": (
        lambda: padding(torch.tensor([3, 5])).block_mask(1, 3, batch=2)
    ),
    "padding.* must have lengths of at most .* keys, 3; got 6": (
        lambda: attn.tiled_attention(
            Q, Q, Q, padding(torch.tensor([3, 6])), block_k=1
        )
    ),
    "padding.* must have lengths of at most .* keys, 3; got 9": (
        lambda: attn.attention(
            Q, Q, Q, padding(torch.tensor([2, 9])) & causal(), impl="sdpa"
        )
    ),
    "padding.* must have one row.*batch row, 2; got 3": (
        lambda: attn.attention(Q, Q, Q, padding(torch.tensor([3, 2, 3])))
    ),
}
test_invalid_padding_is_refused = refused(REFUSED, ValueError)


def test_padding_must_be_a_bool_or_integer_tensor():
    with pytest.raises(TypeError, match="bool or integer .*got torch.float32"):
        padding(torch.ones(2, 3))
    with pytest.raises(TypeError, match="bool or integer tensor.* got list"):
        padding([3, 2])


def test_padding_and_causality_compile_for_every_length():
    def keep(valid):
        mask = padding(valid) & causal()
        return mask.dense(valid.shape[1], batch=len(valid))

    whole = torch.compile(keep, backend="eager", fullgraph=True, dynamic=True)
    for shape in ((2, 5), (3, 7)):
        valid = torch.rand(shape) < 0.6
        assert torch.equal(whole(valid), keep(valid))
