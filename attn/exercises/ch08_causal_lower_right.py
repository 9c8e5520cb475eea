"""Exercise ``sdpa-causal_lower_right``: the queries are the last tokens."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Generator, Tensor

from attn import masks
from attn.exercises.spec import Case, Exercise, Property


def causal_lower_right(q_len: int, kv_len: int) -> Tensor:
    """The reference: a causal mask at the offset of the last tokens."""
    return masks.causal().dense(q_len, kv_len, q_offset=kv_len - q_len)[0, 0]


def _cases(g: Generator) -> Iterator[Case]:
    def draw(low: int, high: int) -> int:
        return int(torch.randint(low, high, (1,), generator=g))

    stage = "there is one query: a step of decoding"
    yield Case(stage, (1, draw(3, 9)))
    yield Case(stage, (1, 1))

    stage = "there are as many queries as keys"
    length = draw(3, 7)
    yield Case(stage, (length, length))

    stage = "there are more keys than queries"
    yield Case(stage, (2, 5))
    q_len = draw(3, 6)
    yield Case(stage, (q_len, q_len + draw(2, 6)))

    stage = "there are more queries than keys"
    yield Case(stage, (5, 2))
    kv_len = draw(2, 5)
    yield Case(stage, (kv_len + draw(2, 5), kv_len))


def _last_sees_all(case: Case, out: Tensor) -> bool:
    return out.dim() != 2 or bool(out[-1].all())


def _right_shape(case: Case, out: object) -> bool:
    return isinstance(out, Tensor) and tuple(out.shape) == case.args


exercise = Exercise(
    id="sdpa-causal_lower_right",
    points=1,
    reference=causal_lower_right,
    cases=_cases,
    hints=(
        "Write the mask for L = 2 and S = 5 on paper, the last row first: "
        "the last query is the last token, so it sees all five keys.",
        "Query i is token number i + S - L, and sees every key up to its "
        "own number. You wrote this mask in chapter 3, with an offset.",
        "tril(k) keeps what lies up to k above the main diagonal. In the "
        "last row the last key is S - L places to the right of it.",
    ),
    properties=(
        Property(
            "The mask should have shape (L, S): a row a query.",
            _right_shape,
        ),
        Property(
            "The last query is the last token: its row must be all True.",
            _last_sees_all,
        ),
    ),
)


@exercise.misconception(
    "the upper left corner, as in is_causal", exposed_by="L and S that differ"
)
def top_left(q_len, kv_len):
    """Query 0 sees key 0 alone, as torch's is_causal has it. With a cache
    of a thousand tokens, a new token would look at the first one only. At
    which position does query 0 stand when the queries are the last
    tokens?"""
    return torch.ones(q_len, kv_len).tril().bool()


@exercise.misconception(
    "the sign of the offset is turned", exposed_by="L and S that differ"
)
def wrong_sign(q_len, kv_len):
    """tril(L - S) moves the diagonal to the left when there are more keys
    than queries. Into which direction does the corner have to go so that
    the last query sees the last key?"""
    return torch.ones(q_len, kv_len).tril(q_len - kv_len).bool()


@exercise.misconception(
    "one key too many", exposed_by="the row before the last"
)
def one_more(q_len, kv_len):
    """Each query sees the token after its own: a model that was trained
    like this has read the answer. Which key is the last that the query
    before the last may see?"""
    return torch.ones(q_len, kv_len).tril(kv_len - q_len + 1).bool()


@exercise.misconception(
    "a token does not see itself", exposed_by="the last row"
)
def one_less(q_len, kv_len):
    """The diagonal is left out: the newest token cannot look at itself, and
    the first one at nothing. May position i attend to position i?"""
    return torch.ones(q_len, kv_len).tril(kv_len - q_len - 1).bool()


@exercise.misconception("True stands for forbidden", exposed_by="any sizes")
def inverted(q_len, kv_len):
    """triu marks what has to be hidden: nn.MultiheadAttention's meaning. In
    scaled_dot_product_attention True means may attend. Which entries should
    be True?"""
    return ~causal_lower_right(q_len, kv_len)


@exercise.misconception(
    "every query sees everything", exposed_by="more than one query"
)
def everything(q_len, kv_len):
    """Right for one query, which is why decoding works without a mask; with
    two new tokens the first would see the second. Which key must the first
    of two queries not see?"""
    return torch.ones(q_len, kv_len, dtype=torch.bool)


@exercise.misconception(
    "the mask lies on its side", exposed_by="L and S that differ"
)
def transposed(q_len, kv_len):
    """The result is (S, L): keys down, queries across. Scores are (L, S).
    Which of the two lengths is the number of rows?"""
    return causal_lower_right(q_len, kv_len).mT


@exercise.misconception(
    "numbers instead of booleans", exposed_by="any sizes: the dtype"
)
def numbers(q_len, kv_len):
    """A float mask is *added* to the scores: 1 where it is allowed, 0 where
    it is not, and so nothing is forbidden. Which dtype means may attend?"""
    return torch.ones(q_len, kv_len).tril(kv_len - q_len)


@exercise.misconception("an additive mask", exposed_by="any sizes: the dtype")
def additive(q_len, kv_len):
    """Zeros and minus infinities are a good mask, of the other kind. This
    task asks for booleans: they combine with & and do not depend on a
    dtype. What does the Returns line say?"""
    allowed = causal_lower_right(q_len, kv_len)
    return torch.zeros(q_len, kv_len).masked_fill(~allowed, -torch.inf)


@exercise.misconception(
    "the offset never goes below 0", exposed_by="more queries than keys"
)
def clamped(q_len, kv_len):
    """With more queries than keys the first ones stand before the first
    key: they see nothing. Clamping the offset at 0 turns the corner to the
    upper left. How many rows are empty for L = 5 and S = 2?"""
    return torch.ones(q_len, kv_len).tril(max(kv_len - q_len, 0)).bool()


@exercise.misconception(
    "queries without a key see the first one",
    exposed_by="more queries than keys",
)
def never_empty(q_len, kv_len):
    """Letting a query that has no key see key 0 avoids an empty row, and
    lets it read its own future. Attention gives 0 for an empty row, so
    there is nothing to avoid. What may a query see that stands before the
    first key?"""
    allowed = causal_lower_right(q_len, kv_len)
    allowed = allowed.clone()
    allowed[:, 0] = True
    return allowed


@exercise.equivalent("positions, compared")
def _positions(q_len, kv_len):
    rows = torch.arange(kv_len - q_len, kv_len)
    return torch.arange(kv_len)[None, :] <= rows[:, None]


@exercise.equivalent("the last rows of a square")
def _last_rows(q_len, kv_len):
    size = max(q_len, kv_len)
    square = torch.tril(torch.ones(size, size, dtype=torch.bool))
    return square[size - q_len :, size - kv_len :]


@exercise.equivalent("triu, turned by 180 degrees")
def _flipped(q_len, kv_len):
    upper = torch.ones(q_len, kv_len).triu().flip(0, 1)
    return upper > 0


@exercise.equivalent("Python lists")
def _lists(q_len, kv_len):
    return torch.tensor(
        [
            [j - kv_len <= i - q_len for j in range(kv_len)]
            for i in range(q_len)
        ]
    )


@exercise.equivalent("what is after, negated")
def _negated(q_len, kv_len):
    after = torch.full((q_len, kv_len), True).triu(kv_len - q_len + 1)
    return torch.logical_not(after)


@exercise.equivalent("row by row")
def _rows(q_len, kv_len):
    mask = torch.zeros(q_len, kv_len, dtype=torch.bool)
    for i in range(q_len):
        mask[i, : max(0, kv_len - q_len + i + 1)] = True
    return mask
