"""Make the objects that a case calls, and prepare each for a call."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import FunctionType, MemberDescriptorType, ModuleType
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from attn.grading.checks.inputs import copy_tensor, map_tensors
from attn.grading.checks.parameters import load, parameters, refuse_learnable

if TYPE_CHECKING:
    from attn.exercises.case import Case


@dataclass
class Callee:
    """Hold what a case calls: a function, or an object of a class.

    Args:
        call: the function or the object.
        loaded: the weights that the object was given last.
    """

    call: Any
    loaded: Mapping[str, Tensor] | None = None

    def prepare(self, case: Case) -> dict[str, Tensor]:
        """Load a module, set its mode, and return copies of its parameters.

        Weights that it was given last are not loaded again: another object
        that shares them has changed them.
        """
        if case.init is None:
            return {}
        if case.state is None:
            refuse_learnable(self.call)
        elif case.state is not self.loaded:
            load(self.call, case.state, case.initial)
            self.loaded = case.state
        self.call.train(case.train)
        return {
            n: x.detach().clone() for n, x in parameters(self.call).items()
        }


def make(answer: Any, case: Case) -> Callee:
    """Return a function, or an object of a class made as the case says."""
    if case.init is None:
        return Callee(answer)
    return Callee(answer(**map_tensors(copy_tensor, dict(case.init))))


def held_memory(root: nn.Module) -> dict[int, int]:
    """Return all memory that an object refers to: elements by address.

    What its class refers to is not its own.
    """
    sizes: dict[int, int] = {}
    seen: dict[int, Any] = {}
    found: list[Any] = [root]
    while found:
        x = found.pop()
        if id(x) in seen:
            continue
        seen[id(x)] = x
        if issubclass(type(x), Tensor):
            memory = x.untyped_storage()
            sizes[memory.data_ptr()] = len(memory) // x.element_size()
        elif not issubclass(type(x), type | ModuleType | FunctionType):
            found += _parts(x)
    return sizes


def _parts(x: Any) -> Iterator[Any]:
    """Yield what an object refers to, without a call of its own methods."""
    kind = type(x)
    for base in (tuple, list, set, frozenset, deque):
        if issubclass(kind, base):
            yield from base.__iter__(x)
    if issubclass(kind, dict):
        yield from dict.values(x)
    slots = (y for cls in kind.__mro__ for y in vars(cls).values())
    for slot in slots:
        if type(slot) is MemberDescriptorType:
            with suppress(AttributeError):
                yield slot.__get__(x)
    with suppress(AttributeError):
        yield from object.__getattribute__(x, "__dict__").values()
