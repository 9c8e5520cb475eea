"""A wrong argument gets one clear answer: what, what it got, what it needs.

Every row of ``WRONG`` holds a pattern for the message, in which the argument
comes first, then what it got, then what it needs; and what is wrong.
"""

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


WRONG = (
    wrong(
        "query is a list",
        TypeError,
        "query is a list: .*torch.Tensor",
        query=[1.0],
    ),
    wrong(
        "key is None", TypeError, "key is a NoneType: .*torch.Tensor", key=None
    ),
    wrong(
        "query has one axis",
        ValueError,
        r"query .*\(8,\): .*two axes",
        query=x(8),
    ),
    wrong(
        "value is a number", ValueError, r"value .*\(\): .*two axes", value=x()
    ),
    wrong(
        "query of integers",
        TypeError,
        "query .*int64: .*float16",
        query=Q.long(),
    ),
    wrong(
        "complex query",
        TypeError,
        "query .*complex64: .*float32",
        query=Q.to(torch.complex64),
    ),
    wrong(
        "key of another dtype",
        TypeError,
        "key .*float64 and query .*float32: .*the same",
        key=K.double(),
    ),
    wrong(
        "value of another dtype",
        TypeError,
        "value .*float16 and query .*float32: .*the same",
        value=V.half(),
    ),
    wrong(
        "nested query",
        TypeError,
        "query is a nested .*: pad it",
        query=nested(),
    ),
    wrong(
        "sparse key", TypeError, "key .*sparse.*: .*dense", key=K.to_sparse()
    ),
    wrong(
        "key on another device",
        ValueError,
        "key is on meta and query on cpu: .*same device",
        key=K.to(META),
    ),
    wrong(
        "value on another device",
        ValueError,
        "value is on meta and query on cpu: .*same device",
        value=V.to(META),
    ),
    wrong(
        "head_dim differs",
        ValueError,
        "key has head_dim 6 and query 8: .*the same",
        key=x(2, 4, 3, 6),
    ),
    wrong(
        "fewer values than keys",
        ValueError,
        "value has 3 positions and key 7: every key .*one value",
        key=LONG_K,
    ),
    wrong(
        "head_dim 0",
        ValueError,
        "query has head_dim 0: .*at least 1",
        query=Q[..., :0],
        key=K[..., :0],
    ),
    wrong(
        "batches differ",
        ValueError,
        r"batch axes .*query \(2,\), key \(3,\).*: .*equal sizes, or a 1",
        key=x(3, 4, 3, 8),
        value=x(3, 4, 3, 5),
    ),
    wrong(
        "groups without enable_gqa",
        ValueError,
        "key has 2 heads and query 4: .*enable_gqa=True",
        key=x(2, 2, 3, 8),
        value=x(2, 2, 3, 5),
    ),
    wrong(
        "heads do not divide",
        ValueError,
        "key has 3 heads and query 4: enable_gqa needs a multiple",
        key=x(2, 3, 3, 8),
        value=x(2, 3, 3, 5),
        enable_gqa=True,
    ),
    wrong(
        "more key heads than query heads",
        ValueError,
        "key has 4 heads and query 2: enable_gqa needs a multiple",
        query=x(2, 2, 3, 8),
        enable_gqa=True,
    ),
    wrong(
        "no key heads",
        ValueError,
        "key has 0 heads and query 4: .*multiple",
        key=x(2, 0, 3, 8),
        value=x(2, 0, 3, 5),
        enable_gqa=True,
    ),
    wrong(
        "key and value heads differ",
        ValueError,
        "value has 2 heads and key 4: .*the same",
        value=x(2, 2, 3, 5),
        enable_gqa=True,
    ),
    wrong(
        "is_causal=1",
        TypeError,
        "is_causal must be True or False; got 1",
        is_causal=1,
    ),
    wrong(
        "enable_gqa='yes'",
        TypeError,
        "enable_gqa must be True or False; got 'yes'",
        enable_gqa="yes",
    ),
    wrong(
        "mask is a list",
        TypeError,
        "attn_mask is a list: .*bool or float tensor, or an attn Mask",
        attn_mask=[[True]],
    ),
    wrong(
        "mask is a function",
        TypeError,
        "attn_mask is a function: .*tensor, or an attn Mask",
        attn_mask=attn.causal,
    ),
    wrong(
        "mask of integers",
        TypeError,
        "attn_mask .*int32: .*bool .*or torch.float32",
        attn_mask=mask_of(3, 3).int(),
    ),
    wrong(
        "double mask for a single query",
        TypeError,
        "attn_mask .*float64: .*bool .*or torch.float32",
        attn_mask=x(3, 3).double(),
    ),
    wrong(
        "half mask for a bfloat16 query",
        TypeError,
        "attn_mask .*float16: .*bfloat16 or torch.float32",
        query=Q.bfloat16(),
        key=K.bfloat16(),
        value=V.bfloat16(),
        attn_mask=x(3, 3).half(),
    ),
    wrong(
        "mask of one axis",
        ValueError,
        r"attn_mask has shape \(3,\): .*two axes .*\(2, 4, 3, 3\)",
        attn_mask=mask_of(3),
    ),
    wrong(
        "mask for other lengths",
        ValueError,
        r"attn_mask has shape \(3, 6\): .*\(2, 4, 3, 7\)",
        key=LONG_K,
        value=LONG_V,
        attn_mask=mask_of(3, 6),
    ),
    wrong(
        "mask with L and S the wrong way",
        ValueError,
        r"attn_mask has shape \(7, 3\): .*\(2, 4, 3, 7\)",
        key=LONG_K,
        value=LONG_V,
        attn_mask=mask_of(7, 3),
    ),
    wrong(
        "mask that would enlarge the batch",
        ValueError,
        r"attn_mask has shape \(5, 1, 3, 3\): .*\(1, 4, 3, 3\)",
        query=x(1, 4, 3, 8),
        key=x(1, 4, 3, 8),
        value=x(1, 4, 3, 5),
        attn_mask=mask_of(5, 1, 3, 3),
    ),
    wrong(
        "mask with too many axes",
        ValueError,
        r"attn_mask has shape \(1, 1, 1, 3, 3\): .*\(2, 4, 3, 3\)",
        attn_mask=mask_of(1, 1, 1, 3, 3),
    ),
    wrong(
        "padding mask without its axes",
        ValueError,
        r"attn_mask has shape \(2, 7\): .*one row .*\(B, 1, 1, S\)",
        key=LONG_K,
        value=LONG_V,
        attn_mask=mask_of(2, 7),
    ),
    wrong(
        "one mask a sequence without the head axis",
        ValueError,
        r"attn_mask has shape \(2, 3, 7\): .*\(B, 1, L, S\)",
        key=LONG_K,
        value=LONG_V,
        attn_mask=mask_of(2, 3, 7),
    ),
    wrong(
        "mask for sequences or for heads",
        ValueError,
        r"attn_mask .*4 sequences and 4 heads: .*\(B, 1, L, S\)"
        r".*\(1, H, L, S\)",
        query=x(4, 4, 3, 8),
        key=x(4, 4, 3, 8),
        value=x(4, 4, 3, 5),
        attn_mask=mask_of(4, 3, 3),
    ),
    wrong(
        "mask on another device",
        ValueError,
        "attn_mask is on meta and query on cpu: .*same device",
        attn_mask=mask_of(3, 3).to(META),
    ),
    wrong(
        "dropout below 0",
        ValueError,
        "dropout_p is -0.1: .*from 0 to 1",
        dropout_p=-0.1,
    ),
    wrong(
        "dropout above 1",
        ValueError,
        "dropout_p is 1.5: .*from 0 to 1",
        dropout_p=1.5,
    ),
    wrong(
        "dropout is not a number",
        TypeError,
        "dropout_p is None: .*from 0 to 1",
        dropout_p=None,
    ),
    wrong(
        "scale is nan",
        ValueError,
        "scale is nan: .*finite",
        scale=float("nan"),
    ),
    wrong(
        "scale is a word",
        TypeError,
        "scale is 'auto': .*a number, or None",
        scale="auto",
    ),
    wrong(
        "softcap is 0",
        ValueError,
        "softcap is 0.0: .*positive number, or None",
        softcap=0.0,
    ),
    wrong(
        "softcap below 0",
        ValueError,
        "softcap is -50.0: .*positive number, or None",
        softcap=-50,
    ),
    wrong(
        "softcap is infinite",
        ValueError,
        "softcap is inf: .*positive number, or None",
        softcap=torch.inf,
    ),
    wrong(
        "sinks is a list",
        TypeError,
        "sinks is list: .*float tensor with one logit a head",
        sinks=[0.0] * 4,
    ),
    wrong(
        "sinks of integers",
        TypeError,
        "sinks is torch.int64: .*float tensor",
        sinks=torch.zeros(4, dtype=torch.int64),
    ),
    wrong(
        "one sink for all heads",
        ValueError,
        r"sinks has shape \(1,\): .*each query head, \(4,\)",
        sinks=x(1),
    ),
    wrong(
        "sinks on another device",
        ValueError,
        "sinks is on meta and query on cpu: .*same device",
        sinks=x(4, device="meta"),
    ),
    wrong(
        "window is one number",
        TypeError,
        r"window is 3: .*pair \(left, right\)",
        window=3,
    ),
    wrong(
        "window of three",
        TypeError,
        r"window is \(1, 2, 3\): .*pair \(left, right\)",
        window=(1, 2, 3),
    ),
    wrong(
        "negative window",
        ValueError,
        "window has left = -1: .*0 or more, or None",
        window=(-1, 0),
    ),
    wrong(
        "fractional window",
        TypeError,
        "window has right = 1.5: .*int or None",
        window=(None, 1.5),
    ),
    wrong(
        "window, and where do the queries start?",
        ValueError,
        "window.* with 3 query and 7 key positions is ambiguous: .*"
        + BOTH_ANSWERS,
        key=LONG_K,
        value=LONG_V,
        window=(2, 0),
    ),
    wrong(
        "Mask, and where do the queries start?",
        ValueError,
        r"causal\(\) with 3 query and 7 key positions is ambiguous: .*"
        + BOTH_ANSWERS,
        key=LONG_K,
        value=LONG_V,
        attn_mask=attn.causal(),
    ),
    wrong(
        "q_offset is a float",
        TypeError,
        "q_offset is 1.0: .*int, or an integer tensor",
        q_offset=1.0,
    ),
    wrong(
        "q_offset is True",
        TypeError,
        "q_offset is True: .*int, or an integer tensor",
        q_offset=True,
    ),
    wrong(
        "q_offset is a tensor of floats",
        TypeError,
        "q_offset is torch.float32: .*integer tensor",
        q_offset=x(2),
    ),
    wrong(
        "q_offset for another batch",
        ValueError,
        r"q_offset has shape \(3,\): .*each batch row, \(2,\)",
        q_offset=torch.tensor([1, 2, 3]),
    ),
    wrong(
        "q_offset on another device",
        ValueError,
        "q_offset is on meta and query on cpu: .*same device",
        q_offset=torch.zeros(2, dtype=torch.int64, device=META),
    ),
    wrong(
        "documents shorter than the keys",
        ValueError,
        r"documents\(\(2,\)\) covers 2 keys and there are 3: .*each key",
        attn_mask=attn.documents(torch.tensor([0, 1])),
    ),
    wrong(
        "documents shorter than the queries",
        ValueError,
        "documents.* positions 0 to 2 .*from 1 to 3: .*each query",
        attn_mask=attn.documents(torch.tensor([0, 1, 1])),
        q_offset=1,
    ),
    wrong(
        "padding for another batch",
        ValueError,
        r"padding\(\(3, 3\)\) has 3 rows and the batch 2: .*the same, or 1",
        attn_mask=attn.padding(mask_of(3, 3)),
    ),
    wrong(
        "padding on another device",
        ValueError,
        "mask's data is on cpu and the positions are on meta: .*same device",
        query=Q.to(META),
        key=K.to(META),
        value=V.to(META),
        attn_mask=attn.padding(mask_of(3)),
    ),
    wrong(
        "predicate that gives numbers",
        TypeError,
        "Mask.* gave torch.int64: .*needs to return bool",
        attn_mask=attn.Mask(lambda b, h, i, j: i - j),
    ),
    wrong(
        "predicate that gives another shape",
        ValueError,
        r"Mask.* gave shape \(7,\): .*broadcasts to \(2, 4, 3, 3\)",
        attn_mask=attn.Mask(lambda b, h, i, j: mask_of(7)),
    ),
)


@pytest.mark.parametrize("row", WRONG, ids=[row.what for row in WRONG])
@pytest.mark.parametrize(
    "function",
    (
        attn.scaled_dot_product_attention,
        attn.attention_weights,
        attn.grouped_attention,
    ),
    ids=("matrix", "weights", "grouped"),
)
def test_a_wrong_call_is_answered(function, row):
    options = {"enable_gqa": False} | row.arguments
    with pytest.raises(row.error, match=row.message) as caught:
        function(**options)
    error = caught.value
    hidden = error.__suppress_context__ or error.__context__ is None
    assert hidden, "a second traceback stands before the message"


def test_there_are_at_least_forty_of_them():
    assert len({row.what for row in WRONG}) == len(WRONG) >= 40
