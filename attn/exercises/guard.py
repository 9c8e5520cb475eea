"""Watch the memory that an interpreted kernel reads and writes.

Triton's interpreter fills the masked lanes of a load with zeros, and follows
a pointer anywhere in the memory of this process. While ``watched`` is open,
undefined elements are NaN; what belongs to no tensor, the gaps between its
rows included, is read as NaN and never written, and the first such access is
kept. Where kernels are compiled nothing is watched.
"""

from __future__ import annotations

import linecache
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attn.exercises.out_of_bounds import OutOfBounds
from attn.profiling import compat

NEAR = 4096  # elements; what is further away is near no tensor
_LIBRARIES = (
    *sysconfig.get_paths().values(),
    str(Path(__file__).parents[1]),
    *(
        str(Path(spec.origin).parent)
        for name in ("numpy", "torch", "triton")
        if (spec := find_spec(name)) and spec.origin
    ),
)


@dataclass
class Outside:
    """The elements beside one tensor that a launch reads or writes."""

    message: str
    where: str  # the kernel's line
    first: int = 0  # place in the tensor's memory
    last: int = 0


@dataclass
class Watched:
    """The accesses of a launch that are outside of its tensors."""

    outside: dict[str, Outside] = field(default_factory=dict)

    def check(self, output: Tensor) -> None:
        """Raise OutOfBounds if something outside was read or written."""
        if self.outside:
            found = [self.outside[name] for name in sorted(self.outside)]
            places = torch.tensor([[x.first, x.last] for x in found])
            told = min(found, key=lambda x: "far from" in x.message)
            raise OutOfBounds(told.message, (output, places), told.where)


class _Guarded:
    """A tensor, and which elements of its memory belong to it."""

    def __init__(self, name: str, x: Tensor) -> None:
        memory = x.untyped_storage()
        size = len(memory) // x.element_size()
        mine = torch.zeros(size, dtype=torch.bool)
        mine.as_strided(x.shape, x.stride(), x.storage_offset()).fill_(True)
        self.name, self.tensor, self.mine = name, x, mine.numpy()
        self.start = np.uint64(memory.data_ptr())
        self.end = np.uint64(memory.data_ptr() + len(memory))
        self.itemsize = x.element_size()
        self.first = x.storage_offset()
        steps = zip(x.shape, x.stride(), strict=True)
        self.last = self.first + sum((n - 1) * step for n, step in steps)

    def place(self, address: Any) -> Any:
        """Return addresses as places in the memory, from 0."""
        return (address - self.start).astype(np.int64) // self.itemsize

    def distance(self, address: Any) -> int:
        """Return by how many elements one address misses the tensor.

        Several tensors may share a memory.
        """
        place = int(self.place(address)[0])
        return max(self.first - place, place - self.last, 0)

    def element(self, place: int) -> str:
        """Describe a place as an index of the tensor."""
        x = self.tensor
        rest = place - x.storage_offset()
        name, shape = self.name, tuple(x.shape)
        if rest < 0:
            first = ", ".join("0" for _ in shape)
            return f"what comes before {name}[{first}]"
        index = dict.fromkeys(range(x.dim()), 0)
        for axis in sorted(index, key=x.stride, reverse=True):
            index[axis], rest = divmod(rest, max(x.stride(axis), 1))
        at = ", ".join(str(index[axis]) for axis in range(x.dim()))
        return f"{name}[{at}], and {name} has the shape {shape}"


@contextmanager
def watched(**tensors: Tensor) -> Iterator[Watched]:
    """Keep the interpreter's loads and stores within these tensors.

    Args:
        tensors: the arguments of the kernel, by name.

    Yields:
        What was outside so far, while kernels run.
    """
    found = Watched()
    builder = compat.builder()
    if builder is None:
        yield found
        return
    kind = type(builder)
    guarded = [_Guarded(name, x) for name, x in tensors.items()]

    def allowed(pointers: Any, mask: Any, verb: str) -> Any:
        """Return the mask without the lanes that are outside."""
        address = pointers.data
        requested = mask.data.astype(bool) & np.ones(address.shape, bool)
        inside = np.zeros(address.shape, bool)
        low, high = address.min(), address.max()
        for x in guarded:
            if high < x.start or low >= x.end:
                continue  # most of them: an access is to one tensor
            place = x.place(address)
            near = (place >= 0) & (place < len(x.mine))
            if near.any():
                inside |= near & x.mine[np.where(near, place, 0)] & requested
        wild = requested & ~inside
        if wild.any():
            _note(found.outside, verb, guarded, address[wild])
        return requested, type(mask)(inside, mask.dtype)

    def load(
        pointers: Any, mask: Any, other: Any, *rest: Any, **named: Any
    ) -> Any:
        requested, safe = allowed(pointers, mask, "reads")
        loaded = kind.create_masked_load(
            builder, pointers, safe, other, *rest, **named
        )
        undefined = ~safe.data if other is None else requested & ~safe.data
        if loaded.data.dtype.kind == "f":
            loaded.data[undefined] = np.nan
        return loaded

    def store(pointers: Any, value: Any, mask: Any, *rest: Any) -> Any:
        _, safe = allowed(pointers, mask, "writes")
        return kind.create_masked_store(builder, pointers, value, safe, *rest)

    def atomic(
        op: Any, pointers: Any, value: Any, mask: Any, *rest: Any
    ) -> Any:
        _, safe = allowed(pointers, mask, "writes")
        return kind.create_atomic_rmw(
            builder, op, pointers, value, safe, *rest
        )

    ours = {
        "create_masked_load": load,
        "create_masked_store": store,
        "create_atomic_rmw": atomic,
    }
    with compat.replaced_accesses(**ours):
        yield found


def _note(
    found: dict[str, Outside], verb: str, guarded: list[_Guarded], wild: Any
) -> None:
    """Note addresses that belong to no tensor, under the nearest one."""
    nearest = min(guarded, key=lambda x: x.distance(wild[:1]))
    places = nearest.place(wild)
    if nearest.distance(wild[:1]) > NEAR:
        names = ", ".join(x.name for x in guarded)
        message = f"it {verb} memory that is far from {names}"
        found.setdefault("", Outside(message, kernels_line(_callers())))
        return
    first, last = int(places.min()), int(places.max())
    if (name := nearest.name) not in found:
        message = f"it {verb} {nearest.element(int(places[0]))}"
        line = kernels_line(_callers())
        found[name] = Outside(message, line, first, last)
    found[name].first = min(found[name].first, first)
    found[name].last = max(found[name].last, last)


def kernels_line(frames: Iterable[FrameType]) -> str:
    """Return the line of the first frame outside the libraries."""
    for frame in frames:
        name = frame.f_code.co_filename
        if not name.startswith(_LIBRARIES):
            line = linecache.getline(name, frame.f_lineno, frame.f_globals)
            return line.strip()
    return ""


def _callers() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)
    while frame:
        yield frame
        frame = frame.f_back
