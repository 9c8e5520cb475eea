"""How large a tensor an answer makes: the difference between an algorithm
that is tiled, or grouped, and one that only says so."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LargestTensor(TorchDispatchMode):
    """Watch every operation; remember the largest tensor that one made.

    What shares memory with an input of the operation is a view, and costs
    nothing: ``expand`` does, the copy that a matrix product makes of an
    expanded tensor does not. ``numel`` is its size in elements, ``shape``
    its first shape.
    """

    def __init__(self) -> None:
        super().__init__()
        self.numel = 0
        self.shape: tuple[int, ...] = ()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Spare the first check the import of torch's compiler: seconds."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        known = {_memory(x) for x in _tensors((args, kwargs))}
        for x in _tensors(result):
            numel = x.untyped_storage().nbytes() // x.element_size()
            if _memory(x) not in known and numel > self.numel:
                self.numel, self.shape = numel, tuple(x.shape)
        return result


def _tensors(tree: Any) -> list[Tensor]:
    return [x for x in tree_leaves(tree) if isinstance(x, Tensor)]


def _memory(x: Tensor) -> int:
    return x.untyped_storage().data_ptr()
