"""Exercises that are kernels: references in Python, and guarded memory.

Around every tensor is memory that does not belong to it, NaN throughout, and
``guard`` sees each access to it. A result is NaN until it is written. An
answer is interpreted, with a GPU too: only so each access is seen, and a
verdict is the same everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor

from attn.exercises.guard import watched
from attn.exercises.kernel_errors import explained
from attn.exercises.out_of_bounds import OutOfBounds
from attn.profiling import compat

FENCE = 4096  # before and after a tensor: heads too far end here, as NaN


class Emulated:
    """A Python function in place of a kernel.

    ``Emulated(function)[grid](...)`` calls ``function(grid, ...)`` with the
    tensors that a kernel would get as pointers.
    """

    def __init__(self, function: Callable[..., None]) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        raise TypeError("a kernel is launched on a grid: kernel[grid](...)")

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        return partial(self.function, grid)


def function_of(kernel: Any) -> Any:
    """Return the Python function of a kernel, under all its decorators."""
    while hasattr(kernel, "fn"):
        kernel = kernel.fn
    return kernel


def amid(x: Tensor, gap: int = 3) -> Tensor:
    """Return a copy of a tensor, with NaN before, after and between its rows.

    Args:
        x: ``(..., rows, columns)``.
        gap: elements between two rows.
    """
    memory, view = _fenced(x.shape, x, gap)
    memory.fill_(torch.nan)
    return view.copy_(x)


@contextmanager
def result(
    shape: torch.Size | tuple[int, ...],
    dtype: torch.dtype | None = None,
    gap: int = 5,
    names: tuple[str, ...] = ("OUT",),
    **reads: Tensor,
) -> Iterator[Tensor]:
    """Allocate a kernel's result, and watch loads and stores meanwhile.

    Args:
        shape: of the result.
        dtype: of the result; None: the first input's.
        gap: elements between two rows of the result.
        names: what the kernel calls it; several, if they are the tensors
            along its first axis.
        reads: the kernel's inputs, by the names of its arguments.

    Raises:
        OutOfBounds: something outside the tensors was read or written.
        KernelError: the kernel raised; with its own line, and what it means.
    """
    like = next(iter(reads.values()))
    memory, view = _fenced(shape, like.to(dtype or like.dtype), gap)
    memory.fill_(torch.nan)
    try:
        parts = view if len(names) > 1 else [view]
        own = dict(zip(names, parts, strict=True))
        with compat.interpreting(), watched(**own, **reads) as accesses:
            yield view
    except Exception as error:
        raise explained(error) from error
    written = view.clone()
    accesses.check(written)
    view.fill_(torch.nan)
    beside = not memory.isnan().all()
    view.copy_(written)
    if beside:
        message = f"it writes outside {' and '.join(names)}"
        raise OutOfBounds(message, written, "")


def _fenced(
    shape: torch.Size | tuple[int, ...], like: Tensor, gap: int
) -> tuple[Tensor, Tensor]:
    width = shape[-1] + gap
    strides = [1, width]
    for size in reversed(shape[1:-1]):
        strides.append(strides[-1] * size + gap)
    strides = strides[: len(shape)][::-1]
    memory = like.new_empty(shape[0] * strides[0] + width + 2 * FENCE)
    return memory, memory.as_strided(shape, strides, FENCE)
