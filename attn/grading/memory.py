"""Measure how much memory an answer holds at its peak.

It tells an algorithm that is tiled, or grouped, from one that only says so.
"""

from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import torch
from torch import Tensor, UntypedStorage
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveMemory(TorchDispatchMode):
    """Watch every operation, and count the elements that are alive after it.

    Memory counts once, however many views share it, until the last of them is
    gone. What was there before, inputs and parameters, does not count.
    ``peak`` is the largest count, ``shape`` that of the largest tensor.
    """

    def __init__(self) -> None:
        super().__init__()
        self.peak = 0
        self.shape: tuple[int, ...] = ()
        self._largest = 0
        self._given: WeakSet[UntypedStorage] = WeakSet()
        self._item_sizes: WeakKeyDictionary[UntypedStorage, int] = (
            WeakKeyDictionary()
        )

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Spare the first check the import of PyTorch's compiler: seconds."""
        return False

    def add(self, x: Tensor) -> None:
        """Count a tensor from now on, until nothing refers to its memory."""
        memory = x.untyped_storage()
        self._item_sizes[memory] = x.element_size()
        if (size := len(memory)) > self._largest:
            self._largest, self.shape = size, tuple(x.shape)
        alive = sum(len(m) // size for m, size in self._item_sizes.items())
        self.peak = max(self.peak, alive)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        # torch.tensor lifts the tensor that it has just made.
        if func is not torch.ops.aten.lift_fresh.default:
            for x in _tensors((args, kwargs)):
                if x.untyped_storage() not in self._item_sizes:
                    self._given.add(x.untyped_storage())
        result = func(*args, **(kwargs or {}))
        for x in _tensors(result):
            if x.untyped_storage() not in self._given:
                self.add(x)
        return result


def _tensors(tree: Any) -> list[Tensor]:
    return [
        x
        for x in tree_leaves(tree)
        if isinstance(x, Tensor) and x.layout == torch.strided
    ]
