"""A wrong query, key or value gets one clear answer."""

from __future__ import annotations

import pytest
import torch

from tests.attn.wrong_calls import (
    LONG_K,
    META,
    K,
    Q,
    V,
    assert_answered,
    every_function,
    nested,
    wrong,
    x,
)

WRONG = (
    wrong(
        "query is a list",
        TypeError,
        "query must be a torch.Tensor; got list",
        query=[1.0],
    ),
    wrong(
        "key is None",
        TypeError,
        "key must be a torch.Tensor; got NoneType",
        key=None,
    ),
    wrong(
        "query has one axis",
        ValueError,
        r"query must .*two axes.*; got shape \(8,\)",
        query=x(8),
    ),
    wrong(
        "value is a number",
        ValueError,
        r"value must .*two axes.*; got shape \(\)",
        value=x(),
    ),
    wrong(
        "query of integers",
        TypeError,
        "query must be float16.*; got torch.int64",
        query=Q.long(),
    ),
    wrong(
        "complex query",
        TypeError,
        "query must be .*float32.*; got torch.complex64",
        query=Q.to(torch.complex64),
    ),
    wrong(
        "key of another dtype",
        TypeError,
        "key must have the dtype of query, .*float32; got .*float64",
        key=K.double(),
    ),
    wrong(
        "value of another dtype",
        TypeError,
        "value must have the dtype of query, .*float32; got .*float16",
        value=V.half(),
    ),
    wrong(
        "nested query",
        TypeError,
        "query must be dense; got a nested tensor: pad it",
        query=nested(),
    ),
    wrong(
        "sparse key",
        TypeError,
        "key must be a dense tensor; got layout .*sparse",
        key=K.to_sparse(),
    ),
    wrong(
        "key on another device",
        ValueError,
        "key must be on the device of query, cpu; got meta",
        key=K.to(META),
    ),
    wrong(
        "value on another device",
        ValueError,
        "value must be on the device of query, cpu; got meta",
        value=V.to(META),
    ),
    wrong(
        "head_dim differs",
        ValueError,
        "key must have the head_dim of query, 8; got 6",
        key=x(2, 4, 3, 6),
    ),
    wrong(
        "fewer values than keys",
        ValueError,
        "value must have one position for each key, 7; got 3",
        key=LONG_K,
    ),
    wrong(
        "head_dim 0",
        ValueError,
        "head_dim must be at least 1 .*; got 0",
        query=Q[..., :0],
        key=K[..., :0],
    ),
    wrong(
        "batches differ",
        ValueError,
        r"batch axes must broadcast, with equal sizes or a 1; got "
        r"query \(2,\), key \(3,\)",
        key=x(3, 4, 3, 8),
        value=x(3, 4, 3, 5),
    ),
    wrong(
        "groups without enable_gqa",
        ValueError,
        "key must have as many heads as query, 4; got 2: .*enable_gqa=True",
        key=x(2, 2, 3, 8),
        value=x(2, 2, 3, 5),
    ),
    wrong(
        "heads do not divide",
        ValueError,
        "with enable_gqa, .*must be a multiple .*; got 4 and 3",
        key=x(2, 3, 3, 8),
        value=x(2, 3, 3, 5),
        enable_gqa=True,
    ),
    wrong(
        "more key heads than query heads",
        ValueError,
        "with enable_gqa, .*must be a multiple .*; got 2 and 4",
        query=x(2, 2, 3, 8),
        enable_gqa=True,
    ),
    wrong(
        "no key heads",
        ValueError,
        "with enable_gqa, .*must be a multiple .*; got 4 and 0",
        key=x(2, 0, 3, 8),
        value=x(2, 0, 3, 5),
        enable_gqa=True,
    ),
    wrong(
        "key and value heads differ",
        ValueError,
        "value must have as many heads as key, 4; got 2",
        value=x(2, 2, 3, 5),
        enable_gqa=True,
    ),
)


@pytest.mark.parametrize("row", WRONG, ids=[row.what for row in WRONG])
@every_function
def test_a_wrong_tensor_raises_one_clear_error(function, row):
    assert_answered(function, row)


def test_the_table_has_at_least_twenty_wrong_tensors():
    assert len({row.what for row in WRONG}) == len(WRONG) >= 20
