"""Exercise ``mask-causal``: nobody sees the future."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Generator, Tensor

from attn import masks
from attn.exercises.draw import between, is_bool
from attn.exercises.spec import Case, Exercise, Property


def _reference(q_len: int, kv_len: int, q_offset: int = 0) -> Tensor:
    return masks.causal().dense(q_len, kv_len, q_offset=q_offset)[0, 0]


def _cases(g: Generator) -> Iterator[Case]:
    stage = "there are as many queries as keys"
    size = between(g, 4, 6)
    yield Case(stage, (size, size))
    yield Case(stage, (1, 1))

    stage = "there are more keys than queries, and both start at 0"
    q_len = between(g, 2, 4)
    yield Case(stage, (q_len, q_len + between(g, 2, 4)))
    yield Case(stage, (1, between(g, 4, 7)))

    stage = "there are more queries than keys, and both start at 0"
    kv_len = between(g, 2, 4)
    yield Case(stage, (kv_len + between(g, 2, 4), kv_len))

    stage = "the queries are the last tokens (q_offset = S - L)"
    q_len, past = between(g, 2, 3), between(g, 2, 5)
    yield Case(stage, (q_len, q_len + past, past))
    yield Case(stage, (1, past + 1), {"q_offset": past})

    stage = "the queries start somewhere else (0 < q_offset, not S - L)"
    q_len, past = between(g, 2, 3), between(g, 2, 3)
    yield Case(stage, (q_len, q_len + past + 3, past))
    yield Case(stage, (q_len + 2, q_len + 2, 1))

    stage = "q_offset is larger than the number of keys"
    kv_len = between(g, 2, 5)
    yield Case(stage, (3, kv_len, kv_len + between(g, 1, 4)))

    stage = "q_offset is negative, so the first queries see nothing"
    kv_len = between(g, 3, 6)
    yield Case(stage, (kv_len + 2, kv_len, -between(g, 2, 3)))
    yield Case(stage, (2, 5, -between(g, 3, 9)))


def _itself(case: Case, out: Tensor) -> bool:
    offset = _offset(case)
    rows, columns = out.shape
    seen = [
        out[i, i + offset] for i in range(rows) if 0 <= i + offset < columns
    ]
    return all(map(bool, seen))


def _no_future(case: Case, out: Tensor) -> bool:
    return not bool(out.triu(_offset(case) + 1).any())


def _offset(case: Case) -> int:
    given = case.args[2] if len(case.args) > 2 else 0
    return int(case.kwargs.get("q_offset", given))


exercise = Exercise(
    id="mask-causal",
    points=1,
    reference=_reference,
    cases=_cases,
    hints=(
        "Write down, for one query and one key, the positions at which "
        "they stand. Which comparison of the two means: not in the future?",
        "Build two index vectors with torch.arange, one for the queries "
        "and one for the keys, move the first by q_offset, and let "
        "broadcasting compare every query with every key.",
        "A column of query positions, shape (L, 1), compared with a row of "
        "key positions, shape (S,), gives (L, S) in one go. A token sees "
        "itself: should the comparison be < or <=?",
    ),
    properties=(
        Property("A mask is bool: True and False, no numbers.", is_bool),
        Property("A token must see itself, and here one does not.", _itself),
        Property("Somebody sees the future: a key after itself.", _no_future),
    ),
)


def _grid(q_len: int, kv_len: int, q_offset: int) -> tuple[Tensor, Tensor]:
    return torch.arange(q_len)[:, None] + q_offset, torch.arange(kv_len)


@exercise.misconception(
    "True means drop", exposed_by="any sequence of two tokens"
)
def polarity(q_len: int, kv_len: int, q_offset: int = 0) -> Tensor:
    """Your mask is True where attention is forbidden; here, and in
    scaled_dot_product_attention, True means that a query may attend. Both
    dialects exist: nn.MultiheadAttention uses the other one. Handed over
    as it is, every token would see only the future: training loss falls
    to almost nothing, and generated text is garbage. Which value should
    the diagonal have?"""
    q_idx, kv_idx = _grid(q_len, kv_len, q_offset)
    return kv_idx > q_idx


@exercise.misconception("the diagonal is excluded", exposed_by="the first row")
def no_diagonal(q_len: int, kv_len: int, q_offset: int = 0) -> Tensor:
    """A token does not see itself. Nothing leaks, so a test for leaks is
    content, but the first query may attend to nothing at all: with -inf
    in the scores its weights would be NaN. What should the first token of
    a text look at?"""
    q_idx, kv_idx = _grid(q_len, kv_len, q_offset)
    return kv_idx < q_idx


@exercise.misconception(
    "one token of the future leaks", exposed_by="the first row"
)
def leaks_one(q_len: int, kv_len: int, q_offset: int = 0) -> Tensor:
    """Each token also sees the one after it, and that is the very token
    that a language model should predict: it copies the answer, the loss
    falls to almost 0, and generated text is nonsense. How many keys may
    the first query see?"""
    q_idx, kv_idx = _grid(q_len, kv_len, q_offset)
    return kv_idx <= q_idx + 1


@exercise.misconception(
    "upside down: a token sees the future, not the past",
    exposed_by="the first row",
)
def transposed(q_len: int, kv_len: int, q_offset: int = 0) -> Tensor:
    """The first query sees every key and the last only itself: queries and
    keys have changed places (triu for tril, or the comparison the wrong
    way round). Queries go down, keys across. How many keys should the
    first row have?"""
    q_idx, kv_idx = _grid(q_len, kv_len, q_offset)
    return kv_idx >= q_idx


@exercise.misconception(
    "q_offset is ignored", exposed_by="one query after several keys"
)
def no_offset(q_len: int, kv_len: int, q_offset: int = 0) -> Tensor:
    """The first query is always taken to stand at position 0. When text is
    generated with a cache, the newest token would see key 0 only, and the
    model would forget what it has just read. is_causal=True in torch does
    exactly this. At which position does query i stand?"""
    return _reference(q_len, kv_len)


@exercise.misconception(
    "q_offset has the wrong sign", exposed_by="a positive q_offset"
)
def wrong_sign(q_len: int, kv_len: int, q_offset: int = 0) -> Tensor:
    """A larger q_offset should move the queries later, so that they see
    more keys; in your mask they see fewer. Is the offset added to the
    position of the queries, or to that of the keys?"""
    return _reference(q_len, kv_len, -q_offset)


@exercise.misconception(
    "always aligned at the bottom right",
    exposed_by="more keys than queries, q_offset=0",
)
def bottom_right(q_len: int, kv_len: int, q_offset: int = 0) -> Tensor:
    """The last query always meets the last key, as if q_offset were S - L.
    That is right while text is generated and wrong elsewhere: torch's
    is_causal aligns at the top left, and a chunk from the middle of a
    text at neither corner. Who knows where the queries start: the shapes,
    or q_offset?"""
    return _reference(q_len, kv_len, kv_len - q_len)


@exercise.misconception(
    "cut out of a square mask that is too small",
    exposed_by="more queries than keys, or a large q_offset",
)
def cut_out(q_len: int, kv_len: int, q_offset: int = 0) -> Tensor:
    """Rows q_offset to q_offset + L of a square S x S mask: a slice past
    the end is silently short, and a negative start counts from the end.
    Caches that slice a precomputed mask break in this way when the
    context grows. Can you compute each row from its position, without a
    table?"""
    square = _reference(kv_len, kv_len)
    return square[q_offset : q_offset + q_len]


@exercise.misconception(
    "1 and 0 instead of True and False", exposed_by="any input: the dtype"
)
def ones_and_zeros(q_len: int, kv_len: int, q_offset: int = 0) -> Tensor:
    """The pattern is right, the dtype is float. An attention function
    takes a float mask for a bias and adds it to the scores: a 0 forbids
    nothing, and the 1s cancel almost entirely. Nothing would be masked,
    and no error would say so. What makes it bool?"""
    return _reference(q_len, kv_len, q_offset).float()


@exercise.misconception(
    "a bias of 0 and -inf instead of True and False",
    exposed_by="any input: the dtype",
)
def additive(q_len: int, kv_len: int, q_offset: int = 0) -> Tensor:
    """This is the same mask in its additive form: 0 where a query may
    attend and -inf where not. Attention would accept it, but it takes
    four bytes an entry and cannot be combined with & and |. The task asks
    for booleans: which comparison did you start from?"""
    allowed = _reference(q_len, kv_len, q_offset)
    return torch.zeros(q_len, kv_len).masked_fill(~allowed, -torch.inf)


@exercise.equivalent("tril of ones")
def tril(q_len: int, kv_len: int, q_offset: int = 0) -> Tensor:
    return torch.ones(q_len, kv_len, dtype=torch.bool).tril(q_offset)


@exercise.equivalent("not triu")
def not_triu(q_len: int, kv_len: int, q_offset: int = 0) -> Tensor:
    future = torch.triu(torch.ones(q_len, kv_len), diagonal=q_offset + 1)
    return future == 0


@exercise.equivalent("loops")
def loops(q_len: int, kv_len: int, q_offset: int = 0) -> Tensor:
    mask = torch.zeros(q_len, kv_len, dtype=torch.bool)
    for i in range(q_len):
        for j in range(kv_len):
            mask[i, j] = j <= i + q_offset
    return mask


@exercise.equivalent("numpy")
def numpy(q_len: int, kv_len: int, q_offset: int = 0) -> Tensor:
    return torch.from_numpy(np.tri(q_len, kv_len, q_offset, dtype=bool))


@exercise.equivalent("distance between key and query")
def distance(q_len: int, kv_len: int, q_offset: int = 0) -> Tensor:
    keys, queries = torch.arange(kv_len), torch.arange(q_len)
    return (keys.unsqueeze(0) - queries.unsqueeze(1)).le(q_offset)


@exercise.equivalent("a list of rows")
def rows(q_len: int, kv_len: int, q_offset: int = 0) -> Tensor:
    seen = [min(max(i + q_offset + 1, 0), kv_len) for i in range(q_len)]
    return torch.tensor([[True] * n + [False] * (kv_len - n) for n in seen])


@exercise.equivalent("where the bias is 0")
def from_bias(q_len: int, kv_len: int, q_offset: int = 0) -> Tensor:
    bias = torch.full((q_len, kv_len), -torch.inf)
    return torch.triu(bias, diagonal=q_offset + 1) == 0
