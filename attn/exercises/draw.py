"""Draw the inputs of cases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

import torch
from torch import Tensor

Entry = TypeVar("Entry")


class Draw(torch.Generator):
    """A generator of random inputs; a seed gives the same ones."""

    def randn(self, *shape: int) -> Tensor:
        """Draw elements of mean 0 and variance 1."""
        return torch.randn(shape, generator=self)

    def between(self, low: int, high: int) -> int:
        """Draw an integer, both ends included."""
        return int(torch.randint(low, high + 1, (), generator=self))

    def mask(self, *shape: int) -> Tensor:
        """Draw a bool mask; each row masks some key and allows at least two.

        Args:
            shape: ``(..., S)`` with S at least 3.
        """
        mask = torch.rand(shape, generator=self) < 0.5
        order = torch.rand(shape, generator=self).argsort(-1)
        mask.scatter_(-1, order[..., :2], True)
        mask.scatter_(-1, order[..., 2:3], False)
        return mask


def entries(
    table: Mapping[str, Sequence[Entry]],
) -> Iterator[tuple[str, Entry]]:
    """Yield the entries of a table of cases, each with its condition."""
    for condition, row in table.items():
        for entry in row:
            yield condition, entry
