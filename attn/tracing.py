"""Find what is known of a tensor: its values, its derivatives, its sizes.

A graph is recorded for other sizes and values than its example has. Meta and
fake tensors have no values, and under ``torch.vmap`` a tensor holds several.
There, a check of values is left out, and what needs them raises.
"""

from __future__ import annotations

from contextlib import ExitStack

import torch
from torch import Tensor
from torch._C import _functorch
from torch._functorch.pyfunctorch import temporarily_pop_interpreter_stack
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd import forward_ad

_MODES = torch._C._TorchDispatchModeKey
_SHAPE_ONLY = ("a meta tensor", "a fake tensor")


def in_graph() -> bool:
    """Return whether a graph is being recorded, for other sizes too."""
    return torch.compiler.is_compiling() or torch.jit.is_tracing()  # type: ignore[attr-defined]


def is_autocast(device: torch.device) -> bool:
    """Return whether autocast is on for a device."""
    if not torch._C._is_any_autocast_enabled():  # a fifth of the time
        return False
    known = torch.amp.is_autocast_available(device.type)
    return known and torch.is_autocast_enabled(device.type)


def is_any_size(size: int) -> bool:
    """Return whether a size stands for others, in a graph."""
    if torch.jit.is_tracing():  # type: ignore[attr-defined]
        return True
    if not torch.compiler.is_compiling():
        return False
    from torch.fx.experimental.symbolic_shapes import has_static_value

    return not has_static_value(size)


def has_zero(*sizes: int) -> bool:
    """Return whether a size is 0, or in a graph, is known to be."""
    if not torch.compiler.is_compiling():
        return 0 in sizes
    from torch.fx.experimental.symbolic_shapes import guard_or_false

    return any(guard_or_false(size == 0) for size in sizes)


def in_functorch() -> bool:
    """Return whether a transform of ``torch.func`` is active."""
    if torch.compiler.is_compiling():
        return bool(_levels())
    return _functorch.peek_interpreter_stack() is not None


def in_transform() -> bool:
    """Return whether one is, or a forward-mode gradient, outside of graphs.

    To test each tensor takes a microsecond: thrice in each layer, for each
    token.
    """
    return (
        _functorch.peek_interpreter_stack() is not None
        or forward_ad._current_level >= 0
    )


def has_values(*tensors: Tensor) -> bool:
    """Return whether the elements of tensors can be read, for a check."""
    return not (in_graph() or any(map(_kind_without_values, tensors)))


def require_values(reason: str, **tensors: Tensor) -> None:
    """Raise for a tensor whose elements are needed and cannot be read.

    A graph may need them too: ``torch.compile`` breaks it there.
    """
    if in_graph():
        return
    for name, x in tensors.items():
        if kind := _kind_without_values(x):
            raise ValueError(f"{name} must have values, {reason}; got {kind}")


def is_shape_only(x: Tensor) -> bool:
    """Return whether a result has no values either, whatever they were."""
    return _kind_without_values(x) in _SHAPE_ONLY


def _kind_without_values(x: Tensor) -> str:
    """Return what a tensor is instead; empty where it has values."""
    while _functorch.is_functorch_wrapped_tensor(x):
        if _functorch.is_batchedtensor(x):
            return "a tensor inside torch.vmap"
        x = _functorch.get_unwrapped(x)
    if x.is_meta:
        return _SHAPE_ONLY[0]
    if isinstance(x, FakeTensor) or torch._C._get_dispatch_mode(_MODES.FAKE):
        return _SHAPE_ONLY[1]
    recorded = torch._C._get_dispatch_mode(_MODES.PROXY)
    return "" if recorded is None else "a tensor that make_fx records"


def derivatives(x: Tensor) -> tuple[bool, int]:
    """Return whether a tensor has a tangent, and how many gradients record it.

    Transforms of ``torch.func`` nest, and each sees its own level alone: the
    gradient inside a ``jvp`` sees no tangent.
    """
    if torch.compiler.is_compiling():
        outer = _levels()[:-1]
        has_tangent = "Jvp" in outer
        if _levels()[-1:] != ("Vmap",):
            has_tangent |= forward_ad.unpack_dual(x).tangent is not None
        return has_tangent, x.requires_grad + outer.count("Grad")
    if not in_transform():
        return False, int(x.requires_grad)
    has_tangent, count = False, 0
    with ExitStack() as stack:
        while True:
            top = _functorch.peek_interpreter_stack()
            level = -1 if top is None else top.level()
            if level == _functorch.maybe_get_level(x):
                if not _functorch.is_batchedtensor(x):
                    found = forward_ad.unpack_dual(x).tangent
                    has_tangent = has_tangent or found is not None
                    count += x.requires_grad
                if top is not None:
                    x = _functorch.get_unwrapped(x)
            if top is None:
                return has_tangent, count
            stack.enter_context(temporarily_pop_interpreter_stack())


def _levels() -> tuple[str, ...]:
    """Return the kinds of the active transforms, the innermost last.

    Dynamo evaluates it while it traces: a graph has one stack of transforms.
    """
    stack = _functorch.get_interpreter_stack() or ()
    return tuple(x.key().name for x in stack)


_levels._dynamo_marked_constant = True  # type: ignore[attr-defined]
