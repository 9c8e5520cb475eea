"""Keep elements in a list that a tensor shares with its views."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import repeat
from typing import Any

from .dtypes import BOOL, COMPLEX, FLOAT, dtype, float32
from .errors import lookup_error, not_here, said
from .names import FUNCTIONS, called, method
from .sizes import Size, places, size_of, strides_of


class Generator:
    """Random numbers, which on this page are not those of PyTorch."""

    def manual_seed(self, seed: int) -> Generator:
        """Return the generator itself."""
        return self


class device:
    """The only device of the page, the CPU."""

    type, index = "cpu", None

    def __init__(self, type: Any = "cpu", index: int | None = None) -> None:
        if str(type) not in ("cpu", "cpu:0"):
            raise not_here(f"torch.device({str(type)!r})")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device)

    def __hash__(self) -> int:
        return 0

    def __str__(self) -> str:
        return "cpu"

    def __repr__(self) -> str:
        return "device(type='cpu')"


class Tensor:
    """A shape, strides and a start, over a list that others may share.

    Its methods are functions of the other modules, which register them.

    Args:
        storage: the elements, Python numbers already rounded to the dtype.
        shape: the lengths of the axes.
        dtype: the type of the elements.
        strides: from an element to the next, along each axis; None: the
            elements follow one another.
        start: the place of the first element.
    """

    __slots__ = (
        *("_storage", "_start", "_strides", "dtype", "shape"),
        *("requires_grad", "grad"),
    )
    __hash__ = object.__hash__
    is_leaf, grad_fn = True, None
    is_cuda = is_sparse = is_quantized = is_meta = is_nested = False
    device, layout = device(), "torch.strided"

    def __init__(
        self,
        storage: list[Any],
        shape: Sequence[int] | None = None,
        dtype: dtype | None = None,
        strides: tuple[int, ...] | None = None,
        start: int = 0,
    ) -> None:
        if shape is None or dtype is None:  # as a learner may call it
            if not isinstance(storage, list | tuple):
                raise not_here("torch.Tensor of sizes")
            made = FUNCTIONS["tensor"](storage, dtype=float32)
            storage, shape, dtype = made._storage, made.shape, float32
        self._storage, self._start = storage, start
        self.shape = shape if type(shape) is Size else Size(shape)
        self.dtype = dtype
        self._strides = strides_of(self.shape) if strides is None else strides
        self.requires_grad, self.grad = False, None

    def __getattr__(self, name: str) -> Any:
        text = f"'Tensor' object has no attribute '{name}'"
        raise lookup_error("Tensor", name, text)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-d tensor")
        return self.shape[0]

    def __bool__(self) -> bool:
        size = math.prod(self.shape)
        if size != 1:
            which = "more than one value" if size else "no values"
            raise said("ambiguous_bool", which)
        return bool(number(self))

    def __int__(self) -> int:
        return int(number(self, "not_a_scalar"))

    def __float__(self) -> float:
        return float(number(self, "not_a_scalar"))

    def __complex__(self) -> complex:
        return complex(number(self))

    def __index__(self) -> int:
        if self.dtype.kind in (FLOAT, COMPLEX) or math.prod(self.shape) != 1:
            raise said("index_not_integer")
        return int(number(self))


def number(x: Tensor, words: str = "not_one_element") -> Any:
    """Return the only element, and take note that an answer reads it."""
    called.add("item")
    if math.prod(x.shape) != 1:
        raise said(words, math.prod(x.shape))
    return x._storage[x._start]


def new(values: list[Any], shape: Sequence[int], dtype: dtype) -> Tensor:
    """Make a tensor of a list of its own, rounded already."""
    return Tensor(values, shape, dtype)


def rounded(values: list[Any], shape: Sequence[int], dtype: dtype) -> Tensor:
    """Make a tensor of numbers that are to be rounded to its dtype."""
    return Tensor(dtype.round(values), shape, dtype)


def alias(
    x: Tensor,
    shape: Sequence[int],
    strides: Sequence[int],
    start: int | None = None,
) -> Tensor:
    """Make a view of the same elements."""
    start = x._start if start is None else start
    return Tensor(x._storage, shape, x.dtype, tuple(strides), start)


@method
def is_contiguous(x):
    own = zip(x.shape, x._strides, strides_of(x.shape), strict=True)
    return 0 in x.shape or all(a == b for n, a, b in own if n > 1)


def elements(x: Tensor) -> list[Any]:
    """Return the elements in order: often the storage; leave it unchanged."""
    storage, size = x._storage, size_of(x.shape)
    if x._strides == strides_of(x.shape):
        if len(storage) == size:
            return storage
        return storage[x._start : x._start + size]
    if not size:
        return []
    starts, n, step = _runs(x)
    found: list[Any] = []
    if step == 0:
        for i in starts:
            found += [storage[i]] * n
    else:
        length = (n - 1) * step + 1
        for i in starts:
            found += storage[i : i + length : step]
    return found


def write(x: Tensor, values: list[Any]) -> None:
    """Overwrite the elements, in order, and those of every view with them."""
    storage, size = x._storage, len(values)
    if x._strides == strides_of(x.shape):
        storage[x._start : x._start + size] = values
    elif size:
        axes = zip(x.shape, x._strides, strict=True)
        if any(n > 1 and not step for n, step in axes):
            raise said("shared_memory")
        starts, n, step = _runs(x)
        length = (n - 1) * step + 1
        for k, i in enumerate(starts):
            storage[i : i + length : step] = values[k * n : k * n + n]


def _runs(x: Tensor) -> tuple[list[int], int, int]:
    """Return where runs of equal strides start, their length and stride."""
    axes: list[tuple[int, int]] = []
    for n, step in zip(x.shape, x._strides, strict=True):
        if n != 1 and axes and axes[-1][1] == n * step:
            axes[-1] = axes[-1][0] * n, step
        elif n != 1:
            axes.append((n, step))
    *outer, (n, step) = axes or [(1, 1)]
    return places(outer, x._start), n, step


def expand_to(
    x: Tensor, shape: Sequence[int], target: Sequence[int] = ()
) -> Tensor:
    """Return a view in a larger shape: new and repeated axes have stride 0."""
    if x.shape == shape:
        return x
    extra = len(shape) - len(x.shape)
    strides = [0] * len(shape)
    for i in reversed(range(extra, len(shape))):
        n = x.shape[i - extra]
        if n == shape[i]:
            strides[i] = x._strides[i - extra]
        elif n != 1:
            sizes = list(target or shape), list(x.shape)
            raise said("expanded_size", shape[i], n, i, *sizes)
    return alias(x, shape, strides)


def is_number(x: object) -> bool:
    """Return whether it is a Python number, a bool included."""
    return isinstance(x, int | float | complex)


def operand(x: Any, result: dtype, shape: Size) -> Any:
    """Return the elements that an operation on a larger shape reads.

    A number, or a tensor without axes, is repeated for ever, and rounded to
    float32 at most, as PyTorch computes with scalars.
    """
    if isinstance(x, Tensor):
        if x.shape:
            values = elements(expand_to(x, shape))
            is_kept = x.dtype is result or result.kind == BOOL
            return values if is_kept else result.round(values)
        x = x._storage[x._start]
    if result.kind == FLOAT and result.itemsize < 8:
        result = float32
    return repeat(x if result.kind == BOOL else result.round([x])[0])
