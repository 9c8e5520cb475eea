"""Compute gradients, by numbers that remember what they were computed from.

While ``recording`` is open, the elements of a tensor that requires a gradient
are such numbers. They go wherever elements go, through views, indices and
assignments; arithmetic makes others of them, and a function of ``math`` too.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from . import elementwise, pairs
from .dtypes import COMPLEX, FLOAT, NAMES
from .errors import not_here
from .tensor import Tensor, elements, new, write

inf, nan = math.inf, math.nan
_COMPLEX = "The gradient of a complex number"
_LARGEST = 3.4e38  # of float32: what is larger overflows


class Traced(float):
    """A number, and what it was computed from.

    Attributes:
        parents: numbers, and by how much this one grows with each; None: not
            at all, whatever its own gradient is.
    """

    __slots__ = ("parents",)
    parents: tuple[tuple[Traced, float | None], ...]


def traced(value: Any, *parents: tuple[Any, float | None]) -> Any:
    """Return a number with those of its parents that are traced."""
    if not STATE.enabled:
        return float(value)
    x = Traced(value)
    x.parents = tuple((p, by) for p, by in parents if type(p) is Traced)
    STATE.made.append(x)
    return x


class _State:
    """Hold whether gradients are recorded, the leaves by storage, the rest."""

    enabled = True

    def __init__(self) -> None:
        self.leaves: dict[int, Tensor] = {}
        self.made: list[Traced] = []


STATE = _State()


def _divided(a: float, b: float) -> tuple[float, float]:
    inverse = 1 / b if b else math.copysign(inf, b)
    return inverse, -a * inverse * inverse


def _raised(a: float, b: float) -> tuple[float, float]:
    by = b * _pow(a, b - 1) if b else 0.0
    return by, _pow(a, b) * math.log(a) if a > 0 else 0.0


def _pow(a: float, b: float) -> float:
    try:
        return math.pow(a, b)
    except (OverflowError, ValueError, ZeroDivisionError):
        return inf if a == 0 else nan


_ARITHMETIC: dict[str, Callable[[float, float], tuple[float, float]]] = {
    "add": lambda a, b: (1.0, 1.0),
    "sub": lambda a, b: (1.0, -1.0),
    "mul": lambda a, b: (b, a),
    "truediv": _divided,
    "pow": _raised,
    "mod": lambda a, b: (1.0, -(a // b)),
}


def _arithmetic(name: str, slopes: Any, is_reversed: bool) -> Any:
    compute = getattr(operator, name)
    if name == "truediv":
        compute = pairs.divided

    def f(self: Traced, other: Any) -> Any:
        if not isinstance(other, float | int):
            return NotImplemented
        a, b = (other, self) if is_reversed else (self, other)
        value = compute(float(a), float(b))
        by = slopes(float(a), float(b))
        return traced(value, (a, by[0]), (b, by[1]))

    return f


for _name, _slopes in _ARITHMETIC.items():
    setattr(Traced, f"__{_name}__", _arithmetic(_name, _slopes, False))
    setattr(Traced, f"__r{_name}__", _arithmetic(_name, _slopes, True))
_SIGNS: dict[str, Callable[[Any], Any]] = {
    "neg": lambda x: traced(-float(x), (x, -1.0)),
    "pos": lambda x: x,
    "abs": lambda x: traced(abs(float(x)), (x, (x > 0) - (x < 0))),
}
for _name, _sign in _SIGNS.items():
    setattr(Traced, f"__{_name}__", _sign)

#: Slopes of functions of x, with y their value, where a difference is too
#: far off; of others it is taken.
_SLOPES: dict[Any, Callable[[float, float], float]] = {
    math.exp: lambda x, y: y,
    math.log: lambda x, y: 1 / x if x else inf,
    math.sqrt: lambda x, y: 0.5 / y if y else inf,
    math.tanh: lambda x, y: 1 - y * y,
    math.sin: lambda x, y: math.cos(x) if x - x == 0 else nan,
    math.cos: lambda x, y: -math.sin(x) if x - x == 0 else nan,
    elementwise.relu: lambda x, y: float(x > 0) if x == x else nan,
    elementwise.sigmoid: lambda x, y: y * (1 - y),
    elementwise.FLOATS["rsqrt"]: lambda x, y: -0.5 * y * y * y,
    elementwise.FLOATS["reciprocal"]: lambda x, y: -y * y,
}


def _slope(f: Callable[[float], float], x: float, y: float) -> float:
    if slope := _SLOPES.get(f):
        return slope(x, math.copysign(inf, y) if abs(y) > _LARGEST else y)
    if x - x or y - y:  # not finite
        return nan
    h = 1e-6 * max(abs(x), 1e-2)
    above, below = f(x + h), f(x - h)
    if above - above == 0 and below - below == 0:
        return (above - below) / (2 * h)
    return inf if below != below and above == above else nan


class _Math:
    """The module ``math``, for numbers that are traced too."""

    def __getattr__(self, name: str) -> Any:
        own = getattr(math, name)
        return self._followed(own) if callable(own) else own

    def _followed(self, own: Callable[..., Any]) -> Callable[..., Any]:
        def f(*args: Any, **kwargs: Any) -> Any:
            if own is math.prod:
                return _product(*args, **kwargs)
            if not any(type(x) is Traced for x in args):
                return own(*args, **kwargs)
            if own is math.pow:
                return Traced.__pow__(*args)
            values = [float(x) for x in args]
            y = own(*values)
            if not isinstance(y, float):  # floor, isfinite
                return y
            parents = []
            for i, x in enumerate(args):
                if type(x) is Traced:
                    parents.append((x, self._by(own, values, i, y)))
            return traced(y, *parents)

        return f

    @staticmethod
    def _by(own: Any, values: list[float], i: int, y: float) -> float:
        def of_one(x: float) -> float:
            try:
                return own(*values[:i], x, *values[i + 1 :])
            except (OverflowError, ValueError, ZeroDivisionError):
                return nan

        one = len(values) == 1
        return _slope(own if one and own in _SLOPES else of_one, values[i], y)


def _product(values: Any, start: Any = 1) -> Any:
    for x in values:
        start = start * x
    return start


def _kept(round: Callable[[Any], list[Any]]) -> Callable[[Any], list[Any]]:
    """Return a dtype's rounding that keeps what a number remembers."""

    def f(values: Any) -> list[Any]:
        values = list(values)
        found = round(values)
        for i, x in enumerate(values):
            if type(x) is Traced and STATE.enabled:
                found[i] = x if x == found[i] else traced(found[i], (x, 1.0))
        return found

    return f


def _applied(f: Any, values: list[Any]) -> list[Any]:
    """Apply a function of numbers, as ``elementwise.apply`` does."""
    found = _APPLY(f, [float(x) if type(x) is Traced else x for x in values])
    for i, x in enumerate(values):
        if type(x) is Traced:
            y = float(found[i])
            safe = f if f in _SLOPES else lambda v: _APPLY(f, [v])[0]
            by = _slope(safe, float(x), y)
            found[i] = traced(y, (x, by))
    return found


def _chosen(is_first: Any, a: Any, b: Any) -> Any:
    """Return one of two; to the other flows 0, which inf makes NaN there."""
    one, other = (a, b) if is_first else (b, a)
    if type(one) is not Traced and type(other) is not Traced:
        return one
    return traced(one, (one, 1.0), (other, None))


def _written(x: Tensor, values: list[Any]) -> None:
    """Write elements; refuse a leaf, as autograd does."""
    leaf = STATE.leaves.get(id(x._storage))
    if leaf is not None and STATE.enabled:
        what = "a leaf" if x is leaf else "a view of a leaf"
        raise RuntimeError(
            f"{what} Variable that requires grad is being used in an "
            "in-place operation."
        )
    write(x, values if leaf is None else [_leaf(v) for v in values])


def _leaf(value: Any) -> Traced:
    x = Traced(value)
    x.parents = ()
    return x


def _plain(x: Any) -> Any:
    if isinstance(x, list):
        return [_plain(y) for y in x]
    return float(x) if type(x) is Traced else x


def _returning_plain(own: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: _plain(own(*args))


def _detached(x: Tensor) -> Tensor:
    return new(_plain(elements(x)), x.shape, x.dtype)


def _requires(x: Tensor) -> bool:
    return any(type(v) is Traced for v in elements(x))


def _require(x: Tensor, is_required: bool) -> None:
    if is_required and x.dtype.kind == COMPLEX:
        raise not_here(_COMPLEX)
    if is_required and x.dtype.kind == FLOAT and not _requires(x):
        x._storage[:] = [_leaf(v) for v in x._storage]
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
    order, seen, stack = [], set[int](), [(root, False)]
    while stack:
        x, is_done = stack.pop()
        if is_done:
            order.append(x)
        elif id(x) not in seen:
            seen.add(id(x))
            stack.append((x, True))
            stack += [(p, False) for p, _ in getattr(x, "parents", ())]
    found = {id(root): 1.0}
    for x in reversed(order):
        for parent, by in getattr(x, "parents", ()):
            flows = 0.0 if by is None else found[id(x)] * by
            found[id(parent)] = found.get(id(parent), 0.0) + flows
    several = [inputs] if isinstance(inputs, Tensor) else [*inputs]
    grads: list[Tensor | None] = []
    for leaf in several:
        own = [found.get(id(x)) for x in elements(leaf)]
        values = leaf.dtype.round([x or 0.0 for x in own])
        is_used = any(x is not None for x in own)
        grads.append(new(values, leaf.shape, leaf.dtype) if is_used else None)
    return tuple(grads)


def _joined(*parts: Any) -> complex:
    """Make a complex number, as ``dtypes.joined`` does, without a gradient."""
    if STATE.enabled and any(type(x) is Traced for x in parts):
        raise not_here(_COMPLEX)
    return complex(*parts)


def _paired(op: Any, *rest: Any) -> Any:
    """Apply an operation to pairs, as ``pairs.computed`` does."""
    name = getattr(op, "__name__", "")
    return _PAIR(getattr(_MATH, name) if op in _OF_MATH else op, *rest)


_APPLY, _PAIR, _MATH = elementwise.apply, pairs.computed, _Math()
_OF_MATH = {math.hypot, math.atan2, math.fmod, math.copysign}
_CHANGED = {"apply": _applied, "math": _MATH, "choose": _chosen}
_CHANGED |= {"computed": _paired, "joined": _joined, "write": _written}


@contextmanager
def recording() -> Iterator[None]:
    """Record what is computed of tensors that require a gradient."""
    package = __name__.rpartition(".")[0]
    homes = [
        vars(x)
        for name, x in [*sys.modules.items()]
        if name.startswith(f"{package}.") and name != __name__
    ]
    floats = {x for x in NAMES.values() if x.kind == FLOAT}
    undo: list[Callable[[], None]] = []

    def put(holder: Any, name: str, value: Any) -> None:
        before = getattr(holder, name)
        setattr(holder, name, value)
        undo.append(lambda: setattr(holder, name, before))

    for home in homes:
        for name, value in _CHANGED.items():
            if name in home and not name.startswith("_"):
                undo.append(partial(home.update, {name: home[name]}))
                home[name] = value
    for kind in floats:
        put(kind, "round", _kept(kind.round))
    put(Tensor, "requires_grad", property(_requires, _require))
    put(Tensor, "detach", _detached)
    put(Tensor, "data", property(_detached))
    for name in ("item", "tolist"):
        own = getattr(Tensor, name)
        put(Tensor, name, _returning_plain(own))
    STATE.leaves = {}
    try:
        yield
    finally:
        for f in reversed(undo):
            f()
        # A sum is a chain of numbers, each held by the next. To free one
        # recurses, for which the stack of a browser's worker is too short.
        for x in STATE.made:
            x.parents = ()
        STATE.made.clear()
