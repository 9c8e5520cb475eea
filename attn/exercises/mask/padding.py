"""Cases, properties and correct variants of ``mask-padding``."""

from collections.abc import Iterator

import torch
from torch import Tensor

from attn import masks
from attn.exercises.conditions import views
from attn.exercises.draw import Draw, entries
from attn.exercises.mask.claims import IS_BOOL
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.symmetry import argument


def _reference(lengths: Tensor, kv_len: int) -> Tensor:
    return masks.prefix(lengths).dense(1, kv_len, batch=len(lengths))


def _cases(g: Draw) -> Iterator[Case]:
    def draw(batch: int, low: int, high: int) -> Tensor:
        return torch.randint(low, high + 1, (batch,), generator=g)

    longest, size = g.between(3, 4), g.between(4, 6)
    lengths = torch.randperm(5, generator=g)[:3] + 1
    table = {
        "one sequence is padded": [(draw(1, 2, 3), 8), (draw(1, 6, 6), 7)],
        "several sequences are padded differently": [
            (lengths, int(lengths.max())),
            (torch.tensor([1, size]), size),
        ],
        "there are as many sequences as keys": [
            (torch.randperm(size, generator=g) + 1, size),
            (torch.tensor([1]), 1),
        ],
        "kv_len is more than the longest sequence": [
            (draw(3, 1, longest), longest + g.between(2, 4))
        ],
        "some sequence is empty, some is full": [
            (torch.tensor([0, size, g.between(1, 3), 0]), size),
            (torch.zeros(2, dtype=torch.int64), 3),
        ],
        "lengths are int32, or one for all": [
            (draw(4, 1, 5).int(), 5),
            (draw(1, 1, 4).expand(3), 5),
        ],
    }
    for when, args in entries(table):
        yield Case(when, args)


exercise = Exercise(
    id="mask-padding",
    points=2,
    reference=_reference,
    cases=_cases,
    also=(views(),),
    properties=(
        IS_BOOL,
        Property(
            "It must line up with scores (B, H, L, S), axis by axis: B rows, "
            "1 for all heads, 1 for all queries, S keys.",
            lambda case, out: (
                out.shape == (len(case.args[0]), 1, 1, case.args[1])
            ),
        ),
        Property(
            "The number of True in a row must be its length.",
            lambda case, out: torch.equal(
                out.flatten(1).sum(1), case.args[0].long()
            ),
        ),
    ),
    breaks={
        "S = 1": lambda c: argument(c, 1, "kv_len") > 1,
        "H = 1": lambda c: len(c.args[0]) > 1,
        "L = S": lambda c: len(c.args[0]) != argument(c, 1, "kv_len"),
    },
)


@exercise.equivalent("view and expand")
def _views(lengths, kv_len):
    positions = torch.arange(kv_len).expand(len(lengths), 1, 1, kv_len)
    return lengths.view(-1, 1, 1, 1) > positions


@exercise.equivalent("loops")
def _loops(lengths, kv_len):
    mask = torch.zeros(len(lengths), 1, 1, kv_len, dtype=torch.bool)
    for b, length in enumerate(lengths.tolist()):
        mask[b, :, :, :length] = True
    return mask


@exercise.equivalent("a row of a triangle")
def _triangle(lengths, kv_len):
    rows = torch.ones(kv_len + 1, kv_len).tril(-1).bool()
    return rows[lengths.long()].unsqueeze(1).unsqueeze(1)


@exercise.equivalent("counting with cumsum")
def _counting(lengths, kv_len):
    count = torch.ones(len(lengths), kv_len).cumsum(-1)
    return (count <= lengths.unsqueeze(-1)).reshape(-1, 1, 1, kv_len)


@exercise.equivalent("a list of rows")
def _rows(lengths, kv_len):
    table = [[[[j < n for j in range(kv_len)]]] for n in lengths.tolist()]
    return torch.tensor(table)


@exercise.equivalent("not padding")
def _not_padding(lengths, kv_len):
    is_pad = torch.arange(kv_len)[None, :] >= lengths[:, None]
    return is_pad.logical_not()[:, None, None, :]


@exercise.equivalent("a slice of each row")
def _sliced(lengths, kv_len):
    mask = torch.ones(lengths.numel(), kv_len).bool()
    for row, length in zip(mask, lengths, strict=True):
        row[length:] = False
    return mask.unflatten(0, (-1, 1, 1))


@exercise.equivalent("vmap over sequences")
def _vmap(lengths, kv_len):
    row = torch.vmap(lambda n: (torch.arange(kv_len) < n).view(1, 1, -1))
    return row(lengths)


@exercise.equivalent("what is left of the length is not 0")
def _remaining(lengths, kv_len):
    left = lengths[:, None, None, None] - torch.arange(kv_len)
    return left.clamp(min=0).ne(0)


@exercise.equivalent("an embedding of lengths")
def _looked_up(lengths, kv_len):
    table = torch.arange(kv_len) < torch.arange(kv_len + 1)[:, None]
    return table.index_select(0, lengths.int())[:, None, None]
