"""A call of attention with one wrong argument, and its answer."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
import torch

import attn


def x(*shape, dtype=torch.float32, device="cpu"):
    return torch.zeros(shape, dtype=dtype, device=device)


def mask_of(*shape):
    return torch.ones(shape, dtype=torch.bool)


def nested():
    return torch.nested.nested_tensor([x(2, 3), x(4, 3)], layout=torch.jagged)


META = torch.device("meta")
Q, K, V = x(2, 4, 3, 8), x(2, 4, 3, 8), x(2, 4, 3, 5)
LONG_K, LONG_V = x(2, 4, 7, 8), x(2, 4, 7, 5)
BOTH_ANSWERS = r"q_offset=0 .*q_offset=4 "


class Wrong(NamedTuple):
    """A call that differs from a right one in what is written here."""

    what: str
    error: type[Exception]
    message: str
    arguments: dict[str, Any]


def wrong(what, error, message, **arguments) -> Wrong:
    right = {"query": Q, "key": K, "value": V}
    return Wrong(what, error, message, right | arguments)


every_function = pytest.mark.parametrize(
    "function",
    (
        attn.scaled_dot_product_attention,
        attn.attention_weights,
        attn.grouped_attention,
    ),
    ids=("matrix", "weights", "grouped"),
)


def assert_answered(function, row):
    options = {"enable_gqa": False} | row.arguments
    with pytest.raises(row.error, match=row.message) as caught:
        function(**options)
    error = caught.value
    hidden = error.__suppress_context__ or error.__context__ is None
    assert hidden, "a second traceback stands before the message"
