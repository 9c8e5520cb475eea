"""The functions beside attention answer a wrong argument as clearly."""

import pytest
import torch

import attn
from tests.attn.models import small_llama
from tests.attn.refusals import refused


def x(*shape):
    return torch.zeros(shape)


def integers(*shape):
    return torch.zeros(shape, dtype=torch.int64)


def mask_of(*shape):
    return torch.ones(shape, dtype=torch.bool)


PADDING = attn.padding(mask_of(2, 3))
MODEL = small_llama()
INTEGERS = "must be an integer tensor; got"
TYPE_ERRORS = {
    "right must be an int, at least 0; got 1.0": lambda: attn.window(0, 1.0),
    "size must be an int, at least 1; got '3'": lambda: attn.chunked("3"),
    f"length {INTEGERS} torch.float32": lambda: attn.prefix(x(2)),
    f"ids {INTEGERS} torch.float32": lambda: attn.documents(x(3)),
    f"ids {INTEGERS} list": lambda: attn.documents([0, 1]),
    "predicate must be a function .*; got a tensor": (
        lambda: attn.Mask(mask_of(3, 3))
    ),
    "the predicate of Mask.* must .*; got TypeError: .* takes 2": (
        lambda: attn.Mask(lambda q, k: q >= k).dense(3)
    ),
    "the predicate of Mask.*without if, and, or; got RuntimeError: Boolean": (
        lambda: attn.Mask(lambda b, h, q, k: q > k and k > 1).dense(3)
    ),
    "q must be an int; got 1.0": lambda: attn.causal().shift(q=1.0),
    "dtype must be floating; got torch.int64": (
        lambda: attn.causal().bias(torch.int64, 3)
    ),
    "attn_mask must be a tensor; got Mask: Mask.dense": (
        lambda: attn.simple_attention(*[x(1, 3, 8)] * 3, attn.causal())
    ),
    "key_padding_mask must be a tensor .*; got Mask: a Mask is an attn_mask": (
        lambda: attn.MultiHeadAttention(8, 2)(
            x(1, 3, 8), key_padding_mask=PADDING
        )
    ),
    "attention_mask must be a tensor .*; got Mask: a Mask is an attn_mask": (
        lambda: MODEL(integers(2, 3), attention_mask=PADDING)
    ),
    "config must be a TransformerConfig; got its fields: Transformer"
    r"\(TransformerConfig\(vocab_size, embed_dim\)\)": (
        lambda: attn.Transformer(vocab_size=5, embed_dim=8)
    ),
    "x must be a float tensor; got torch.int64": (
        lambda: attn.softmax(integers(2))
    ),
}
VALUE_ERRORS = {
    r"one for each batch row, 1; got 2: pass batch=2; plot.mask draws one": (
        lambda: PADDING.dense(3)
    ),
    "left must be an int, at least 0; got -1": lambda: attn.window(-1),
    "size must be an int, at least 1; got 0": lambda: attn.sliding_window(0),
    "length must be an int, at least 0; got -2": lambda: attn.prefix(-2),
    r"length must have shape \(B,\); got \(2, 2\)": (
        lambda: attn.prefix(integers(2, 2))
    ),
    r"ids must have shape \(S,\) or \(B, S\); got \(1, 1, 3\)": (
        lambda: attn.documents(integers(1, 1, 3))
    ),
    "masks must have equally many rows; got 2 and 3": (
        lambda: PADDING & attn.padding(mask_of(3, 3))
    ),
    r"q_offset must .*\(1,\); got shape \(2,\)": (
        lambda: attn.causal().dense(3, q_offset=torch.tensor([1, 2]))
    ),
    "n_rep must be an int, at least 1; got 0": (
        lambda: attn.repeat_kv(x(2, 4, 3, 8), 0)
    ),
    r"x must have a head axis.*; got \(3, 4\)": (
        lambda: attn.repeat_kv(x(3, 4), 2)
    ),
    "num_kv_heads must be a divisor of num_heads, 6; got 4": (
        lambda: attn.pool_heads(x(12, 5), 6, 4)
    ),
    "weight must be a multiple of num_heads, 6; got 13": (
        lambda: attn.pool_heads(x(13, 5), 6, 3)
    ),
    "x must be a multiple of num_heads, 3; got 10": (
        lambda: attn.split_heads(x(2, 10), 3)
    ),
    r"x must be \(..., L, H \* D\); got \(10,\)": (
        lambda: attn.split_heads(x(10), 2)
    ),
    r"x must be \(..., H, L, D\); got \(3, 4\)": (
        lambda: attn.merge_heads(x(3, 4))
    ),
    r"query must have two axes.*; got \(2, 4, 3, 8\)": (
        lambda: attn.attention_loops(*[x(2, 4, 3, 8)] * 3)
    ),
}


CAUSAL, ONES = attn.causal(), mask_of(3, 3)
COMBINED = {
    r"causal\(\) must be combined with &, \| and ~; got and, or, not": (
        lambda: CAUSAL and PADDING,
        lambda: not CAUSAL,
        lambda: all([CAUSAL]),
        lambda: [*CAUSAL],
        lambda: 3 in CAUSAL,
    ),
    "& must be a Mask; got Tensor: mask.dense": (
        lambda: CAUSAL & ONES,
        lambda: ONES & CAUSAL,
    ),
    r"\| must be a Mask; got ndarray: mask.dense.* attn.padding": (
        lambda: CAUSAL | ONES.numpy(),
        lambda: ONES.numpy() | CAUSAL,
    ),
    "& must be a Mask; got function: attn.Mask.function. is one": (
        lambda: CAUSAL & CAUSAL.predicate,
    ),
}


@pytest.mark.parametrize("says", COMBINED)
def test_what_would_drop_a_mask_names_the_operators(says):
    for call in COMBINED[says]:
        with pytest.raises(TypeError, match=says):
            call()


test_wrong_types_elsewhere_are_refused = refused(TYPE_ERRORS, TypeError)
test_wrong_values_elsewhere_are_refused = refused(VALUE_ERRORS, ValueError)


def test_an_unknown_name_of_attn_raises_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'flash'"):
        attn.flash  # noqa: B018
