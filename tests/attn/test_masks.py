"""A mask is a predicate: what it says, how it combines, how it prints."""

import dataclasses
import functools
import inspect
import itertools
import shutil
from pathlib import Path

import pytest
import torch
from torch.nn.attention.flex_attention import create_block_mask

import attn
from attn import causal, chunked, padding, prefix, sliding_window, window
from tests.processes import run_python

T, F = True, False
IDS = torch.tensor([0, 0, 1, 1, 1])
VALID = torch.tensor([T, T, F, T, F])


def rows(text: str) -> torch.Tensor:
    """A mask drawn with x for "may attend"."""
    lines = text.split()
    return torch.tensor([[c == "x" for c in line] for line in lines])


PICTURES = {
    "causal": (causal(), "x.... xx... xxx.. xxxx. xxxxx"),
    "sliding_window": (sliding_window(2), "x.... xx... .xx.. ..xx. ...xx"),
    "a window of one": (sliding_window(1), "x.... .x... ..x.. ...x. ....x"),
    "window left": (window(1, 0), "x.... xx... .xx.. ..xx. ...xx"),
    "window right": (window(0, 2), "xxx.. .xxx. ..xxx ...xx ....x"),
    "window open left": (window(None, 1), "xx... xxx.. xxxx. xxxxx xxxxx"),
    "window open right": (window(1), "xxxxx xxxxx .xxxx ..xxx ...xx"),
    "no window": (window(), "xxxxx " * 5),
    "chunked": (chunked(2), "xx... xx... ..xx. ..xx. ....x"),
    "prefix": (prefix(2), "xx... " * 5),
    "no prefix": (prefix(0), "..... " * 5),
    "documents": (attn.documents(IDS), "xx... xx... ..xxx ..xxx ..xxx"),
    "padding": (padding(VALID), "xx.x. " * 5),
    "prefix language model": (
        causal() | prefix(3),
        "xxx.. xxx.. xxx.. xxxx. xxxxx",
    ),
    "packed": (
        causal() & attn.documents(IDS),
        "x.... xx... ..x.. ..xx. ..xxx",
    ),
    "the future": (~causal(), ".xxxx ..xxx ...xx ....x ....."),
}


@pytest.mark.parametrize("name", PICTURES)
def test_a_dense_mask_equals_its_picture_and_each_single_pair(name):
    mask, picture = PICTURES[name]
    dense = mask.dense(5)
    assert dense.dtype == torch.bool and dense.shape == (1, 1, 5, 5)
    assert torch.equal(dense[0, 0], rows(picture))
    for i, row in enumerate(rows(picture).tolist()):
        assert [bool(mask(0, 0, i, j)) for j in range(5)] == row


SIMPLE = (causal(), sliding_window(2), window(None, 1), chunked(2), prefix(1))
PAIRS = list(itertools.permutations(SIMPLE, 2))


@pytest.mark.parametrize("a,b", PAIRS, ids=str)
def test_mask_operators_are_those_of_logic(a, b):
    x, y = a.dense(4, 6, q_offset=1), b.dense(4, 6, q_offset=1)
    for mask, truth in (
        (a & b, x & y),
        (a | b, x | y),
        (~a, ~x),
        (~(a & b), ~x | ~y),
        (~(a | b), ~x & ~y),
        (~a | b, ~x | y),
    ):
        assert torch.equal(mask.dense(4, 6, q_offset=1), truth)


COMPOSED = (
    *SIMPLE,
    window(1, None),
    causal() & sliding_window(3),
    causal() | prefix(2),
    (causal() | prefix(2)) & chunked(3),
    causal() | prefix(2) & chunked(3),
    ~(causal() & chunked(2)),
    ~(causal() | chunked(2)) & window(2, 2),
    ~causal() & ~chunked(2),
    ~~causal(),
    causal().shift(q=2, kv=1),
    (~causal()).shift(q=2),
    ~causal().shift(q=2),
    (causal() | prefix(1)).shift(kv=2) & chunked(2),
)


@pytest.mark.parametrize("mask", COMPOSED, ids=str)
def test_a_mask_is_printed_as_it_was_built(mask):
    again = eval(repr(mask))
    assert repr(again) == repr(mask)
    x, y = (m.dense(6, 7, q_offset=1) for m in (again, mask))
    assert torch.equal(x, y)


def test_a_mask_prints_parentheses_only_where_needed():
    for text in (
        "causal() & chunked(2) & prefix(1)",
        "causal() & chunked(2) | prefix(1)",
        "(causal() | prefix(1)) & chunked(2)",
        "~causal()",
    ):
        assert repr(eval(text)) == text


def test_a_custom_predicate_prints_its_name():
    def even(b, h, q_idx, kv_idx):
        return kv_idx % 2 == 0

    assert repr(attn.Mask(even)) == "Mask(even)"
    assert "partial" in repr(attn.Mask(functools.partial(even)))
    assert repr(attn.Mask(even, "even") | causal()) == "even | causal()"
    assert attn.Mask(even).dense(2, 4)[0, 0].tolist() == [[T, F, T, F]] * 2


def test_terms_are_a_conjunction_that_a_kernel_may_match():
    kinds = [t.kind for t in (causal() & window(3, 0) & padding(VALID)).terms]
    assert kinds == ["causal", "window", "padding"]
    assert sliding_window(4).terms == window(3, 0).terms
    for other in (causal() | prefix(1), ~causal(), causal().shift(q=1)):
        assert [t.kind for t in other.terms] == ["opaque"]


def test_uses_query_tells_whether_a_mask_depends_on_the_query():
    assert not padding(VALID).uses_query and not prefix(2).uses_query
    assert not (padding(VALID) & prefix(2)).uses_query
    assert (padding(VALID) & causal()).uses_query
    assert attn.documents(IDS).uses_query and (~causal()).uses_query


@pytest.mark.parametrize("mask", SIMPLE, ids=str)
def test_a_shifted_mask_is_a_block_of_the_whole(mask):
    whole = mask.dense(9, 9)
    block = mask.shift(q=4, kv=3).dense(3, 5)
    assert torch.equal(block, whole[..., 4:7, 3:8])
    twice = mask.shift(q=1, kv=1).shift(q=3, kv=2).dense(3, 5)
    assert torch.equal(block, twice)
    assert mask.shift() is mask


def test_q_offset_shifts_the_queries_of_each_row():
    offsets = torch.tensor([0, 2, -3])
    whole = causal().dense(4, 5, batch=3, q_offset=offsets)
    assert whole.shape == (3, 1, 4, 5)
    for row, offset in zip(whole, offsets.tolist(), strict=True):
        alone = causal().dense(4, 5, q_offset=offset)
        assert torch.equal(row, alone[0])
    assert not whole[2, :, :3].any(), "before the first key"
    assert torch.equal(
        causal().dense(2, 5, q_offset=3), causal().dense(5)[:, :, 3:]
    )


def test_mask_data_may_be_shared_or_given_for_each_row():
    ids = torch.stack([IDS, IDS.flip(0)])
    valid = torch.stack([VALID, ~VALID])
    length = torch.tensor([1, 3])
    for make, data in (
        (attn.documents, ids),
        (padding, valid),
        (prefix, length),
    ):
        both = make(data).dense(5, batch=2)
        for b in range(2):
            shared = make(data[b]) if data.dim() == 2 else make(int(data[b]))
            assert torch.equal(both[b : b + 1], shared.dense(5))
            one_row = make(data[b : b + 1]).dense(5, batch=3)
            assert torch.equal(one_row, shared.dense(5, batch=3))


def test_positions_outside_the_data_are_not_attended():
    for mask in (padding(torch.tensor([T, T])), attn.documents(IDS[:2])):
        before = mask.shift(kv=-1).dense(1, 3)[0, 0, 0]
        assert before.tolist() == [F, T, T]
    late = attn.documents(IDS).dense(2, 5, q_offset=torch.tensor([4]))
    assert late[0, 0].tolist() == [[F, F, T, T, T], [F] * 5]


@pytest.mark.parametrize(
    "dtype", (torch.float16, torch.bfloat16, torch.float32, torch.float64)
)
def test_a_bias_is_zero_or_minus_infinity(dtype):
    bias = sliding_window(2).bias(dtype, 3, 4, q_offset=1, batch=2)
    allowed = sliding_window(2).dense(3, 4, q_offset=1, batch=2)
    assert bias.dtype == dtype and bias.shape == (2, 1, 3, 4)
    assert (bias[allowed] == 0).all()
    assert (bias[~allowed] == -torch.inf).all()


def test_a_mask_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        causal().text = "other"


def test_bounds_are_the_tightest_window_of_a_conjunction():
    near = window(5, 3) & causal() & window(None, 9)
    assert near.bounds == (5, 0) and near.is_relative
    assert causal().bounds == (None, 0) and causal().is_relative
    padded = near & padding(torch.ones(1, 4, dtype=torch.bool))
    assert padded.bounds == (5, 0) and not padded.is_relative
    either = causal() | window(5, 3)
    assert either.bounds == (None, None) and not either.is_relative


FLEX = {
    "causal": causal(),
    "window": sliding_window(20),
    "prefix": causal() | prefix(40),
    "chunked": chunked(32) & causal(),
    "documents": attn.documents(torch.arange(150) // 37) & causal(),
    "padding": padding(torch.arange(150) < torch.tensor([[150], [33]])),
}


@pytest.mark.parametrize("name", FLEX)
@pytest.mark.parametrize("q_offset", (0, 50))
def test_the_block_mask_of_flex_attention_equals_the_dense_one(name, q_offset):
    mask, size = FLEX[name], 16
    rows_ = mask.extent.batch
    made = mask.block_mask(
        100, 150, batch=rows_, q_offset=q_offset, block_size=size
    )
    dense = mask.dense(100, 150, batch=rows_ or 1, q_offset=q_offset)
    padded = torch.nn.functional.pad(dense, (0, 10, 0, 12))
    blocks = padded.unflatten(-1, (-1, size)).unflatten(-3, (-1, size))
    touched = blocks.any(-1).any(-2)  # (B, H, L / 16, S / 16)
    assert torch.equal(made.to_dense().bool(), touched)
    theirs = create_block_mask(
        lambda b, h, i, j: mask(b, h, i + q_offset, j),
        rows_,
        None,
        100,
        150,
        device="cpu",
        BLOCK_SIZE=size,
    )
    assert torch.equal(made.to_dense(), theirs.to_dense())
    assert torch.equal(made.full_kv_num_blocks, theirs.full_kv_num_blocks)


def test_every_pattern_is_exported():
    patterns = attn.masks.patterns
    made = inspect.getmembers(patterns, inspect.isfunction)
    public = {
        name
        for name, function in made
        if function.__module__ == patterns.__name__ and name[0] != "_"
    }
    assert public == set(patterns.__all__)


NEW = """

def even() -> Mask:
    \"\"\"Allow the even keys.\"\"\"
    return Mask(lambda b, h, q_idx, kv_idx: kv_idx % 2 == 0, "even()")
"""


def test_a_new_mask_needs_a_change_in_one_file(tmp_path):
    """Its function in patterns.py, and it is wherever the others are."""
    package = tmp_path / "attn"
    shutil.copytree(Path(attn.__file__).parent, package)
    path = package / "masks" / "patterns.py"
    text = path.read_text().replace('"window",\n', '"window",\n    "even",\n')
    path.write_text(text + NEW)
    code = (
        "import attn; assert 'even' in attn.__all__; from attn import *; "
        "print((even() & attn.masks.causal()).dense(2)[0, 0].tolist())"
    )
    shown = run_python(code, cwd=tmp_path, env={})
    assert shown.stdout == "[[True, False], [True, False]]\n", shown.stderr
