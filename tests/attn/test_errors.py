"""A wrong argument gets one clear answer: what, what it must be, what it got.

A key of a table is the pattern of a message; its value is what is wrong in a
call that is right otherwise.
"""

import pytest
import torch

import attn


def x(*shape, dtype=torch.float32, device="cpu"):
    return torch.zeros(shape, dtype=dtype, device=device)


def mask_of(*shape):
    return torch.ones(shape, dtype=torch.bool)


def keys(batch, heads, length=3):
    shape = (batch, heads, length)
    return {"key": x(*shape, 8), "value": x(*shape, 5)}


def nested():
    return torch.nested.nested_tensor([x(2, 3), x(4, 3)], layout=torch.jagged)


META = torch.device("meta")
RIGHT = {"query": x(2, 4, 3, 8), **keys(2, 4), "enable_gqa": False}
Q, K, V = RIGHT["query"], RIGHT["key"], RIGHT["value"]
LONG = keys(2, 4, 7)
TENSORS = ("query", "key", "value")
BOTH_ANSWERS = r"q_offset=0 .*q_offset=4 "

# Beginnings that several messages share.
DTYPE = "must have the dtype of query, .*float32; got"
MASK = "attn_mask must be a bool or float tensor, or an attn Mask; got"
MULTIPLE = "with enable_gqa, .*must be a multiple .*; got"
SHAPE = r"attn_mask must .*\(2, 4, 3, 7\); got"
DEVICE = "must be on the device of query, cpu; got meta"
FLOATS = "attn_mask must be bool .*or torch.float32.*; got"
OFFSET = "q_offset must be an int, or an integer tensor.*; got"
PAIR = r"window must be a pair \(left, right\).*; got"
SOFTCAP = "softcap must be a positive number, or None .*; got"

TYPE_ERRORS = {
    "query must be a torch.Tensor; got list": {"query": [1.0]},
    "key must be a torch.Tensor; got NoneType": {"key": None},
    "query must be float16.*; got torch.int64": {"query": Q.long()},
    "query must be .*float32.*; got torch.complex64": {"query": Q.cfloat()},
    f"key {DTYPE} .*float64": {"key": K.double()},
    f"value {DTYPE} .*float16": {"value": V.half()},
    "query must be dense; got a nested tensor: pad it": {"query": nested()},
    "key must be a dense tensor; got layout .*sparse": {"key": K.to_sparse()},
    "is_causal must be True or False; got 1": {"is_causal": 1},
    "enable_gqa must be True or False; got 'yes'": {"enable_gqa": "yes"},
    f"{MASK} list": {"attn_mask": [[True]]},
    f"{MASK} function": {"attn_mask": attn.causal},
    f"{FLOATS} torch.int32": {"attn_mask": mask_of(3, 3).int()},
    f"{FLOATS} torch.float64": {"attn_mask": x(3, 3).double()},
    "attn_mask must .*bfloat16 or torch.float32.*; got torch.float16": {
        **{name: RIGHT[name].bfloat16() for name in ("query", "key", "value")},
        "attn_mask": x(3, 3).half(),
    },
    "Mask.* must return bool; got torch.int64": {
        "attn_mask": attn.Mask(lambda b, h, i, j: i - j)
    },
    "dropout_p must be a number from 0 to 1; got None": {"dropout_p": None},
    "scale must be a number, or None .*; got 'auto'": {"scale": "auto"},
    "sinks must be a float tensor with one logit a head; got list": {
        "sinks": [0.0] * 4
    },
    "sinks must be a float tensor .*; got torch.int64": {"sinks": x(4).long()},
    f"{PAIR} 3": {"window": 3},
    rf"{PAIR} \(1, 2, 3\)": {"window": (1, 2, 3)},
    "right of window must be an int or None; got 1.5": {"window": (None, 1.5)},
    f"{OFFSET} 1.0": {"q_offset": 1.0},
    f"{OFFSET} True": {"q_offset": True},
    f"{OFFSET} torch.float32": {"q_offset": x(2)},
}
VALUE_ERRORS = {
    r"query must .*two axes.*; got shape \(8,\)": {"query": x(8)},
    r"value must .*two axes.*; got shape \(\)": {"value": x()},
    f"key {DEVICE}": {"key": K.to(META)},
    f"value {DEVICE}": {"value": V.to(META)},
    "key must have the head_dim of query, 8; got 6": {"key": x(2, 4, 3, 6)},
    r"batch axes must broadcast, with equal sizes or a 1; got "
    r"query \(2,\), key \(3,\)": keys(3, 4),
    "key must have as many heads as query, 4; got 2: .*enable_gqa=True": (
        keys(2, 2)
    ),
    f"{MULTIPLE} 4 and 3": {**keys(2, 3), "enable_gqa": True},
    f"{MULTIPLE} 2 and 4": {"query": x(2, 2, 3, 8), "enable_gqa": True},
    f"{MULTIPLE} 4 and 0": {**keys(2, 0), "enable_gqa": True},
    rf"{SHAPE} \(3, 6\)": {**LONG, "attn_mask": mask_of(3, 6)},
    # L and S the wrong way round
    rf"{SHAPE} \(7, 3\)": {**LONG, "attn_mask": mask_of(7, 3)},
    # a mask that would enlarge the batch
    r"attn_mask must .*\(1, 4, 3, 3\); got \(5, 1, 3, 3\)": {
        "query": Q[:1],
        **keys(1, 4),
        "attn_mask": mask_of(5, 1, 3, 3),
    },
    r"attn_mask must .*\(2, 4, 3, 3\); got \(1, 1, 1, 3, 3\)": {
        "attn_mask": mask_of(1, 1, 1, 3, 3)
    },
    r"attn_mask must .*; got \(2, 7\): one row .*\(B, 1, 1, S\)": {
        **LONG,
        "attn_mask": mask_of(2, 7),
    },
    r"attn_mask must .*; got \(2, 3, 7\): .*\(B, 1, L, S\)": {
        **LONG,
        "attn_mask": mask_of(2, 3, 7),
    },
    r"attn_mask .*ambiguous with 4 sequences and 4 heads: .*\(B, 1, L, S\)"
    r".*\(1, H, L, S\)": {
        "query": x(4, 4, 3, 8),
        **keys(4, 4),
        "attn_mask": mask_of(4, 3, 3),
    },
    "dropout_p must be a number from 0 to 1; got 1.5": {"dropout_p": 1.5},
    f"{SOFTCAP} 0.0": {"softcap": 0.0},
    f"{SOFTCAP} -50.0": {"softcap": -50},
    f"{SOFTCAP} inf": {"softcap": torch.inf},
    r"sinks must .*each query head, \(4,\); got shape \(1,\)": {"sinks": x(1)},
    f"sinks {DEVICE}": {"sinks": x(4, device="meta")},
    "left of window must be 0 or more, or None .*; got -1": {
        "window": (-1, 0)
    },
    "window.* with 3 query and 7 key positions is ambiguous: .*"
    + BOTH_ANSWERS: {**LONG, "window": (2, 0)},
    r"causal\(\) with 3 query and 7 key positions is ambiguous: .*"
    + BOTH_ANSWERS: {**LONG, "attn_mask": attn.causal()},
    r"q_offset must .*each batch row, \(2,\); got shape \(3,\)": {
        "q_offset": torch.tensor([1, 2, 3])
    },
    f"q_offset {DEVICE}": {"q_offset": x(2, dtype=torch.int64, device=META)},
    r"documents\(\(2,\)\) must have .*each key, 3; got 2": {
        "attn_mask": attn.documents(torch.tensor([0, 1]))
    },
    "documents.* must .*each query, .*1 to 3; got entries 0 to 2": {
        "attn_mask": attn.documents(torch.tensor([0, 1, 1])),
        "q_offset": 1,
    },
    r"padding\(\(3, 3\)\) must have one row.*batch row, 2; got 3": {
        "attn_mask": attn.padding(mask_of(3, 3))
    },
    "mask's data must be on the device of the positions, meta; got cpu": {
        **{name: RIGHT[name].to(META) for name in ("query", "key", "value")},
        "attn_mask": attn.padding(mask_of(3)),
    },
    r"Mask.* must .*broadcasts to \(2, 4, 3, 3\); got \(7,\)": {
        "attn_mask": attn.Mask(lambda b, h, i, j: mask_of(7))
    },
}
WRONG = [
    pytest.param(error, message, arguments, id=message)
    for error, table in ((TypeError, TYPE_ERRORS), (ValueError, VALUE_ERRORS))
    for message, arguments in table.items()
]


@pytest.mark.parametrize(("error", "message", "arguments"), WRONG)
@pytest.mark.parametrize(
    "function",
    (
        attn.scaled_dot_product_attention,
        attn.attention_weights,
        attn.grouped_attention,
    ),
    ids=("matrix", "weights", "grouped"),
)
def test_a_wrong_argument_raises_one_clear_error(
    function, error, message, arguments
):
    with pytest.raises(error, match=message) as caught:
        function(**RIGHT | arguments)
    error = caught.value
    hidden = error.__suppress_context__ or error.__context__ is None
    assert hidden, "a second traceback precedes the message"


def test_under_autocast_the_error_says_that_nothing_is_cast():
    wrong = {**RIGHT, "value": V.bfloat16()}
    with (
        torch.autocast("cpu", torch.bfloat16),
        pytest.raises(TypeError, match=r"; got .*: autocast .* x\.to\("),
    ):
        attn.attention(**wrong)
    with pytest.raises(TypeError, match="value must have .*bfloat16$"):
        attn.attention(**{k: wrong[k].to(META) for k in TENSORS})
