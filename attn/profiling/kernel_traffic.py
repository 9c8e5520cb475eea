"""Count the bytes that a Triton kernel loads and stores.

Triton's interpreter executes the programs of a grid one after the other, and
every load, store and atomic operation ends in one of four of its methods.
While a kernel runs, they count first.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from attn.profiling import compat

if TYPE_CHECKING:
    from attn.plot import Table

__all__ = ["Moved", "Traffic", "traffic"]

VERBS = "loads", "stores"


class Moved(NamedTuple):
    """The total of all loads of one tensor, or of all its stores.

    Example:
        >>> from attn.profiling import Moved
        >>> moved = Moved(calls=4, bytes=256, distinct=64)
        >>> moved.times  # each byte is loaded so often
        4.0
    """

    calls: int = 0  #: loads or stores, each of a tile or of one element
    bytes: int = 0  #: each byte every time: the traffic before any cache
    distinct: int = 0  #: each byte once
    masked: int = 0  #: elements, not bytes, that a mask switched off

    @property
    def times(self) -> float:
        """Return how often each byte was moved, on average."""
        return self.bytes / self.distinct if self.distinct else float("nan")


@dataclass(repr=False)
class Traffic:
    """The loads and stores of a kernel, or of one program of its grid.

    It prints as a table. Its line ``elsewhere`` is of memory that belongs to
    no tensor of the call, such as a gap between two rows.

    Example:
        >>> from attn.profiling import Moved, Traffic
        >>> loads, stores = Moved(4, 256, 64), Moved(4, 64, 64)
        >>> print(Traffic("copy", {"X": loads}, {"OUT": stores}))
        copy, programs: 1
        tensor          calls  bytes  distinct  masked  times
        X       loads       4    256        64       0      4
        all     loads       4    256        64       0      4
        OUT     stores      4     64        64       0      1
        all     stores      4     64        64       0      1
    """

    kernel: str  #: its name
    loads: dict[str, Moved] = field(default_factory=dict)  #: by argument
    stores: dict[str, Moved] = field(default_factory=dict)  #: by argument
    #: The part of each program, by its id on the three axes of the grid.
    programs: dict[tuple[int, ...], Traffic] = field(default_factory=dict)

    @property
    def loaded(self) -> int:
        """Return the bytes of all loads."""
        return _total(self.loads.values()).bytes

    @property
    def stored(self) -> int:
        """Return the bytes of all stores."""
        return _total(self.stores.values()).bytes

    def table(self) -> Table:
        """Return a row for each tensor, and one for all of them."""
        from attn.plot import Table  # only here, for it loads matplotlib

        rows = []
        for verb in VERBS:
            parts = getattr(self, verb)
            for name, x in (*parts.items(), ("all", _total(parts.values()))):
                counts = [f"{number:,}" for number in x]
                rows.append([name, verb, *counts, f"{x.times:.3g}"])
        head = ["tensor", "", *Moved._fields, "times"]
        caption = f"{self.kernel}, programs: {len(self.programs) or 1}"
        return Table(head, rows, caption)

    def __repr__(self) -> str:
        return repr(self.table())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def traffic(kernel: Any, grid: Any, *args: Any, **kwargs: Any) -> Traffic:
    """Run a Triton kernel in the interpreter and count what it moves.

    An element counts each time that it is loaded or stored, as if there were
    no cache; one that is masked out does not count. An atomic operation is a
    load and a store. Tensor descriptors count like pointers.

    Args:
        kernel: made by ``triton.jit``. It runs, and fills its results.
        grid: as in ``kernel[grid](*args, **kwargs)``.
        args, kwargs: the kernel's arguments; tensors on the CPU.

    Returns:
        The counts: for each tensor, of the call and of each program.

    Raises:
        TypeError: ``kernel`` is not made by ``triton.jit``.
        ValueError: a tensor is not on the CPU.

    Example:
        >>> import triton
        >>> import triton.language as tl
        >>> @triton.jit
        ... def double(X, length, BLOCK: tl.constexpr):
        ...     at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        ...     x = tl.load(X + at, at < length)
        ...     tl.store(X + at, 2 * x, at < length)
        >>> from attn.profiling import traffic
        >>> x = torch.ones(100)
        >>> found = traffic(double, (7,), x, 100, BLOCK=16)
        >>> found.loaded, found.stored
        (400, 400)
    """
    from triton.runtime.interpreter import InterpretedFunction
    from triton.runtime.jit import JITFunction

    inner = kernel
    while not isinstance(inner, InterpretedFunction | JITFunction):
        if not hasattr(inner, "fn"):
            raise TypeError(
                "kernel must be made by triton.jit; got "
                f"{type(kernel).__name__}"
            )
        inner = inner.fn  # triton.heuristics
    memories = [_Memory(*x) for x in _named(inner.fn, args, kwargs)]
    whole, builder = Traffic(inner.fn.__name__), compat.builder()

    def counting(method: str, access: compat.Access) -> Callable[..., Any]:
        run = getattr(builder, method)
        does = {"loads": access.reads, "stores": access.writes}
        verbs = [verb for verb in VERBS if does[verb]]

        def count_and_run(*args: Any, **kwargs: Any) -> Any:
            active = True if access.mask is None else args[access.mask].data
            pointers = args[access.pointers]
            program = builder.grid_idx
            _count(whole, program, memories, verbs, pointers, active)
            return run(*args, **kwargs)

        return count_and_run

    counted = {name: counting(name, x) for name, x in compat.ACCESSES.items()}
    with compat.interpreting(), compat.replaced_accesses(**counted):
        kernel[grid](*args, **kwargs)
    for program in product(*map(range, builder.grid_dim)):
        whole.programs.setdefault(program, Traffic(whole.kernel))
    return whole


def _total(parts: Iterable[Moved]) -> Moved:
    return Moved(*map(sum, zip(*parts, strict=True)))


def _count(
    whole: Traffic,
    program: Any,
    memories: Any,
    verbs: Any,
    ptrs: Any,
    mask: Any,
) -> None:
    """Count one load, store or atomic operation of a program."""
    part = whole.programs.setdefault(program, Traffic(whole.kernel))
    address = ptrs.data.astype(np.int64)
    active = np.broadcast_to(mask, address.shape).astype(bool)
    width = max(ptrs.get_element_ty().primitive_bitwidth // 8, 1)
    masked = int((~active).sum())
    for memory, places in _owners(memories, address, active):
        for verb in verbs:
            new = memory.mark(verb, places, len(whole.programs))
            for counts, distinct in zip((whole, part), new, strict=True):
                moved = getattr(counts, verb)
                old = moved.get(memory.name, Moved())
                one = Moved(1, len(places) * width, distinct * width, masked)
                moved[memory.name] = _total([old, one])
        masked = 0  # counted


def _owners(memories: Any, address: Any, active: Any) -> Iterator[Any]:
    """Yield each memory accessed, and the places of its elements."""
    if not active.any():  # the tensor that begins before the tile
        first = int(address.min())
        yield min(memories, key=lambda x: (first - x.start) % 2**64), ()
    for memory in memories:
        lanes, places = memory.owned(address, active)
        if len(places):
            yield memory, places
            active = active & ~lanes
    if active.any():
        yield _Memory("elsewhere", torch.empty(0)), address[active]


class _Memory:
    """The memory of a tensor, and which of its elements were moved."""

    def __init__(self, name: str, x: Tensor) -> None:
        memory = x.untyped_storage()
        self.name, self.itemsize = name, x.element_size()
        self.start = memory.data_ptr()
        mine = torch.zeros(len(memory) // self.itemsize, dtype=torch.bool)
        mine.as_strided(x.shape, x.stride(), x.storage_offset()).fill_(True)
        self.mine = mine.numpy()
        # The number of the last program that moved an element, from 1.
        self.last = {verb: np.zeros(len(mine), np.int32) for verb in VERBS}

    def owned(self, address: Any, active: Any) -> tuple[Any, Any]:
        """Return which addresses are of the tensor, and their places."""
        place = (address - self.start) // self.itemsize
        lanes = active & (place >= 0) & (place < len(self.mine))
        lanes[lanes] = self.mine[place[lanes]]
        return lanes, place[lanes]

    def mark(self, verb: str, places: Any, number: int) -> tuple[int, int]:
        """Return how many elements are new: to the call, to the program."""
        if not (len(places) and len(self.mine)):
            return 0, 0
        places = np.unique(places)
        before = self.last[verb][places]
        self.last[verb][places] = number
        return int((before == 0).sum()), int((before != number).sum())


def _named(
    function: Any, args: Any, kwargs: dict[str, Any]
) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors of a launch, by the names of the arguments."""
    signature = inspect.signature(function)
    own = {k: x for k, x in kwargs.items() if k in signature.parameters}
    todo = [*signature.bind_partial(*args, **own).arguments.items()]
    for name, x in todo:
        if isinstance(x, tuple):
            todo += ((f"{name}[{i}]", part) for i, part in enumerate(x))
        elif not isinstance(x, Tensor):
            x = getattr(x, "base", None)  # of a descriptor, or another dtype
        if isinstance(x, Tensor):
            if x.device.type != "cpu":
                raise ValueError(f"{name} must be on the CPU; got {x.device}")
            yield name, x
