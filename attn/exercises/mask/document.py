"""Cases and properties of ``mask-document``."""

from collections.abc import Iterator

import torch
from torch import Tensor

from attn import masks
from attn.exercises.conditions import ones, views
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
    also=(
        views(),
        ones("B S"),
    ),
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
