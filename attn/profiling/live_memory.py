"""Measure how much memory an answer holds at its peak.

It tells an algorithm that is tiled, or grouped, from one that only says so.
"""

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, UntypedStorage
from torch.utils._python_dispatch import TorchDispatchMode


class Mode(TorchDispatchMode):
    """Let each operator be seen, and do without PyTorch's compiler.

    Its import takes seconds.
    """

    supports_higher_order_operators = True

    def __init__(self, sees: Callable[..., None] | None = None) -> None:
        super().__init__()
        self.sees = sees  # given an operator, and its positional arguments

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if self.sees:
            self.sees(func, args)
        return func(*args, **(kwargs or {}))


class LiveMemory(Mode):
    """Watch every operation, and count the elements that are alive after it.

    Memory counts once, however many views share it, until the last of them is
    gone. What was there before, inputs and parameters, does not count.
    ``peak`` is the largest count, ``shape`` that of the largest tensor.

    Example:
        >>> from attn.profiling import LiveMemory
        >>> with LiveMemory() as memory:
        ...     x = torch.zeros(100, 100)
        ...     total = (x + 1).sum()
        >>> memory.peak  # x, x + 1 and the sum
        20001
    """

    supports_higher_order_operators = False

    def __init__(self) -> None:
        super().__init__()
        self.peak = 0
        self.shape: tuple[int, ...] = ()
        self._largest = self._alive = 0
        # The memory that is known, by its id: elements, 0 of an input's.
        self._known: dict[int, tuple[weakref.ref[UntypedStorage], int]] = {}

    def add(self, x: Tensor) -> None:
        """Count a tensor from now on, until nothing refers to its memory."""
        elements = len(x.untyped_storage()) // x.element_size()
        self._note(x.untyped_storage(), elements)
        if elements > self._largest:
            self._largest, self.shape = elements, tuple(x.shape)
        self.peak = max(self.peak, self._alive)

    def hold(self, numbers: int) -> None:
        """Count Python's numbers that were read from a tensor, for good."""
        self._alive += numbers
        self.peak = max(self.peak, self._alive)

    def _note(self, memory: UntypedStorage, elements: int) -> None:
        key = id(memory)
        self._forget(key)  # it may have been resized
        gone = weakref.ref(memory, lambda _: self._forget(key))
        self._known[key] = gone, elements
        self._alive += elements

    def _forget(self, key: int) -> None:
        self._alive -= self._known.pop(key, (None, 0))[1]

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if self.sees:
            self.sees(func, args)
        if func is _READ:
            self.hold(1)
        known, kwargs = self._known, kwargs or {}
        # torch.tensor lifts the tensor that it has just made.
        if func is not _LIFT:
            for x in _tensors((*args, *kwargs.values())):
                memory = x.untyped_storage()
                if id(memory) not in known:
                    self._note(memory, 0)
        result = func(*args, **kwargs)
        for x in _tensors((result,)):
            memory = x.untyped_storage()
            elements = known.get(id(memory), (None, -1))[1]
            # Its own again, as it was: nothing to count.
            if elements and elements * x.element_size() != len(memory):
                self.add(x)
        return result


_READ = torch.ops.aten._local_scalar_dense.default
_LIFT = torch.ops.aten.lift_fresh.default


def _tensors(tree: tuple[Any, ...] | list[Any]) -> list[Tensor]:
    """Return the strided tensors, those of nested tuples and lists too."""
    found: list[Tensor] = []
    for x in tree:
        if isinstance(x, Tensor):
            if x.layout == torch.strided:
                found.append(x)
        elif isinstance(x, (tuple, list)):
            found += _tensors(x)
    return found
