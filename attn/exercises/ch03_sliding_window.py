"""Exercise ``mask-sliding_window``: only the last few tokens."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Generator, Tensor

from attn import masks
from attn.exercises.draw import between, is_bool
from attn.exercises.spec import Case, Exercise, Property


def _reference(
    q_len: int, kv_len: int, size: int, q_offset: int = 0
) -> Tensor:
    mask = masks.sliding_window(size)
    return mask.dense(q_len, kv_len, q_offset=q_offset)[0, 0]


def _cases(g: Generator) -> Iterator[Case]:
    stage = "the window is longer than the text, so only the future counts"
    length = between(g, 4, 6)
    yield Case(stage, (length, length, length + between(g, 1, 3)))

    stage = "size is 1, so a token sees only itself"
    length = between(g, 4, 6)
    yield Case(stage, (length, length, 1))

    stage = "the window is shorter than the text"
    length = between(g, 7, 9)
    yield Case(stage, (length, length, between(g, 2, 4)))
    yield Case(stage, (5, 5, 4))

    stage = "there are more keys than queries, or fewer, from position 0 on"
    q_len, size = between(g, 3, 4), between(g, 2, 3)
    yield Case(stage, (q_len, q_len + between(g, 2, 4), size))
    yield Case(stage, (q_len + between(g, 2, 4), q_len, size))

    stage = "the queries are the last tokens (q_offset = S - L)"
    q_len, past = between(g, 2, 3), between(g, 4, 6)
    yield Case(stage, (q_len, q_len + past, between(g, 2, 3), past))
    yield Case(stage, (1, past + 1, 3), {"q_offset": past})

    stage = "the queries start somewhere else"
    yield Case(stage, (3, 9, between(g, 2, 3), between(g, 1, 4)))

    stage = "q_offset is negative, or beyond the keys"
    yield Case(stage, (6, 4, 2, -between(g, 2, 3)))
    yield Case(stage, (5, 4, 3, between(g, 2, 4)))


def _offset(case: Case) -> int:
    given = case.args[3] if len(case.args) > 3 else 0
    return int(case.kwargs.get("q_offset", given))


def _no_future(case: Case, out: Tensor) -> bool:
    return not bool(out.triu(_offset(case) + 1).any())


def _at_most_size(case: Case, out: Tensor) -> bool:
    return bool((out.sum(-1) <= case.args[2]).all())


exercise = Exercise(
    id="mask-sliding_window",
    points=2,
    reference=_reference,
    cases=_cases,
    hints=(
        "Two conditions, and both must hold: the key is not in the future, "
        "and it is not too far in the past.",
        "How far back is a key? Its distance is the query's position minus "
        "its own: 0 for the token itself. Which distances may a window of "
        "size 3 see?",
        "With positions as in causal, distance = query position (a column, "
        "moved by q_offset) minus key position (a row). Allowed distances "
        "run from 0 to size - 1: two comparisons, joined with &.",
    ),
    properties=(
        Property("A mask is bool: True and False, no numbers.", is_bool),
        Property("Somebody sees the future: a key after itself.", _no_future),
        Property("A query sees more keys than size.", _at_most_size),
        Property(
            "No query sees anything further back than itself.",
            lambda case, out: (
                case.args[2] == 1
                or case.args[0] == 1
                or bool(out.tril(_offset(case) - 1).any())
            ),
        ),
    ),
)


def _distance(q_len: int, kv_len: int, q_offset: int) -> Tensor:
    """How far back each key is from each query, ``(L, S)``."""
    return torch.arange(q_len)[:, None] + q_offset - torch.arange(kv_len)


@exercise.misconception(
    "size + 1 keys: the token itself is not counted", exposed_by="size=1"
)
def one_more(q_len: int, kv_len: int, size: int, q_offset: int = 0) -> Tensor:
    """The token and size keys before it. Both conventions are in use:
    FlashAttention's and ONNX's left window of W keeps W + 1 keys, Hugging
    Face's sliding_window of W keeps W. A model trained with one and run
    with the other reads one key that it never learned to read. With
    size=1, how many keys should a row have?"""
    far = _distance(q_len, kv_len, q_offset)
    return (far >= 0) & (far <= size)


@exercise.misconception(
    "size - 1 keys: both ends are left out", exposed_by="size=1"
)
def one_less(q_len: int, kv_len: int, size: int, q_offset: int = 0) -> Tensor:
    """A row has one key too few; with size=1 it has none, and a query that
    sees nothing gives NaN or 0. The window starts at position - size + 1:
    is that key still inside? And is the comparison < or <=?"""
    far = _distance(q_len, kv_len, q_offset)
    return (far >= 0) & (far < size - 1)


@exercise.misconception(
    "the token itself is left out", exposed_by="the first row"
)
def without_itself(
    q_len: int, kv_len: int, size: int, q_offset: int = 0
) -> Tensor:
    """The window holds the size keys before the token, and not the token.
    Its first query may attend to nothing. The last key of a window is the
    token itself: which distance does that have?"""
    far = _distance(q_len, kv_len, q_offset)
    return (far >= 1) & (far <= size)


@exercise.misconception(
    "the window looks both ways", exposed_by="the first row"
)
def two_sided(q_len: int, kv_len: int, size: int, q_offset: int = 0) -> Tensor:
    """The distance is taken without its sign, so that keys after the token
    are as near as keys before it. Encoders such as Longformer do this; a
    language model would read the tokens that it should predict. What is
    the sign of the distance to a key in the future?"""
    return _distance(q_len, kv_len, q_offset).abs() < size


@exercise.misconception(
    "the future is not hidden: only the lower bound",
    exposed_by="a window longer than the text",
)
def not_causal(
    q_len: int, kv_len: int, size: int, q_offset: int = 0
) -> Tensor:
    """Keys that are too old are hidden, keys in the future are not: only
    one of the two ends of the window is there. Which condition did causal
    use?"""
    return _distance(q_len, kv_len, q_offset) < size


@exercise.misconception("only causal: nothing is too old", exposed_by="size=1")
def only_causal(
    q_len: int, kv_len: int, size: int, q_offset: int = 0
) -> Tensor:
    """The future is hidden and the whole past is seen: size does nothing.
    On texts shorter than the window nobody would notice. Which keys are
    too old for the last query?"""
    return _distance(q_len, kv_len, q_offset) >= 0


@exercise.misconception(
    "chunks instead of a sliding window", exposed_by="the row after a chunk"
)
def chunks(q_len: int, kv_len: int, size: int, q_offset: int = 0) -> Tensor:
    """The text is cut into blocks of size tokens, and each token sees the
    beginning of its own block. That is chunked attention (Llama 4 has
    it), and the first token of each block sees only itself. Here the
    window moves on with every token: how many keys should each row have,
    once the text is long enough?"""
    q_idx = torch.arange(q_len)[:, None] + q_offset
    kv_idx = torch.arange(kv_len)
    return (q_idx // size == kv_idx // size) & (kv_idx <= q_idx)


@exercise.misconception("True means drop", exposed_by="any input")
def polarity(q_len: int, kv_len: int, size: int, q_offset: int = 0) -> Tensor:
    """Your mask is True where attention is forbidden; here True means that
    a query may attend. As it is, a token would see everything except its
    own window. Which value should the diagonal have?"""
    return ~_reference(q_len, kv_len, size, q_offset)


@exercise.misconception(
    "q_offset is ignored", exposed_by="one query after several keys"
)
def no_offset(q_len: int, kv_len: int, size: int, q_offset: int = 0) -> Tensor:
    """The first query is always taken to stand at position 0: while text
    is generated, every new token would look at the beginning of the text
    and never at its neighbours. At which position does query i stand?"""
    return _reference(q_len, kv_len, size)


@exercise.misconception(
    "always aligned at the bottom right",
    exposed_by="more keys than queries, q_offset=0",
)
def bottom_right(
    q_len: int, kv_len: int, size: int, q_offset: int = 0
) -> Tensor:
    """The last query always meets the last key, as if q_offset were S - L.
    That is right while text is generated, and wrong for queries from
    anywhere else. Who knows where the queries start: the shapes, or
    q_offset?"""
    return _reference(q_len, kv_len, size, kv_len - q_len)


@exercise.misconception(
    "q_offset moves one end of the window only",
    exposed_by="a positive q_offset",
)
def half_offset(
    q_len: int, kv_len: int, size: int, q_offset: int = 0
) -> Tensor:
    """The causal end moves with q_offset and the other end stays where it
    was, so the window grows with every token that is generated, and so
    does the cache that it was meant to bound. How many keys does the
    newest token see?"""
    recent = _distance(q_len, kv_len, 0) < size
    return recent & (_distance(q_len, kv_len, q_offset) >= 0)


@exercise.equivalent("distances from 0 to size - 1")
def distances(q_len: int, kv_len: int, size: int, q_offset: int = 0) -> Tensor:
    far = _distance(q_len, kv_len, q_offset)
    return (far >= 0) & (far < size)


@exercise.equivalent("tril and triu")
def triangles(q_len: int, kv_len: int, size: int, q_offset: int = 0) -> Tensor:
    ones = torch.ones(q_len, kv_len, dtype=torch.bool)
    return ones.tril(q_offset).triu(q_offset - size + 1)


@exercise.equivalent("one triangle without another")
def exclusive_or(
    q_len: int, kv_len: int, size: int, q_offset: int = 0
) -> Tensor:
    past = torch.tril(torch.ones(q_len, kv_len), q_offset)
    too_old = torch.tril(torch.ones(q_len, kv_len), q_offset - size)
    return (past - too_old).bool()


@exercise.equivalent("loops")
def loops(q_len: int, kv_len: int, size: int, q_offset: int = 0) -> Tensor:
    mask = torch.zeros(q_len, kv_len, dtype=torch.bool)
    for i in range(q_len):
        here = i + q_offset
        for j in range(max(here - size + 1, 0), min(here + 1, kv_len)):
            mask[i, j] = True
    return mask


@exercise.equivalent("membership in a range")
def ranges(q_len: int, kv_len: int, size: int, q_offset: int = 0) -> Tensor:
    seen = [
        range(i + q_offset - size + 1, i + q_offset + 1) for i in range(q_len)
    ]
    return torch.tensor([[j in r for j in range(kv_len)] for r in seen])


@exercise.equivalent("not too old and not in the future")
def negated(q_len: int, kv_len: int, size: int, q_offset: int = 0) -> Tensor:
    q_idx = torch.arange(q_offset, q_offset + q_len).unsqueeze(1)
    kv_idx = torch.arange(kv_len).unsqueeze(0)
    return ~(torch.gt(kv_idx, q_idx) | torch.le(kv_idx, q_idx - size))
