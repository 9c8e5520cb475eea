"""Measure the largest tensor that an answer allocates.

It tells an algorithm that is tiled, or grouped, from one that only says so.
"""

from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LargestTensor(TorchDispatchMode):
    """Watch every operation, and keep the size of the largest new tensor.

    A result that shares memory with an input of its operation is a view and
    costs nothing: ``expand`` gives one, but a matrix product copies an
    expanded tensor. ``numel`` is the size in elements, ``shape`` the first
    shape.
    """

    def __init__(self) -> None:
        super().__init__()
        self.numel = 0
        self.shape: tuple[int, ...] = ()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Spare the first check the import of PyTorch's compiler: seconds."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        inputs = {_memory(x) for x in _tensors((args, kwargs))}
        for x in _tensors(result):
            numel = x.untyped_storage().nbytes() // x.element_size()
            if _memory(x) not in inputs and numel > self.numel:
                self.numel, self.shape = numel, tuple(x.shape)
        return result


def _tensors(tree: Any) -> list[Tensor]:
    return [x for x in tree_leaves(tree) if isinstance(x, Tensor)]


def _memory(x: Tensor) -> int:
    return x.untyped_storage().data_ptr()
