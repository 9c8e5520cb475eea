"""Cases and properties of ``mask-document``."""

from collections.abc import Iterator

import torch
from torch import Generator, Tensor

from attn import masks
from attn.exercises.draw import between
from attn.exercises.mask.claims import IS_BOOL, itself, no_future
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.symmetry import is_view


def _reference(ids: Tensor) -> Tensor:
    mask = masks.causal() & masks.documents(ids)
    return mask.dense(ids.shape[1], batch=len(ids))


def _cases(g: Generator) -> Iterator[Case]:
    def packed(*names: int) -> Tensor:
        """Pack documents of random length, 2 or 3; ``(1, S)``."""
        parts = [torch.full((1, between(g, 2, 3)), n) for n in names]
        return torch.cat(parts, dim=1)

    when = "a row holds one document"
    length = between(g, 4, 6)
    yield Case(when, (torch.full((1, length), between(g, 1, 5)),))

    when = "a row holds several documents, numbered from 0"
    yield Case(when, (packed(0, 1, 2),))

    when = "the ids are in no particular order"
    names = (torch.randperm(8, generator=g)[:3] + 1).tolist()
    yield Case(when, (packed(max(names) + 1, *names),))

    when = "the rows of a batch are packed differently"
    yield Case(when, (torch.tensor([[1, 1, 2, 2, 2], [1, 1, 1, 1, 2]]),))
    yield Case(when, (torch.randint(0, 3, (3, 6), generator=g).sort()[0],))
    yield Case(when, (torch.randint(0, 3, (4, 4), generator=g).sort()[0],))

    when = "a document goes on after another"
    a, b = torch.randperm(6, generator=g)[:2].tolist()
    yield Case(when, (torch.tensor([[a, a, b, b, a], [b, a, b, a, a]]),))
    yield Case(when, (torch.randint(0, 2, (2, 7), generator=g),))

    when = "ids are negative, large or int32"
    yield Case(when, (packed(-1, -100, 7),))
    yield Case(when, (packed(3, -3, 0),))
    yield Case(when, (packed(2**40, 2**40 + 1),))
    yield Case(when, (packed(7, 7 + 2**8, 7 + 2**16, 7 + 2**32),))
    yield Case(when, (packed(3, 1).int(),))

    when = "there is one token, or ids is a view"
    yield Case(when, (torch.tensor([[between(g, 0, 9)]] * 2),))
    yield Case(when, (torch.randint(0, 3, (5, 2), generator=g).mT,))
    yield Case(when, (packed(4, 6).expand(3, -1),))
    yield Case(when, (torch.randint(0, 2, (3, 6), generator=g)[:, ::2],))


def _no_other_document(case: Case, out: Tensor) -> bool:
    ids = case.args[0]
    strangers = ids[:, None, :, None] != ids[:, None, None, :]
    return not (out & strangers).any()


exercise = Exercise(
    id="mask-document",
    points=3,
    reference=_reference,
    cases=_cases,
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
