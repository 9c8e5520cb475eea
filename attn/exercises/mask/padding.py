"""Cases and properties of ``mask-padding``."""

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
