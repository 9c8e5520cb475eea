"""Exercises that are kernels: references in Python, and guarded memory.

Triton's interpreter fills the masked lanes of a load with zeros, and follows
a pointer anywhere in the memory of this process. Here undefined values are
NaN, memory outside the tensors is neither read nor written, and a result is
NaN until it is written.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attn.exercises.triton_compat import triton

FENCE = 64  # elements before and behind a tensor


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


def is_kernel(answer: Any) -> bool:
    """Return whether an answer was made by ``triton.jit``."""
    return hasattr(answer, "fn") and hasattr(answer, "__getitem__")


def amid(x: Tensor, other: float, gap: int = 3) -> Tensor:
    """Return a copy of a tensor, surrounded by elements of another value.

    Args:
        x: ``(..., rows, columns)``.
        other: the value of the elements around it.
        gap: elements between two rows.
    """
    memory, view = _fenced(x.shape, x, gap)
    memory.fill_(other)
    return view.copy_(x)


@contextmanager
def result(shape: torch.Size, *reads: Tensor, gap: int = 5) -> Iterator[Any]:
    """Allocate a kernel's result, and watch loads and stores meanwhile.

    Args:
        shape: of the result; its dtype is the first input's.
        reads: the kernel's inputs.
        gap: elements between two rows of the result.

    Raises:
        IndexError: the result is complete, and more was written.
    """
    memory, view = _fenced(shape, reads[0], gap)
    memory.fill_(torch.nan)
    outside: list[bool] = []
    with _watched((memory, *reads), outside):
        yield view
    if view.isnan().any():
        return  # wrong already, for another reason
    kept = view.clone()
    view.fill_(torch.nan)
    beside = not memory.isnan().all()
    view.copy_(kept)
    if beside or outside:
        raise IndexError(
            "it writes more than its result: is there a mask on tl.store?"
        )


def _fenced(
    shape: torch.Size, like: Tensor, gap: int
) -> tuple[Tensor, Tensor]:
    width = shape[-1] + gap
    strides = [1, width]
    for size in reversed(shape[1:-1]):
        strides.append(strides[-1] * size + gap)
    strides = strides[: len(shape)][::-1]
    memory = like.new_empty(shape[0] * strides[0] + width + 2 * FENCE)
    return memory, memory.as_strided(shape, strides, FENCE)


def where_kernels_run(x: Tensor) -> Tensor:
    """Move a tensor, with its memory, to the GPU if kernels run there."""
    if not torch.cuda.is_available() or triton.knobs.runtime.interpret:
        return x
    memory = x.untyped_storage().cuda()
    there = torch.empty(0, dtype=x.dtype, device="cuda")
    return there.set_(memory, x.storage_offset(), x.size(), x.stride())


@contextmanager
def _watched(
    tensors: tuple[Tensor, ...], outside: list[bool]
) -> Iterator[None]:
    """Keep the interpreter's loads and stores within these tensors.

    A load from elsewhere, or a masked one without ``other``, gives NaN; a
    store to elsewhere is added to ``outside``, and not made.
    """
    module = sys.modules.get("triton.runtime.interpreter")
    builder = getattr(module, "interpreter_builder", None)
    if builder is None:
        yield
        return
    kind = type(builder)
    ranges = []
    for x in tensors:
        memory = x.untyped_storage()
        ranges.append((memory.data_ptr(), memory.data_ptr() + len(memory)))

    def within(ptrs: Any) -> Any:
        at = ptrs.data
        return np.logical_or.reduce([(a <= at) & (at < b) for a, b in ranges])

    def load(ptrs: Any, mask: Any, other: Any, *rest: Any) -> Any:
        requested = mask.data.astype(bool)
        safe = type(mask)(requested & within(ptrs), mask.dtype)
        loaded = kind.create_masked_load(builder, ptrs, safe, other, *rest)
        undefined = ~safe.data if other is None else requested & ~safe.data
        if loaded.data.dtype.kind == "f":
            loaded.data[undefined] = np.nan
        return loaded

    def store(ptrs: Any, value: Any, mask: Any, *rest: Any) -> Any:
        requested = mask.data.astype(bool)
        safe = type(mask)(requested & within(ptrs), mask.dtype)
        if (requested & ~safe.data).any():
            outside.append(True)
        return kind.create_masked_store(builder, ptrs, value, safe, *rest)

    builder.create_masked_load, builder.create_masked_store = (
        load,
        store,
    )
    try:
        yield
    finally:
        del builder.create_masked_load, builder.create_masked_store
