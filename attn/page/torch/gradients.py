"""Record gradients: elements that remember what they were computed from.

While ``recording`` is open, the elements of a tensor that requires a gradient
are traced numbers. They go wherever elements go, through views, indices and
assignments.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from . import elementwise, pairs, traced
from .dtypes import COMPLEX, FLOAT, NAMES
from .errors import not_here, said
from .tensor import Tensor, elements, new, write
from .traced import STATE, Traced, derived, plain

_OF_COMPLEX = "The gradient of a complex number"
_OF_MATH = {math.hypot, math.atan2, math.fmod, math.copysign}
_apply, _computed = elementwise.apply, pairs.computed


def _kept(round: Callable[[Any], list[Any]]) -> Callable[[Any], list[Any]]:
    """Return a dtype's rounding that keeps what a number remembers."""

    def f(values: Any) -> list[Any]:
        values = list(values)
        found = round(values)
        for i, x in enumerate(values):
            if type(x) is Traced and STATE.enabled:
                found[i] = x if x == found[i] else derived(found[i], (x, 1.0))
        return found

    return f


def _applied(f: Any, values: list[Any]) -> list[Any]:
    """Apply a function of numbers, as ``elementwise.apply`` does."""
    found = _apply(f, plain(values))
    safe = f if f in traced.SLOPES else lambda v: _apply(f, [v])[0]
    for i, x in enumerate(values):
        if type(x) is Traced:
            y = float(found[i])
            found[i] = derived(y, (x, traced.slope(safe, float(x), y)))
    return found


def _chosen(is_first: Any, a: Any, b: Any) -> Any:
    """Return one of two; to the other flows 0, which inf makes NaN there."""
    one, other = (a, b) if is_first else (b, a)
    if type(one) is not Traced and type(other) is not Traced:
        return one
    return derived(one, (one, 1.0), (other, None))


def _paired(op: Any, *rest: Any) -> Any:
    """Apply an operation to pairs, as ``pairs.computed`` does."""
    op = partial(traced.followed, op) if op in _OF_MATH else op
    return _computed(op, *rest)


def _joined(*parts: Any) -> complex:
    """Make a complex number, as ``dtypes.joined`` does, without a gradient."""
    if STATE.enabled and any(type(x) is Traced for x in parts):
        raise not_here(_OF_COMPLEX)
    return complex(*parts)


def _written(x: Tensor, values: list[Any]) -> None:
    """Write elements; refuse a leaf, as autograd does."""
    leaf = STATE.leaves.get(id(x._storage))
    if leaf is not None and STATE.enabled:
        raise said("leaf_written", "" if x is leaf else "view of a ")
    write(x, values if leaf is None else [Traced.leaf(v) for v in values])


def _detached(x: Tensor) -> Tensor:
    return new(plain(elements(x)), x.shape, x.dtype)


def _requires(x: Tensor) -> bool:
    return any(type(v) is Traced for v in elements(x))


def _require(x: Tensor, is_required: bool) -> None:
    if is_required and x.dtype.kind == COMPLEX:
        raise not_here(_OF_COMPLEX)
    if is_required and x.dtype.kind == FLOAT and not _requires(x):
        x._storage[:] = map(Traced.leaf, x._storage)
        STATE.leaves[id(x._storage)] = x


def grad(
    outputs: Tensor,
    inputs: Tensor | Sequence[Tensor],
    allow_unused: bool = False,
    **_: Any,
) -> tuple[Tensor | None, ...]:
    """Return the gradients of one number; None of what it does not need."""
    if getattr(Tensor, "detach") is not _detached:  # noqa: B009
        raise not_here("torch.autograd.grad")
    (root,) = elements(outputs)
    found = traced.slopes_of(root)
    several = [inputs] if isinstance(inputs, Tensor) else [*inputs]
    grads: list[Tensor | None] = []
    for leaf in several:
        own = [found.get(id(x)) for x in elements(leaf)]
        values = leaf.dtype.round([x or 0.0 for x in own])
        is_used = any(x is not None for x in own)
        grads.append(new(values, leaf.shape, leaf.dtype) if is_used else None)
    return tuple(grads)


_CHANGED = {"apply": _applied, "math": traced.TracedMath(), "choose": _chosen}
_CHANGED |= {"computed": _paired, "joined": _joined, "write": _written}


@contextmanager
def recording() -> Iterator[None]:
    """Record what is computed of tensors that require a gradient."""
    package, here = __name__.rpartition(".")[0], {__name__, traced.__name__}
    STATE.leaves = {}
    with ExitStack() as undo:
        undo.callback(traced.forget)

        def put(holder: Any, name: str, value: Any) -> None:
            undo.callback(setattr, holder, name, getattr(holder, name))
            setattr(holder, name, value)

        for module, home in [*sys.modules.items()]:
            if module.startswith(f"{package}.") and module not in here:
                for name in _CHANGED.keys() & vars(home).keys():
                    put(home, name, _CHANGED[name])
        for kind in {x for x in NAMES.values() if x.kind == FLOAT}:
            put(kind, "round", _kept(kind.round))
        put(Tensor, "requires_grad", property(_requires, _require))
        put(Tensor, "detach", _detached)
        put(Tensor, "data", property(_detached))
        for name in ("item", "tolist"):
            own = getattr(Tensor, name)
            put(Tensor, name, lambda x, own=own: plain(own(x)))
        yield
