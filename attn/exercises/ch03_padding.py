"""Exercise ``mask-padding``: nobody sees what is not there."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Generator, Tensor

from attn import masks
from attn.exercises.draw import between, is_bool
from attn.exercises.spec import Case, Exercise, Property


def _reference(lengths: Tensor, kv_len: int) -> Tensor:
    return masks.prefix(lengths).dense(1, kv_len, batch=len(lengths))


def _cases(g: Generator) -> Iterator[Case]:
    def draw(batch: int, low: int, high: int) -> Tensor:
        return torch.randint(low, high + 1, (batch,), generator=g)

    stage = "one sequence is padded"
    kv_len = between(g, 6, 8)
    yield Case(stage, (draw(1, 2, kv_len // 2 - 1), kv_len))

    stage = "several sequences are padded differently"
    lengths = torch.randperm(5, generator=g)[:3] + 1
    kv_len = int(lengths.max())
    yield Case(stage, (lengths, kv_len))
    yield Case(stage, (torch.tensor([1, kv_len]), kv_len))

    stage = "there are as many sequences as keys"
    size = between(g, 3, 5)
    yield Case(stage, (torch.randperm(size, generator=g) + 1, size))
    yield Case(stage, (torch.tensor([1]), 1))

    stage = "kv_len is more than the longest sequence"
    longest = between(g, 3, 4)
    lengths = torch.cat([draw(2, 1, longest), torch.tensor([longest])])
    yield Case(stage, (lengths, longest + between(g, 2, 4)))

    stage = "some sequence is empty, some is full"
    kv_len = between(g, 4, 6)
    lengths = torch.tensor([0, kv_len, between(g, 1, 3), 0])
    yield Case(stage, (lengths, kv_len))
    yield Case(stage, (torch.zeros(2, dtype=torch.int64), 3))

    stage = "lengths are int32, or a view of another tensor"
    yield Case(stage, (draw(4, 1, 5).int(), 5))
    yield Case(stage, (draw(8, 1, 6)[::2], 6))


def _has_four_axes(case: Case, out: Tensor) -> bool:
    return out.shape == (len(case.args[0]), 1, 1, _kv_len(case))


def _kv_len(case: Case) -> int:
    given = case.args[1] if len(case.args) > 1 else 0
    return int(case.kwargs.get("kv_len", given))


exercise = Exercise(
    id="mask-padding",
    points=2,
    reference=_reference,
    cases=_cases,
    hints=(
        "First the small table (B, S): is position j of row b a real "
        "token? Then the axes: the scores are (B, H, L, S).",
        "Compare the positions, torch.arange(kv_len) of shape (S,), with "
        "the lengths as a column, shape (B, 1). Positions count from 0: "
        "with length 3, which positions are real?",
        "The table (B, S) needs two axes of length 1 in the middle, for "
        "heads and queries: index it with None (or unsqueeze it) there.",
    ),
    properties=(
        Property("A mask is bool: True and False, no numbers.", is_bool),
        Property(
            "It must line up with scores (B, H, L, S), axis by axis: B rows, "
            "1 for all heads, 1 for all queries, S keys.",
            _has_four_axes,
        ),
        Property(
            "The number of True in a row must be its length.",
            lambda case, out: torch.equal(
                out.flatten(1).sum(1), case.args[0].long()
            ),
        ),
    ),
)


def _real(lengths: Tensor, kv_len: int) -> Tensor:
    return torch.arange(kv_len) < lengths[:, None]  # (B, S)


@exercise.misconception("True means padding", exposed_by="any padding")
def polarity(lengths: Tensor, kv_len: int) -> Tensor:
    """Your mask is True where there is padding; here True means that a key
    may be seen. It is an honest mix-up: nn.MultiheadAttention's
    key_padding_mask is True for padding, Hugging Face's attention_mask is
    1 for real tokens. As it is, only padding would be read. What should a
    row without padding be?"""
    return ~_real(lengths, kv_len)[:, None, None]


@exercise.misconception(
    "one padding token too many is seen", exposed_by="any padding"
)
def one_more(lengths: Tensor, kv_len: int) -> Tensor:
    """A row of length n has n + 1 True: position n is counted as real. Its
    output then depends, a little, on how far the batch was padded.
    Positions start at 0: at which position is the last of n tokens?"""
    return (torch.arange(kv_len) <= lengths[:, None])[:, None, None]


@exercise.misconception(
    "the last real token is hidden", exposed_by="any sequence"
)
def one_less(lengths: Tensor, kv_len: int) -> Tensor:
    """A row of length n has n - 1 True: its last token is never seen. In
    generation that is the newest one, which matters most. Do your
    positions start at 0 or at 1, and does the comparison fit?"""
    return (torch.arange(1, kv_len + 1) < lengths[:, None])[:, None, None]


@exercise.misconception(
    "padding is taken to stand on the left", exposed_by="any padding"
)
def on_the_left(lengths: Tensor, kv_len: int) -> Tensor:
    """The last n keys are True. Batches for generation are padded on the
    left, so both conventions are alive; here the real tokens come first.
    With the wrong one a model reads padding and misses the beginning.
    Where does the text of a row start?"""
    real = torch.arange(kv_len) >= kv_len - lengths[:, None]
    return real[:, None, None]


@exercise.misconception(
    "shape (B, S): the axes of heads and queries are missing",
    exposed_by="the shape",
)
def two_axes(lengths: Tensor, kv_len: int) -> Tensor:
    """The table is right and it does not fit yet. Broadcasting lines up
    axes from the right: against scores (B, H, L, S) your B meets L, the
    queries. With as many sequences as queries nobody would notice: query
    i would get the padding of sequence i. Which axes are missing, and
    where?"""
    return _real(lengths, kv_len)


@exercise.misconception(
    "shape (B, 1, S): the batch lands on the heads", exposed_by="the shape"
)
def three_axes(lengths: Tensor, kv_len: int) -> Tensor:
    """Broadcasting lines up axes from the right: against scores
    (B, H, L, S) the three axes of your mask meet H, L and S, so sequence
    b's padding goes to head b. With B = H there is no error. One axis is
    still missing: which?"""
    return _real(lengths, kv_len)[:, None]


@exercise.misconception(
    "padding lies on the query axis", exposed_by="the shape"
)
def query_axis(lengths: Tensor, kv_len: int) -> Tensor:
    """With shape (B, 1, S, 1) the padded queries see nothing, and every
    real token still reads the padding. With L = S the shapes fit, and a
    sequence's result then depends on how much padding its neighbours
    brought. Who is to be hidden: the one that looks, or the one that is
    looked at?"""
    return _real(lengths, kv_len)[:, None, :, None]


@exercise.misconception(
    "the batch lies on the head axis", exposed_by="two sequences: the shape"
)
def head_axis(lengths: Tensor, kv_len: int) -> Tensor:
    """With shape (1, B, 1, S) head b gets the padding of sequence b. When
    B is not H torch complains; when B = H it does not. Scores are
    (B, H, L, S): on which axis do the sequences lie?"""
    return _real(lengths, kv_len)[None, :, None]


@exercise.misconception(
    "queries are masked too: (B, 1, S, S)", exposed_by="the shape"
)
def outer_product(lengths: Tensor, kv_len: int) -> Tensor:
    """Real queries crossed with real keys. It needs S times the memory, it
    fits only when L = S, and the padded queries, which may now attend to
    nothing, are dead rows: a source of NaN. Their output is thrown away
    anyhow. Does anything go wrong when a padded query looks at real
    keys?"""
    real = _real(lengths, kv_len)
    return (real[:, :, None] & real[:, None, :])[:, None]


@exercise.misconception(
    "as wide as the longest sequence, not as kv_len",
    exposed_by="kv_len beyond the longest row",
)
def as_the_longest(lengths: Tensor, kv_len: int) -> Tensor:
    """The number of keys is taken from lengths.max(). A cache is usually
    longer than what has been written to it, and the scores have one
    column for each of its places. What is kv_len for?"""
    return _real(lengths, int(lengths.max()))[:, None, None]


@exercise.misconception(
    "1 and 0 instead of True and False", exposed_by="any input: the dtype"
)
def ones_and_zeros(lengths: Tensor, kv_len: int) -> Tensor:
    """The pattern is right, and it is Hugging Face's attention_mask; the
    dtype is integer. Attention functions refuse it, or add it to the
    scores, where a 0 forbids nothing. And ~ on integers gives -1 and -2,
    which are both true. What makes it bool?"""
    return _real(lengths, kv_len)[:, None, None].long()


@exercise.equivalent("view and expand")
def views(lengths: Tensor, kv_len: int) -> Tensor:
    positions = torch.arange(kv_len).expand(len(lengths), 1, 1, kv_len)
    return lengths.view(-1, 1, 1, 1) > positions


@exercise.equivalent("loops")
def loops(lengths: Tensor, kv_len: int) -> Tensor:
    mask = torch.zeros(len(lengths), 1, 1, kv_len, dtype=torch.bool)
    for b, length in enumerate(lengths.tolist()):
        mask[b, :, :, :length] = True
    return mask


@exercise.equivalent("a row of a triangle")
def triangle(lengths: Tensor, kv_len: int) -> Tensor:
    rows = torch.ones(kv_len + 1, kv_len).tril(-1).bool()
    return rows[lengths.long()].unsqueeze(1).unsqueeze(1)


@exercise.equivalent("counting with cumsum")
def counting(lengths: Tensor, kv_len: int) -> Tensor:
    count = torch.ones(len(lengths), kv_len).cumsum(-1)
    return (count <= lengths.unsqueeze(-1)).reshape(-1, 1, 1, kv_len)


@exercise.equivalent("a list of rows")
def rows(lengths: Tensor, kv_len: int) -> Tensor:
    table = [[[[j < n for j in range(kv_len)]]] for n in lengths.tolist()]
    return torch.tensor(table)


@exercise.equivalent("not padding")
def not_padding(lengths: Tensor, kv_len: int) -> Tensor:
    is_pad = torch.arange(kv_len)[None, :] >= lengths[:, None]
    return is_pad.logical_not()[:, None, None, :]
