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
        "left is -1: .*0 or more",
    ),
    "window(right=1.0)": (
        lambda: attn.window(right=1.0),
        TypeError,
        "right is 1.0: .*int",
    ),
    "sliding_window(0)": (
        lambda: attn.sliding_window(0),
        ValueError,
        "size is 0: .*1 or more",
    ),
    "chunked('3')": (
        lambda: attn.chunked("3"),
        TypeError,
        "size is '3': .*int",
    ),
    "prefix(-2)": (
        lambda: attn.prefix(-2),
        ValueError,
        "length is -2: .*0 or more",
    ),
    "prefix of floats": (
        lambda: attn.prefix(x(2)),
        TypeError,
        "length is torch.float32: .*integer tensor",
    ),
    "prefix of two axes": (
        lambda: attn.prefix(torch.zeros(2, 2, dtype=torch.int64)),
        ValueError,
        r"length has shape \(2, 2\): .*\(B,\)",
    ),
    "documents of floats": (
        lambda: attn.documents(x(3)),
        TypeError,
        "ids is torch.float32: .*integer tensor",
    ),
    "documents as a list": (
        lambda: attn.documents([0, 1]),
        TypeError,
        "ids is list: .*integer",
    ),
    "documents of three axes": (
        lambda: attn.documents(torch.zeros(1, 1, 3, dtype=torch.int64)),
        ValueError,
        r"ids has shape \(1, 1, 3\): .*\(S,\) or \(B, S\)",
    ),
    "padding of integers": (
        lambda: attn.padding(torch.ones(3, dtype=torch.int64)),
        TypeError,
        "valid is torch.int64: .*bool tensor, True for a real token",
    ),
    "padding of three axes": (
        lambda: attn.padding(mask_of(1, 1, 3)),
        ValueError,
        r"valid has shape \(1, 1, 3\): .*\(S,\) or \(B, S\)",
    ),
    "Mask of a tensor": (
        lambda: attn.Mask(mask_of(3, 3)),
        TypeError,
        "predicate is a Tensor: .*a function",
    ),
    "masks of different batches": (
        lambda: A_MASK & attn.padding(mask_of(3, 3)),
        ValueError,
        "masks have 2 and 3 rows: .*the same",
    ),
    "a mask and a tensor": (
        lambda: attn.causal() & mask_of(3, 3),
        TypeError,
        "&.*'Mask'",
    ),
    "shift by a float": (
        lambda: attn.causal().shift(q=1.0),
        TypeError,
        "q is 1.0: shift needs an int",
    ),
    "bias of integers": (
        lambda: attn.causal().bias(torch.int64, 3),
        TypeError,
        "dtype is torch.int64: .*float dtype",
    ),
    "dense with the offsets of another batch": (
        lambda: attn.causal().dense(3, q_offset=torch.tensor([1, 2])),
        ValueError,
        r"q_offset has shape \(2,\): .*\(1,\)",
    ),
    "softmax of integers": (
        lambda: attn.softmax(torch.tensor([1, 2])),
        TypeError,
        "x is torch.int64: .*float tensor",
    ),
    "repeat_kv by 0": (
        lambda: attn.repeat_kv(K, 0),
        ValueError,
        "n_rep is 0: .*at least 1",
    ),
    "repeat_kv without heads": (
        lambda: attn.repeat_kv(x(3, 4), 2),
        ValueError,
        r"x has shape \(3, 4\): .*head axis",
    ),
    "pool_heads that do not divide": (
        lambda: attn.pool_heads(x(12, 5), 6, 4),
        ValueError,
        "num_kv_heads is 4 and num_heads 6: .*divisor",
    ),
    "pool_heads of a wrong weight": (
        lambda: attn.pool_heads(x(13, 5), 6, 3),
        ValueError,
        "weight has 13 rows: 6 heads need a multiple",
    ),
    "split_heads that do not divide": (
        lambda: attn.split_heads(x(2, 10), 3),
        ValueError,
        "x has an embedding of 10: num_heads = 3 needs a multiple",
    ),
    "split_heads of one axis": (
        lambda: attn.split_heads(x(10), 2),
        ValueError,
        r"x has shape \(10,\): .*\(..., L, H \* D\)",
    ),
    "merge_heads without heads": (
        lambda: attn.merge_heads(x(3, 4)),
        ValueError,
        r"x has shape \(3, 4\): .*\(..., H, L, D\)",
    ),
    "attention_loops of a batch": (
        lambda: attn.attention_loops(Q, K, V),
        ValueError,
        r"query has shape \(2, 4, 3, 8\): attention_loops needs two axes",
    ),
    "a name that is not there": (
        lambda: attn.flash,
        AttributeError,
        "no attribute 'flash'",
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_the_smaller_functions_answer_too(name):
    call, error, message = OTHERS[name]
    with pytest.raises(error, match=message):
        call()
