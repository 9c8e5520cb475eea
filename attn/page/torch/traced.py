"""Compute with numbers that remember what they were computed from.

Arithmetic makes others of them, and a function of ``math`` too.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import partial
from typing import Any

from . import elementwise, pairs

inf, nan = math.inf, math.nan
_LARGEST = 3.4e38  # of float32: what is larger overflows


class Traced(float):
    """A number, and what it was computed from.

    Attributes:
        parents: numbers, and by how much this one grows with each; None: not
            at all, whatever its own gradient is.
    """

    __slots__ = ("parents",)
    parents: tuple[tuple[Traced, float | None], ...]

    @classmethod
    def leaf(cls, value: Any) -> Traced:
        """Return a number that was not computed."""
        x = cls(value)
        x.parents = ()
        return x


class _State:
    """Hold whether gradients are recorded, the leaves by storage, the rest."""

    enabled = True

    def __init__(self) -> None:
        self.leaves: dict[int, Any] = {}
        self.made: list[Traced] = []


STATE = _State()


def derived(value: Any, *parents: tuple[Any, float | None]) -> Any:
    """Return a number with those of its parents that are traced."""
    if not STATE.enabled:
        return float(value)
    x = Traced(value)
    x.parents = tuple((p, by) for p, by in parents if type(p) is Traced)
    STATE.made.append(x)
    return x


def plain(x: Any) -> Any:
    """Return numbers that remember nothing."""
    if isinstance(x, list):
        return [plain(y) for y in x]
    return float(x) if type(x) is Traced else x


def slopes_of(root: Any) -> dict[int, float]:
    """Return by how much a number grows with each that it was made of.

    The keys are their identities. Parents were made before.
    """
    found = {id(root): 1.0}
    for x in reversed(STATE.made):
        for parent, by in x.parents if id(x) in found else ():
            flows = 0.0 if by is None else found[id(x)] * by
            found[id(parent)] = found.get(id(parent), 0.0) + flows
    return found


def forget() -> None:
    """Let numbers go: each holds those that it was computed from.

    A sum is a chain of them. To free one recurses, for which the stack of a
    browser's worker is too short.
    """
    for x in STATE.made:
        x.parents = ()
    STATE.made.clear()


# Arithmetic


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


#: An operation, and its slopes in either number.
_ARITHMETIC: dict[str, tuple[Any, Callable[[float, float], Any]]] = {
    "add": (operator.add, lambda a, b: (1.0, 1.0)),
    "sub": (operator.sub, lambda a, b: (1.0, -1.0)),
    "mul": (operator.mul, lambda a, b: (b, a)),
    "truediv": (pairs.divided, _divided),
    "pow": (operator.pow, _raised),
    "mod": (operator.mod, lambda a, b: (1.0, -(a // b))),
}


def _arithmetic(name: str, is_reversed: bool) -> Any:
    compute, slopes = _ARITHMETIC[name]

    def f(self: Traced, other: Any) -> Any:
        if not isinstance(other, float | int):
            return NotImplemented
        given = (other, self) if is_reversed else (self, other)
        a, b = map(float, given)
        return derived(compute(a, b), *zip(given, slopes(a, b), strict=True))

    return f


for _name in _ARITHMETIC:
    setattr(Traced, f"__{_name}__", _arithmetic(_name, False))
    setattr(Traced, f"__r{_name}__", _arithmetic(_name, True))
for _name, _sign in {
    "neg": lambda x: derived(-float(x), (x, -1.0)),
    "pos": lambda x: x,
    "abs": lambda x: derived(abs(float(x)), (x, (x > 0) - (x < 0))),
}.items():
    setattr(Traced, f"__{_name}__", _sign)


# Functions

#: Slopes of functions of x, with y their value, where a difference is too
#: far off; of others it is taken.
SLOPES: dict[Any, Callable[[float, float], float]] = {
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


def slope(f: Callable[[float], float], x: float, y: float) -> float:
    """Return by how much a function grows at x, where it is y."""
    if known := SLOPES.get(f):
        return known(x, math.copysign(inf, y) if abs(y) > _LARGEST else y)
    if x - x or y - y:  # not finite
        return nan
    h = 1e-6 * max(abs(x), 1e-2)
    above, below = f(x + h), f(x - h)
    if above - above == 0 and below - below == 0:
        return (above - below) / (2 * h)
    return inf if below != below and above == above else nan


def followed(own: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a function of ``math``, of numbers that may be traced."""
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
    parents = [(x, _slope_in(own, values, i, y)) for i, x in enumerate(args)]
    return derived(y, *parents)


def _slope_in(own: Any, values: list[float], i: int, y: float) -> float:
    """Return by how much a function of several grows with one of them."""

    def of_one(x: float) -> float:
        try:
            return own(*values[:i], x, *values[i + 1 :])
        except (OverflowError, ValueError, ZeroDivisionError):
            return nan

    return slope(own if own in SLOPES else of_one, values[i], y)


def _product(values: Any, start: Any = 1) -> Any:
    for x in values:
        start = start * x
    return start


class TracedMath:
    """The module ``math``, for numbers that are traced too."""

    def __getattr__(self, name: str) -> Any:
        own = getattr(math, name)
        return partial(followed, own) if callable(own) else own
