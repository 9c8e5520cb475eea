"""Cases, properties and correct variants of ``mask-document``."""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from attn import masks
from attn.exercises.conditions import views
from attn.exercises.draw import Draw, entries
from attn.exercises.mask.claims import IS_BOOL, itself, no_future
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.symmetry import is_view


def _reference(ids: Tensor) -> Tensor:
    mask = masks.causal() & masks.documents(ids)
    return mask.dense(ids.shape[1], batch=len(ids))


def _cases(g: Draw) -> Iterator[Case]:
    def packed(*names: int) -> Tensor:
        """Pack documents of random length, 2 or 3; ``(1, S)``."""
        parts = [torch.full((1, g.between(2, 3)), n) for n in names]
        return torch.cat(parts, dim=1)

    def draw(kinds: int, *shape: int) -> Tensor:
        return torch.randint(0, kinds, shape, generator=g)

    names = (torch.randperm(8, generator=g)[:3] + 1).tolist()
    a, b, _ = names
    table = {
        "a row holds one document": [torch.full((1, g.between(4, 6)), a)],
        "there is one token": [torch.tensor([[a], [a]])],
        "a row holds several documents, numbered from 0": [packed(0, 1, 2)],
        "the ids are in no particular order": [packed(max(names) + 1, *names)],
        "the rows of a batch are packed differently": [
            torch.tensor([[1, 1, 2, 2, 2], [1, 1, 1, 1, 2]]),
            draw(3, 3, 6).sort()[0],
            draw(3, 4, 4).sort()[0],
        ],
        "a document goes on after another": [
            torch.tensor([[a, a, b, b, a], [b, a, b, a, a]]),
            draw(2, 2, 7),
        ],
        "ids are negative, large or int32": [
            packed(-1, -100, 7),
            packed(3, -3, 0),
            packed(2**40, 2**40 + 1),
            packed(7, 7 + 2**8, 7 + 2**16, 7 + 2**32),
            packed(3, 1).int(),
        ],
        "all rows are packed alike": [packed(4, 6).expand(3, -1)],
    }
    for when, ids in entries(table):
        yield Case(when, (ids,))


def _no_other_document(case: Case, out: Tensor) -> bool:
    ids = case.args[0]
    strangers = ids[:, None, :, None] != ids[:, None, None, :]
    return not (out & strangers).any()


exercise = Exercise(
    id="mask-document",
    points=3,
    reference=_reference,
    cases=_cases,
    also=(views(),),
    properties=(
        IS_BOOL,
        Property(
            "It must line up with scores (B, H, L, S): where are the rows of "
            "the batch, and where is the axis of length 1 for the heads?",
            lambda case, out: (
                out.dim() == 4 and out.shape[:2] == (len(case.args[0]), 1)
            ),
        ),
        itself(lambda case: 0),
        no_future(lambda case: 0),
        Property("A query sees another document.", _no_other_document),
    ),
    breaks={
        "S = 1": lambda c: c.args[0].shape[1] > 1,
        "H = 1": lambda c: len(c.args[0]) > 1,
        "L = S": lambda c: c.args[0].shape[0] != c.args[0].shape[1],
        "contiguous strides": is_view,
    },
)


def _earlier(ids: Tensor) -> Tensor:
    size = ids.shape[1]
    return torch.ones(size, size, dtype=torch.bool).tril()  # (S, S)


@exercise.equivalent("loops")
def _loops(ids):
    batch, size = ids.shape
    mask = torch.zeros(batch, 1, size, size, dtype=torch.bool)
    for b in range(batch):
        for i in range(size):
            for j in range(i + 1):
                mask[b, 0, i, j] = ids[b, i] == ids[b, j]
    return mask


@exercise.equivalent("tril of the comparison")
def _tril(ids):
    return ids[:, None, :, None].eq(ids[:, None, None, :]).tril()


@exercise.equivalent("the difference is 0")
def _difference(ids):
    apart = ids.unsqueeze(2) - ids.unsqueeze(1)
    return torch.tril((apart == 0).float()).bool().unsqueeze(1)


@exercise.equivalent("one document at a time")
def _one_at_a_time(ids):
    mask = torch.zeros(*ids.shape, ids.shape[1], dtype=torch.bool)
    for name in ids.unique():
        member = ids == name
        mask |= member[:, :, None] & member[:, None, :]
    return (mask & _earlier(ids))[:, None]


@exercise.equivalent("one-hot ids multiplied")
def _one_hot(ids):
    names, index = ids.unique(return_inverse=True)
    hot = F.one_hot(index, len(names)).float()
    shared = torch.einsum("bin,bjn->bij", hot, hot) > 0
    return (shared & _earlier(ids)).view(len(ids), 1, *shared.shape[1:])


@exercise.equivalent("stacked row by row")
def _stacked(ids):
    rows = []
    for row in ids:
        same = row.reshape(-1, 1) == row.reshape(1, -1)
        rows.append(same.logical_and(_earlier(ids)).unsqueeze(0))
    return torch.stack(rows)


@exercise.equivalent("vmap over rows")
def _vmap(ids):
    def one(row):
        return (row.unsqueeze(1) == row).tril()

    return torch.vmap(one)(ids).unsqueeze(1)


@exercise.equivalent("lists")
def _lists(ids):
    table = [
        [[[j <= i and a == b for j, b in enumerate(row)]]
         for i, a in enumerate(row)]
        for row in ids.tolist()
    ]  # fmt: skip
    return torch.tensor(table).transpose(1, 2).contiguous()


@exercise.equivalent("exclusive or of the bits")
def _bits(ids):
    apart = ids.unsqueeze(-1).bitwise_xor(ids.unsqueeze(-2))
    return apart.bool().logical_not().tril()[:, None]


@exercise.equivalent("not in the future, not of another document")
def _negated(ids):
    other = ids[:, None, :, None].ne(ids[:, None, None, :])
    future = torch.ones_like(other).triu(1)
    return ~(other | future)
