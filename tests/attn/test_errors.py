"""A wrong argument gets one clear answer: what, what it got, what it needs.

Every row of ``WRONG`` holds a pattern for the message, in which the argument
comes first, then what it got, then what it needs; and what is wrong.
"""

from __future__ import annotations

import pytest
import torch

import attn
from tests.attn.wrong_calls import (
    BOTH_ANSWERS,
    LONG_K,
    LONG_V,
    META,
    K,
    Q,
    V,
    assert_answered,
    every_function,
    mask_of,
    wrong,
    x,
)

WRONG = (
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
        "attn_mask must be a bool or float tensor, or an attn Mask; got list",
        attn_mask=[[True]],
    ),
    wrong(
        "mask is a function",
        TypeError,
        "attn_mask must be .*tensor, or an attn Mask; got function",
        attn_mask=attn.causal,
    ),
    wrong(
        "mask of integers",
        TypeError,
        "attn_mask must be bool .*or torch.float32.*; got torch.int32",
        attn_mask=mask_of(3, 3).int(),
    ),
    wrong(
        "double mask for a single query",
        TypeError,
        "attn_mask must be bool .*or torch.float32.*; got torch.float64",
        attn_mask=x(3, 3).double(),
    ),
    wrong(
        "half mask for a bfloat16 query",
        TypeError,
        "attn_mask must .*bfloat16 or torch.float32.*; got torch.float16",
        query=Q.bfloat16(),
        key=K.bfloat16(),
        value=V.bfloat16(),
        attn_mask=x(3, 3).half(),
    ),
    wrong(
        "mask of one axis",
        ValueError,
        r"attn_mask must .*two axes .*\(2, 4, 3, 3\); got \(3,\)",
        attn_mask=mask_of(3),
    ),
    wrong(
        "mask for other lengths",
        ValueError,
        r"attn_mask must .*\(2, 4, 3, 7\); got \(3, 6\)",
        key=LONG_K,
        value=LONG_V,
        attn_mask=mask_of(3, 6),
    ),
    wrong(
        "mask with L and S the wrong way",
        ValueError,
        r"attn_mask must .*\(2, 4, 3, 7\); got \(7, 3\)",
        key=LONG_K,
        value=LONG_V,
        attn_mask=mask_of(7, 3),
    ),
    wrong(
        "mask that would enlarge the batch",
        ValueError,
        r"attn_mask must .*\(1, 4, 3, 3\); got \(5, 1, 3, 3\)",
        query=x(1, 4, 3, 8),
        key=x(1, 4, 3, 8),
        value=x(1, 4, 3, 5),
        attn_mask=mask_of(5, 1, 3, 3),
    ),
    wrong(
        "mask with too many axes",
        ValueError,
        r"attn_mask must .*\(2, 4, 3, 3\); got \(1, 1, 1, 3, 3\)",
        attn_mask=mask_of(1, 1, 1, 3, 3),
    ),
    wrong(
        "padding mask without its axes",
        ValueError,
        r"attn_mask must .*; got \(2, 7\): one row .*\(B, 1, 1, S\)",
        key=LONG_K,
        value=LONG_V,
        attn_mask=mask_of(2, 7),
    ),
    wrong(
        "one mask a sequence without the head axis",
        ValueError,
        r"attn_mask must .*; got \(2, 3, 7\): .*\(B, 1, L, S\)",
        key=LONG_K,
        value=LONG_V,
        attn_mask=mask_of(2, 3, 7),
    ),
    wrong(
        "mask for sequences or for heads",
        ValueError,
        r"attn_mask .*ambiguous with 4 sequences and 4 heads: .*\(B, 1, L, S\)"
        r".*\(1, H, L, S\)",
        query=x(4, 4, 3, 8),
        key=x(4, 4, 3, 8),
        value=x(4, 4, 3, 5),
        attn_mask=mask_of(4, 3, 3),
    ),
    wrong(
        "mask on another device",
        ValueError,
        "attn_mask must be on the device of query, cpu; got meta",
        attn_mask=mask_of(3, 3).to(META),
    ),
    wrong(
        "dropout below 0",
        ValueError,
        "dropout_p must be a number from 0 to 1; got -0.1",
        dropout_p=-0.1,
    ),
    wrong(
        "dropout above 1",
        ValueError,
        "dropout_p must be a number from 0 to 1; got 1.5",
        dropout_p=1.5,
    ),
    wrong(
        "dropout is not a number",
        TypeError,
        "dropout_p must be a number from 0 to 1; got None",
        dropout_p=None,
    ),
    wrong(
        "scale must be finite; got nan",
        ValueError,
        "scale must be finite; got nan",
        scale=float("nan"),
    ),
    wrong(
        "scale is a word",
        TypeError,
        "scale must be a number, or None .*; got 'auto'",
        scale="auto",
    ),
    wrong(
        "softcap is 0",
        ValueError,
        "softcap must be a positive number, or None .*; got 0.0",
        softcap=0.0,
    ),
    wrong(
        "softcap below 0",
        ValueError,
        "softcap must be a positive number, or None .*; got -50.0",
        softcap=-50,
    ),
    wrong(
        "softcap is infinite",
        ValueError,
        "softcap must be a positive number, or None .*; got inf",
        softcap=torch.inf,
    ),
    wrong(
        "sinks is a list",
        TypeError,
        "sinks must be a float tensor with one logit a head; got list",
        sinks=[0.0] * 4,
    ),
    wrong(
        "sinks of integers",
        TypeError,
        "sinks must be a float tensor .*; got torch.int64",
        sinks=torch.zeros(4, dtype=torch.int64),
    ),
    wrong(
        "one sink for all heads",
        ValueError,
        r"sinks must .*each query head, \(4,\); got shape \(1,\)",
        sinks=x(1),
    ),
    wrong(
        "sinks on another device",
        ValueError,
        "sinks must be on the device of query, cpu; got meta",
        sinks=x(4, device="meta"),
    ),
    wrong(
        "window is one number",
        TypeError,
        r"window must be a pair \(left, right\).*; got 3",
        window=3,
    ),
    wrong(
        "window of three",
        TypeError,
        r"window must be a pair \(left, right\).*; got \(1, 2, 3\)",
        window=(1, 2, 3),
    ),
    wrong(
        "negative window",
        ValueError,
        "left of window must be 0 or more, or None .*; got -1",
        window=(-1, 0),
    ),
    wrong(
        "fractional window",
        TypeError,
        "right of window must be an int or None; got 1.5",
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
        "q_offset must be an int, or an integer tensor.*; got 1.0",
        q_offset=1.0,
    ),
    wrong(
        "q_offset is True",
        TypeError,
        "q_offset must be an int, or an integer tensor.*; got True",
        q_offset=True,
    ),
    wrong(
        "q_offset is a tensor of floats",
        TypeError,
        "q_offset must be .*integer tensor.*; got torch.float32",
        q_offset=x(2),
    ),
    wrong(
        "q_offset for another batch",
        ValueError,
        r"q_offset must .*each batch row, \(2,\); got shape \(3,\)",
        q_offset=torch.tensor([1, 2, 3]),
    ),
    wrong(
        "q_offset on another device",
        ValueError,
        "q_offset must be on the device of query, cpu; got meta",
        q_offset=torch.zeros(2, dtype=torch.int64, device=META),
    ),
    wrong(
        "documents shorter than the keys",
        ValueError,
        r"documents\(\(2,\)\) must have .*each key, 3; got 2",
        attn_mask=attn.documents(torch.tensor([0, 1])),
    ),
    wrong(
        "documents shorter than the queries",
        ValueError,
        "documents.* must .*each query, .*1 to 3; got entries 0 to 2",
        attn_mask=attn.documents(torch.tensor([0, 1, 1])),
        q_offset=1,
    ),
    wrong(
        "padding for another batch",
        ValueError,
        r"padding\(\(3, 3\)\) must have one row.*batch row, 2; got 3",
        attn_mask=attn.padding(mask_of(3, 3)),
    ),
    wrong(
        "padding on another device",
        ValueError,
        "mask's data must be on the device of the positions, meta; got cpu",
        query=Q.to(META),
        key=K.to(META),
        value=V.to(META),
        attn_mask=attn.padding(mask_of(3)),
    ),
    wrong(
        "predicate that gives numbers",
        TypeError,
        "Mask.* must return bool; got torch.int64",
        attn_mask=attn.Mask(lambda b, h, i, j: i - j),
    ),
    wrong(
        "predicate that gives another shape",
        ValueError,
        r"Mask.* must .*broadcasts to \(2, 4, 3, 3\); got \(7,\)",
        attn_mask=attn.Mask(lambda b, h, i, j: mask_of(7)),
    ),
)


@pytest.mark.parametrize("row", WRONG, ids=[row.what for row in WRONG])
@every_function
def test_a_wrong_argument_raises_one_clear_error(function, row):
    assert_answered(function, row)


def test_the_table_has_at_least_forty_wrong_arguments():
    assert len({row.what for row in WRONG}) == len(WRONG) >= 40
