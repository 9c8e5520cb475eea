"""Represent a kernel's access to memory that belongs to no tensor."""

from __future__ import annotations

from typing import Any


class OutOfBounds(IndexError):
    """A kernel reads or writes outside its tensors.

    Args:
        message: which element, of which tensor.
        output: what else tells one such kernel from another.
        where: the kernel's line.
    """

    def __init__(
        self, message: str, output: Any = None, where: str = ""
    ) -> None:
        super().__init__(message)
        self.output, self.where = output, where
