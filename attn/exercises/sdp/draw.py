"""Inputs and a property that exercises of chapter 02 share."""

import torch
from torch import Generator, Tensor

from attn.exercises.spec import Case, Property


def far_apart(g: Generator, queries: int = 3) -> tuple[Tensor, Tensor]:
    """Draw queries and 5 keys with scores above 1000, exact, and no ties.

    The score of the first key is neither the largest nor the smallest.
    """
    q = torch.randint(1, 5, (queries, 4), generator=g) * 32
    k = torch.randint(1, 5, (1, 4), generator=g) * 32
    others = torch.tensor([0, 1, 3, 4])[torch.randperm(4, generator=g)]
    k = k + 32 * torch.cat([torch.tensor([2]), others])[:, None]
    return q.float(), k.float()


def _in_range(case: Case, out: Tensor) -> bool:
    value = case.args[2]
    if out.isnan().any() or out.shape[-1] != value.shape[-1]:
        return True  # what is wrong is something else
    slack = 0.01 * value.abs().max()  # rounding may leave the range
    low, high = value.amin(-2, keepdim=True), value.amax(-2, keepdim=True)
    return bool((out <= high + slack).all() and (out >= low - slack).all())


in_range = Property(
    "Every element of the result is a mean of one column of value, so it "
    "cannot leave the range of that column, and here it does: do the "
    "weights of each query sum to 1?",
    _in_range,
)
