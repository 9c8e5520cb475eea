"""Exercise ``mask-document``: several texts in one row."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Generator, Tensor

from attn import masks
from attn.exercises.draw import between, is_bool
from attn.exercises.spec import Case, Exercise, Property


def _reference(ids: Tensor) -> Tensor:
    mask = masks.causal() & masks.documents(ids)
    return mask.dense(ids.shape[1], batch=len(ids))


def _packed(g: Generator, *names: int) -> Tensor:
    """Documents of random length, 2 or 3, one after another; ``(S,)``."""
    return torch.cat([torch.full((between(g, 2, 3),), n) for n in names])


def _cases(g: Generator) -> Iterator[Case]:
    def shuffled(low: int, high: int) -> list[int]:
        order = torch.randperm(high - low, generator=g) + low
        return order.tolist()

    stage = "a row holds one document"
    length = between(g, 4, 6)
    yield Case(stage, (torch.full((1, length), between(g, 1, 5)),))

    stage = "a row holds several documents, numbered from 0"
    yield Case(stage, (_packed(g, 0, 1, 2)[None],))

    stage = "the ids are in no particular order"
    first, second, third = shuffled(1, 9)[:3]
    highest = max(first, second, third) + 1
    yield Case(stage, (_packed(g, highest, first, second, third)[None],))

    stage = "the rows of a batch are packed differently"
    yield Case(stage, (torch.tensor([[1, 1, 2, 2, 2], [1, 1, 1, 1, 2]]),))
    yield Case(stage, (torch.randint(0, 3, (3, 6), generator=g).sort()[0],))
    yield Case(stage, (torch.randint(0, 3, (4, 4), generator=g).sort()[0],))

    stage = "a document goes on after another"
    a, b = shuffled(0, 6)[:2]
    yield Case(stage, (torch.tensor([[a, a, b, b, a], [b, a, b, a, a]]),))
    yield Case(stage, (torch.randint(0, 2, (2, 7), generator=g),))

    stage = "ids are negative, large or int32"
    yield Case(stage, (_packed(g, -1, -100, 7)[None],))
    yield Case(stage, (_packed(g, 2**40, 2**40 + 1)[None],))
    yield Case(stage, (_packed(g, 3, 1).int()[None],))

    stage = "there is one token, or ids is a view"
    yield Case(stage, (torch.tensor([[between(g, 0, 9)]] * 2),))
    yield Case(stage, (torch.randint(0, 3, (5, 2), generator=g).mT,))
    yield Case(stage, (_packed(g, 4, 6)[None].expand(3, -1),))


def _no_future(case: Case, out: Tensor) -> bool:
    return not bool(out.triu(1).any())


def _no_other_document(case: Case, out: Tensor) -> bool:
    ids = case.args[0]
    strangers = ids[:, None, :, None] != ids[:, None, None, :]
    return not bool((out & strangers).any())


def _itself(case: Case, out: Tensor) -> bool:
    return bool(out.diagonal(dim1=-2, dim2=-1).all())


exercise = Exercise(
    id="mask-document",
    points=3,
    reference=_reference,
    cases=_cases,
    hints=(
        "Two conditions, and both must hold: query and key belong to one "
        "document, and the key is not in the future.",
        "Which tokens share a document? Compare the ids of a row with "
        "themselves, once as a column and once as a row. Keep the batch "
        "axis in front, so that each row of the batch has its own table.",
        "ids[:, :, None] == ids[:, None, :] is (B, S, S). Join it with a "
        "causal (S, S) table by &, then give the heads an axis of length 1 "
        "after B.",
    ),
    properties=(
        Property("A mask is bool: True and False, no numbers.", is_bool),
        Property(
            "It must line up with scores (B, H, L, S): where are the rows of "
            "the batch, and where is the axis of length 1 for the heads?",
            lambda case, out: (
                out.dim() == 4 and out.shape[:2] == (len(case.args[0]), 1)
            ),
        ),
        Property("A token must see itself, and here one does not.", _itself),
        Property("Somebody sees the future: a key after itself.", _no_future),
        Property("Somebody sees another document.", _no_other_document),
    ),
)


def _same(ids: Tensor) -> Tensor:
    return ids[:, :, None] == ids[:, None, :]  # (B, S, S)


def _earlier(ids: Tensor) -> Tensor:
    size = ids.shape[1]
    return torch.ones(size, size, dtype=torch.bool).tril()  # (S, S)


@exercise.misconception("the future is not hidden", exposed_by="one document")
def not_causal(ids: Tensor) -> Tensor:
    """Documents are kept apart, and within a document everybody sees
    everybody. A language model would read the tokens that it should
    predict. With a single document in the row, which mask should
    remain?"""
    return _same(ids)[:, None]


@exercise.misconception(
    "plain causal: the documents are not kept apart",
    exposed_by="two documents",
)
def only_causal(ids: Tensor) -> Tensor:
    """Every token sees all earlier ones, whichever document they are from:
    the recipe at the end of a row would be continued with the poem at its
    beginning. Packing does this silently when positions are reset and
    attention is not. Where do the ids enter?"""
    size = ids.shape[1]
    return _earlier(ids).expand(len(ids), 1, size, size)


@exercise.misconception(
    "earlier documents are seen (>= instead of ==)",
    exposed_by="two documents, the earlier with the smaller id",
)
def earlier_documents(ids: Tensor) -> Tensor:
    """A token sees documents whose id is smaller. Ids are names and not
    numbers: smaller means nothing, and another document is another
    document, whether it came before or not. Which comparison means: the
    same?"""
    smaller = ids[:, :, None] >= ids[:, None, :]
    return (smaller & _earlier(ids))[:, None]


@exercise.misconception(
    "shape (B, S, S): the batch lands on the heads", exposed_by="the shape"
)
def three_axes(ids: Tensor) -> Tensor:
    """Broadcasting lines up axes from the right: against scores
    (B, H, L, S) the rows of the batch would be used for the heads. With
    B = H there is no error, only wrong numbers. Which axis is missing, and
    where?"""
    return _same(ids) & _earlier(ids)


@exercise.misconception(
    "the batch lies on the head axis", exposed_by="two rows: the shape"
)
def head_axis(ids: Tensor) -> Tensor:
    """With shape (1, B, S, S) head b gets the packing of row b. When B is
    not H torch complains; when B = H it does not. Scores are
    (B, H, L, S): on which side of B does the new axis belong?"""
    return (_same(ids) & _earlier(ids))[None]


@exercise.misconception(
    "the first row's ids are used for the whole batch",
    exposed_by="two rows that are packed differently",
)
def first_row(ids: Tensor) -> Tensor:
    """Every row of the batch is cut where the first one is. With one row
    nobody would notice. Does your comparison keep the batch axis?"""
    return (_same(ids) & _earlier(ids))[:1, None].expand(
        len(ids), 1, ids.shape[1], ids.shape[1]
    )


@exercise.misconception(
    "cut wherever the id changes, so that a document cannot go on",
    exposed_by="a document that goes on after another",
)
def change_points(ids: Tensor) -> Tensor:
    """A document that is interrupted and goes on counts as two: you number
    the stretches of equal ids, or multiply along them. transformers finds
    packed documents in this way, from positions that start again. This
    task is about equal ids, wherever they stand. Which two ids need to be
    compared?"""
    change = torch.zeros_like(ids)
    change[:, 1:] = ids[:, 1:] != ids[:, :-1]
    return (_same(change.cumsum(1)) & _earlier(ids))[:, None]


@exercise.misconception(
    "a token sees only itself and its neighbour",
    exposed_by="a document of three tokens",
)
def neighbour_only(ids: Tensor) -> Tensor:
    """Each id is compared with the one just before it, so the mask is at
    most two keys wide. A document has more than two tokens: every query
    needs to be compared with every key. How do you make a table out of
    two vectors?"""
    pairs = _earlier(ids) & ~_earlier(ids).tril(-2)
    return (_same(ids) & pairs)[:, None]


@exercise.misconception(
    "the token itself is left out", exposed_by="the first row"
)
def without_itself(ids: Tensor) -> Tensor:
    """The diagonal is False. The first token of every document may then
    attend to nothing: a dead row for each document in the batch. What
    should the first token look at?"""
    return (_same(ids) & _earlier(ids).tril(-1))[:, None]


@exercise.misconception(
    "document 0 is taken for padding", exposed_by="ids that start at 0"
)
def zero_is_padding(ids: Tensor) -> Tensor:
    """Tokens with id 0 may attend to nothing. Some packers number from 1
    and fill up with 0; here every integer is a document like any other.
    Where does your code treat 0, or a false id, differently?"""
    real = (ids != 0)[:, :, None] & (ids != 0)[:, None, :]
    return (_same(ids) & real & _earlier(ids))[:, None]


@exercise.misconception("True means drop", exposed_by="any input")
def polarity(ids: Tensor) -> Tensor:
    """Your mask is True where attention is forbidden; here True means that
    a query may attend. As it is, a token would see the future and all
    other documents, and not its own. Which value should the diagonal
    have?"""
    return ~_reference(ids)


@exercise.misconception("or instead of and", exposed_by="one document, or two")
def either(ids: Tensor) -> Tensor:
    """A key is allowed when it is earlier or when it is in the same
    document: the future of a document is open, and so is the past of the
    others. Each mask should forbid what it forbids. Which operator says
    that both must allow?"""
    return (_same(ids) | _earlier(ids))[:, None]


@exercise.equivalent("loops")
def loops(ids: Tensor) -> Tensor:
    batch, size = ids.shape
    mask = torch.zeros(batch, 1, size, size, dtype=torch.bool)
    for b in range(batch):
        for i in range(size):
            for j in range(i + 1):
                mask[b, 0, i, j] = ids[b, i] == ids[b, j]
    return mask


@exercise.equivalent("tril of the comparison")
def tril(ids: Tensor) -> Tensor:
    return ids[:, None, :, None].eq(ids[:, None, None, :]).tril()


@exercise.equivalent("the difference is 0")
def difference(ids: Tensor) -> Tensor:
    apart = ids.unsqueeze(2) - ids.unsqueeze(1)
    return torch.tril((apart == 0).float()).bool().unsqueeze(1)


@exercise.equivalent("one document at a time")
def one_at_a_time(ids: Tensor) -> Tensor:
    size = ids.shape[1]
    mask = torch.zeros(len(ids), size, size, dtype=torch.bool)
    for name in ids.unique():
        member = ids == name
        mask |= member[:, :, None] & member[:, None, :]
    return (mask & _earlier(ids))[:, None]


@exercise.equivalent("one-hot ids multiplied")
def one_hot(ids: Tensor) -> Tensor:
    names, index = ids.unique(return_inverse=True)
    hot = torch.nn.functional.one_hot(index, len(names)).float()
    shared = torch.einsum("bin,bjn->bij", hot, hot) > 0
    return (shared & _earlier(ids)).view(len(ids), 1, *shared.shape[1:])


@exercise.equivalent("stacked row by row")
def stacked(ids: Tensor) -> Tensor:
    rows = []
    for row in ids:
        same = (
            row.view(-1, 1) == row.view(1, -1)
            if row.is_contiguous()
            else (row.reshape(-1, 1) == row.reshape(1, -1))
        )
        rows.append(same.logical_and(_earlier(ids)).unsqueeze(0))
    return torch.stack(rows)
