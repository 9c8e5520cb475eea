"""The functions beside attention answer a wrong argument as clearly."""

from __future__ import annotations

import pytest
import torch

import attn

Q, K, V = (torch.zeros(2, 4, 3, 8) for _ in range(3))


def x(*shape):
    return torch.zeros(shape)


def mask_of(*shape):
    return torch.ones(shape, dtype=torch.bool)


A_MASK = attn.padding(mask_of(2, 3))
OTHERS = {
    "window(-1)": (
        lambda: attn.window(-1),
        ValueError,
        "left must be 0 or more; got -1",
    ),
    "window(right=1.0)": (
        lambda: attn.window(right=1.0),
        TypeError,
        "right must be an int; got 1.0",
    ),
    "sliding_window(0)": (
        lambda: attn.sliding_window(0),
        ValueError,
        "size must be 1 or more; got 0",
    ),
    "chunked('3')": (
        lambda: attn.chunked("3"),
        TypeError,
        "size must be an int; got '3'",
    ),
    "prefix(-2)": (
        lambda: attn.prefix(-2),
        ValueError,
        "length must be 0 or more; got -2",
    ),
    "prefix of floats": (
        lambda: attn.prefix(x(2)),
        TypeError,
        "length must be an integer tensor; got torch.float32",
    ),
    "prefix of two axes": (
        lambda: attn.prefix(torch.zeros(2, 2, dtype=torch.int64)),
        ValueError,
        r"length must have shape \(B,\); got \(2, 2\)",
    ),
    "documents of floats": (
        lambda: attn.documents(x(3)),
        TypeError,
        "ids must be an integer tensor; got torch.float32",
    ),
    "documents as a list": (
        lambda: attn.documents([0, 1]),
        TypeError,
        "ids must be an integer tensor; got list",
    ),
    "documents of three axes": (
        lambda: attn.documents(torch.zeros(1, 1, 3, dtype=torch.int64)),
        ValueError,
        r"ids must have shape \(S,\) or \(B, S\); got \(1, 1, 3\)",
    ),
    "Mask of a tensor": (
        lambda: attn.Mask(mask_of(3, 3)),
        TypeError,
        "predicate must be a function .*; got Tensor",
    ),
    "masks of different batches": (
        lambda: A_MASK & attn.padding(mask_of(3, 3)),
        ValueError,
        "masks must have equally many rows; got 2 and 3",
    ),
    "a mask and a tensor": (
        lambda: attn.causal() & mask_of(3, 3),
        TypeError,
        "&.*'Mask'",
    ),
    "shift by a float": (
        lambda: attn.causal().shift(q=1.0),
        TypeError,
        "q must be an int; got 1.0",
    ),
    "bias of integers": (
        lambda: attn.causal().bias(torch.int64, 3),
        TypeError,
        "dtype must be floating; got torch.int64",
    ),
    "dense with the offsets of another batch": (
        lambda: attn.causal().dense(3, q_offset=torch.tensor([1, 2])),
        ValueError,
        r"q_offset must .*\(1,\); got shape \(2,\)",
    ),
    "softmax of integers": (
        lambda: attn.softmax(torch.tensor([1, 2])),
        TypeError,
        "x must be a float tensor; got torch.int64",
    ),
    "repeat_kv by 0": (
        lambda: attn.repeat_kv(K, 0),
        ValueError,
        "n_rep must be an int, at least 1; got 0",
    ),
    "repeat_kv without heads": (
        lambda: attn.repeat_kv(x(3, 4), 2),
        ValueError,
        r"x must have a head axis.*; got \(3, 4\)",
    ),
    "pool_heads that do not divide": (
        lambda: attn.pool_heads(x(12, 5), 6, 4),
        ValueError,
        "num_kv_heads must be a divisor of num_heads, 6; got 4",
    ),
    "pool_heads of a wrong weight": (
        lambda: attn.pool_heads(x(13, 5), 6, 3),
        ValueError,
        "weight must be a multiple of num_heads, 6; got 13",
    ),
    "split_heads that do not divide": (
        lambda: attn.split_heads(x(2, 10), 3),
        ValueError,
        "x must be a multiple of num_heads, 3; got 10",
    ),
    "split_heads of one axis": (
        lambda: attn.split_heads(x(10), 2),
        ValueError,
        r"x must be \(..., L, H \* D\); got \(10,\)",
    ),
    "merge_heads without heads": (
        lambda: attn.merge_heads(x(3, 4)),
        ValueError,
        r"x must be \(..., H, L, D\); got \(3, 4\)",
    ),
    "attention_loops of a batch": (
        lambda: attn.attention_loops(Q, K, V),
        ValueError,
        r"query must have two axes.*; got \(2, 4, 3, 8\)",
    ),
    "a name that is not there": (
        lambda: attn.flash,
        AttributeError,
        "no attribute 'flash'",
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_wrong_argument_of_a_smaller_function_raises_a_clear_error(name):
    call, error, message = OTHERS[name]
    with pytest.raises(error, match=message):
        call()
