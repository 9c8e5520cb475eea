"""Copy a case's inputs for a call, and name them as a learner does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from attn.exercises.case import Case

if TYPE_CHECKING:
    from attn.profiling import LiveMemory


class Inputs:
    """Private copies of a case's inputs, and what became of them.

    Args:
        case: the case; it stays as it is.
        names: of its positional arguments, for messages.
        memory: counts what is read from iterators, when it is measured.
    """

    def __init__(
        self,
        case: Case,
        names: Sequence[str] = (),
        memory: LiveMemory | None = None,
    ) -> None:
        self._names = names
        self._once: list[Once] = []

        def copied(x: Any, path: str) -> Any:
            if path in case.once:
                name = input_name(path, names)
                self._once.append(Once(x, name, memory))
                return self._once[-1]
            if isinstance(x, Tensor):
                return copy_tensor(x)
            if isinstance(x, torch.Generator):
                return torch.Generator(x.device).set_state(x.get_state())
            if isinstance(x, tuple | list):
                parts = [copied(y, f"{path}.{i}") for i, y in enumerate(x)]
                return type(x)(parts)
            if isinstance(x, Mapping):
                return {k: copied(y, f"{path}.{k}") for k, y in x.items()}
            return x

        self.args = copied(case.args, "args")
        self.kwargs = copied(dict(case.kwargs), "kwargs")
        self._held = self._read()
        self.tensors = dict(named_tensors(self._held))
        self._before = {k: copy_tensor(x) for k, x in self.tensors.items()}
        if grad := case.grad:
            for path, x in self.tensors.items():
                wanted = path in grad if isinstance(grad, tuple) else True
                x.requires_grad_(wanted and x.is_floating_point())

    def _read(self) -> dict[str, Any]:
        return dict(leaves({"args": self.args, "kwargs": self.kwargs}))

    def changed(self) -> list[str]:
        """Return the names of the inputs that were changed in place.

        A dict or list is one input when what it holds is another tensor,
        text or number.
        """
        then, now = self._held, self._read()
        paths = [
            path
            for path, x in self.tensors.items()
            if not unchanged(x, self._before[path])
        ]
        for path in then | now:
            x, y = then.get(path, ...), now.get(path, ...)
            is_tensor = isinstance(x, Tensor) or isinstance(y, Tensor)
            if x is not y and (is_tensor or x != y):
                paths.append(".".join(path.split(".")[:2]))
        names = [input_name(path, self._names) for path in paths]
        names += [x.name for x in self._once if x.is_changed]
        return [*dict.fromkeys(names)]


class Once:
    """Hand over the entries of a list, once each and in order.

    It is an iterator, and also a list that is read forwards: ``x[3]`` passes
    over the entries before it, and may be repeated until another is read. An
    entry that was passed is gone, and an error says so.

    Args:
        entries: tensors; copies of them are handed over.
        name: of the list, for the messages.
        memory: counts an entry for as long as something refers to it.
    """

    def __init__(
        self, entries: list[Tensor], name: str, memory: LiveMemory | None
    ) -> None:
        self.name, self.is_changed = name, False
        self._rest = [copy_tensor(x) for x in reversed(entries)]
        self._length, self._memory = len(entries), memory
        self._next = 0  # to be iterated over: an index does not use it up
        self._last: Tensor | None = None
        self._version = 0

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Once:
        if self._next == self._length:
            self._gone(0)
        return self

    def __next__(self) -> Tensor:
        self._next += 1
        return self._entry(self._next - 1)

    def __getitem__(self, index: int | slice) -> Tensor | Once:
        if isinstance(index, slice):
            start = index.start or 0
            forward = index.stop is None and index.step in (None, 1)
            if not forward or start < self._next:
                self._gone(start)
            while self._next < start:
                next(self)
            return self
        read = self._length - len(self._rest)
        if index >= self._length:
            raise IndexError(f"{self.name} has {self._length} blocks")
        if index < max(read - 1, 0):
            self._gone(index)
        self._next = max(index, self._next)
        return self._entry(index)

    def _entry(self, index: int) -> Tensor:
        while index >= self._length - len(self._rest):
            if self._last is not None and self._last._version != self._version:
                self.is_changed = True
            self._last = None  # its memory is free if the answer let it go
            if not self._rest:
                self._next = self._length
                raise StopIteration
            self._last = self._rest.pop()
            self._version = self._last._version
            if self._memory:
                self._memory.add(self._last)
        assert self._last is not None
        return self._last

    def _gone(self, index: int) -> None:
        raise TypeError(
            f"block {index} of {self.name} cannot be read here: the blocks "
            "come once, in order, and one that was passed is gone. What has "
            "to be kept of it?"
        )


def copy_tensor(x: Tensor) -> Tensor:
    """Copy the memory of a tensor, and keep its strides, 0 included."""
    x = x.detach()
    if x.layout != torch.strided or x.device.type == "meta":
        return x.clone()
    if x.is_contiguous() and x.nbytes == x.untyped_storage().nbytes():
        return x.clone()  # the same, and sooner
    storage = x.untyped_storage().clone()
    fresh = torch.empty(0, dtype=x.dtype, device=x.device)
    return fresh.set_(storage, x.storage_offset(), x.size(), x.stride())


def map_tensors(function: Callable[[Tensor], Tensor], tree: Any) -> Any:
    """Apply ``function`` to every tensor of nested tuples, lists, dicts."""
    if isinstance(tree, Tensor):
        return function(tree)
    if isinstance(tree, tuple | list):
        made = getattr(type(tree), "_make", type(tree))  # a named one
        return made([map_tensors(function, x) for x in tree])
    if isinstance(tree, dict):
        return {k: map_tensors(function, x) for k, x in tree.items()}
    return tree


def named_tensors(tree: Any) -> Iterator[tuple[str, Tensor]]:
    """Yield every tensor of nested tuples, lists and dicts by its path."""
    return ((p, x) for p, x in leaves(tree) if isinstance(x, Tensor))


def leaves(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield what nested tuples, lists and dicts hold, by its path."""
    if isinstance(tree, tuple | list):
        for i, x in enumerate(tree):
            yield from leaves(x, f"{path}.{i}".strip("."))
    elif isinstance(tree, Mapping):
        for k, x in tree.items():
            yield from leaves(x, f"{path}.{k}".strip("."))
    else:
        yield path, tree


def input_size(case: Case) -> int:
    """Return how many elements the inputs of a case have."""
    inputs = [case.args, dict(case.kwargs)]
    return sum(x.numel() for _, x in named_tensors(inputs))


def input_name(path: str, names: Sequence[str] = ()) -> str:
    """Return an input's path, or a parameter's, as a learner says it.

    Args:
        path: ``args.0``, ``args.0.2`` of an entry, ``kwargs.attn_mask``, or
            a parameter's name.
        names: of the positional arguments.
    """
    kind, _, rest = path.partition(".")
    if kind not in ("args", "kwargs"):
        return path
    name, *inner = rest.split(".")
    if kind == "args":
        at = int(name)
        name = names[at] if at < len(names) else f"argument {at + 1}"
    return name + "".join(f"[{i}]" for i in inner)


def unchanged(x: Tensor, y: Tensor) -> bool:
    """Return whether a tensor is unchanged, NaN included."""
    if x.shape != y.shape or x.dtype != y.dtype:
        return False
    return torch.equal(x, y) or torch.allclose(x, y, 0.0, 0.0, equal_nan=True)
