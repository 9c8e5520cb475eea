"""Cases and properties of ``serve-tree_mask``."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from attn.exercises.draw import Draw, entries
from attn.exercises.spec import Case, Exercise, Property


def tree_mask(parents: Tensor, seq_len: int) -> tuple[Tensor, Tensor]:
    """Walk from each draft up to the text: the reference.

    It ends on any input: a diagnosis tries parents that form a circle.
    """
    N, up = len(parents), parents.tolist()
    mask = torch.zeros(N, seq_len + N, dtype=torch.bool)
    mask[:, :seq_len] = True
    positions = torch.zeros(N, dtype=torch.long)
    for i in range(N):
        at, depth = i, -1
        while at >= 0 and depth < N:
            mask[i, seq_len + at] = True
            at, depth = up[at], depth + 1
        positions[i] = seq_len + depth
    return mask, positions


TREES = {  # seq_len, parents
    "there is one draft": [(0, -1), (3, -1), (7, -1)],
    "the drafts are one chain": [(5, -1, 0, 1, 2), (0, -1, 0, 1)],
    "two drafts are siblings": [(3, -1, -1), (6, -1, 0, 0)],
    "branches have drafts of their own": [
        (4, -1, -1, 0, 1, 2),
        (9, -1, 0, 0, 2, 1, 4),
        (1, -1, -1, -1, 1, 1, 0, 3),
        (0, -1, 0, -1, 2, 3, 1),
    ],
    "as many drafts as tokens of the text": [(5, -1, 0, 0, 1, -1)],
    "a branch is long": [(13, -1, -1, 0, 2, 3, 4, 5, 6, 1)],
}


def _cases(g: Draw) -> Iterator[Case]:
    for when, (seq_len, *parents) in entries(TREES):
        yield Case(when, (torch.tensor(parents), seq_len))
    when = "a tree is large"
    for drafts in (g.between(17, 21), g.between(33, 43)):
        parents = [g.between(max(-1, i - 7), i - 1) for i in range(drafts)]
        yield Case(when, (torch.tensor(parents), g.between(21, 51)))
    when = "parents is a view of another tensor"
    wide = torch.tensor([-1, -1, 0, 0, 0, 2, 1, 3, 1, 5]).view(5, 2)
    yield Case(when, (wide[:, 0], 3))


def _tree(case: Case, out: Any) -> Tensor:
    """Return the part of an answer's mask that is the drafts' own."""
    return out[0][:, case.args[1] :]


def _past(case: Case, out: Any) -> bool:
    return bool(out[0][:, : case.args[1]].all())


def _itself(case: Case, out: Any) -> bool:
    return bool(_tree(case, out).diagonal().all())


def _later(case: Case, out: Any) -> bool:
    return not _tree(case, out).triu(1).any()


def _depth(case: Case, out: Any) -> bool:
    return bool((out[1] == tree_mask(*case.args)[1]).all())


exercise = Exercise(
    id="serve-tree_mask",
    points=2,
    reference=tree_mask,
    cases=_cases,
    returns=("the mask", "the tensor of positions"),
    properties=(
        Property("Every draft sees the whole text.", _past),
        Property("Every draft sees itself.", _itself),
        Property(
            "No draft sees one with a larger index: its ancestors have "
            "smaller ones.",
            _later,
        ),
        Property(
            "A draft's position is the length of the text plus the number "
            "of its ancestors.",
            _depth,
        ),
    ),
    breaks={
        "position 0": lambda c: c.args[1] > 0,
        "L = S": lambda c: c.args[1] not in (0, len(c.args[0])),
    },
)
