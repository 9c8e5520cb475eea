"""Keep elements in a list that a tensor shares with its views."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import repeat
from typing import Any

from .dtypes import BOOL, COMPLEX, FLOAT, bool_, dtype
from .errors import NotOnThisPage, lookup_error, not_here
from .names import METHODS, called, method

LIMIT = 500_000
"""The most elements of a tensor: a page has a second, not a minute."""


class Size(tuple[int, ...]):
    """The lengths of the axes."""

    __slots__ = ()

    def numel(self) -> int:
        """Return how many elements there are."""
        return math.prod(self)

    def __getitem__(self, i: Any) -> Any:
        found = tuple.__getitem__(self, i)
        return Size(found) if isinstance(i, slice) else found

    def __add__(self, other: Any) -> Any:
        return Size(tuple.__add__(self, tuple(other)))

    def __repr__(self) -> str:
        return f"torch.Size({list(self)})"


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


@lru_cache(4096)
def size_of(shape: tuple[int, ...]) -> int:
    """Return how many elements a shape has, if a page can hold them."""
    if (size := math.prod(shape)) > LIMIT:
        raise NotOnThisPage(
            f"a tensor of {size:,} elements is too large for this page, "
            f"which computes at most {LIMIT:,}; in Jupyter it is not"
        )
    return size


@lru_cache(4096)
def strides_of(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of elements that follow one another."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


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
    grad_fn = None
    is_leaf = True
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
        if shape is None or dtype is None:
            raise not_here("torch.Tensor(…), unlike torch.tensor(…),")
        self._storage, self._start = storage, start
        self.shape = shape if type(shape) is Size else Size(shape)
        self.dtype = dtype
        self._strides = strides_of(self.shape) if strides is None else strides
        self.requires_grad, self.grad = False, None

    def __getattr__(self, name: str) -> Any:
        said = f"'Tensor' object has no attribute '{name}'"
        raise lookup_error("Tensor", name, said)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-d tensor")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        if not self.shape:
            raise TypeError("iteration over a 0-d tensor")
        n, *shape = self.shape
        step, *strides = self._strides
        for i in range(n):
            start = self._start + i * step
            yield alias(self, shape, tuple(strides), start)

    def __bool__(self) -> bool:
        size = math.prod(self.shape)
        if size != 1:
            which = "more than one value" if size else "no values"
            raise RuntimeError(
                f"Boolean value of Tensor with {which} is ambiguous"
            )
        return bool(number(self))

    def __int__(self) -> int:
        return int(number(self))

    def __float__(self) -> float:
        return float(number(self))

    def __complex__(self) -> complex:
        return complex(number(self))

    def __index__(self) -> int:
        if self.dtype.kind in (FLOAT, COMPLEX) or math.prod(self.shape) != 1:
            raise TypeError(
                "only integer tensors of a single element can be converted "
                "to an index"
            )
        return int(number(self))

    def __format__(self, form: str) -> str:
        return format(number(self), form) if not self.shape else str(self)

    def __repr__(self) -> str:
        from .printing import text

        return text(self)

    def __reversed__(self) -> Tensor:
        return METHODS["flip"](self, 0)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        copy = new(list(elements(self)), self.shape, self.dtype)
        copy.__class__ = self.__class__
        return copy

    def __contains__(self, x: Any) -> bool:
        x = number(x) if isinstance(x, Tensor) else x
        return x in elements(self)


def number(x: Tensor) -> Any:
    """Return the only element, and take note that an answer reads it."""
    called.add("item")
    if math.prod(x.shape) != 1:
        raise RuntimeError(
            f"a Tensor with {math.prod(x.shape)} elements cannot be "
            "converted to Scalar"
        )
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
    strides: tuple[int, ...],
    start: int | None = None,
) -> Tensor:
    """Make a view of the same elements."""
    start = x._start if start is None else start
    return Tensor(x._storage, shape, x.dtype, strides, start)


@method
def is_contiguous(x):
    if x._strides == strides_of(x.shape) or 0 in x.shape:
        return True
    own = zip(x.shape, x._strides, strides_of(x.shape), strict=True)
    return all(a == b for n, a, b in own if n > 1)


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
    if n == 1:
        return [storage[i] for i in starts]
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
        starts, n, step = _runs(x)
        if step == 0 and n > 1 or 0 in x._strides and len(starts) > 1:
            _refuse_shared_elements(x)
        length, step = (n - 1) * step + 1, step or 1
        for k, i in enumerate(starts):
            storage[i : i + length : step] = values[k * n : k * n + n]


def _refuse_shared_elements(x: Tensor) -> None:
    if any(n > 1 and not s for n, s in zip(x.shape, x._strides, strict=True)):
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to "
            "tensor refers to a single memory location. Please clone() the "
            "tensor before performing the operation."
        )


def _runs(x: Tensor) -> tuple[list[int], int, int]:
    """Return where runs of equal strides start, their length and stride."""
    axes: list[tuple[int, int]] = []
    for n, step in zip(x.shape, x._strides, strict=True):
        if n == 1:
            continue
        if axes and axes[-1][1] == n * step:
            axes[-1] = axes[-1][0] * n, step
        else:
            axes.append((n, step))
    *outer, (n, step) = axes or [(1, 1)]
    return places(outer, x._start), n, step


def places(axes: Sequence[tuple[int, int]], start: int = 0) -> list[int]:
    """Return the place of each element of axes given by length and stride."""
    found = [start]
    for n, step in axes:
        found = [i + k * step for i in found for k in range(n)]
    return found


@lru_cache(4096)
def broadcast_shapes(*shapes: tuple[int, ...]) -> Size:
    """Return the shape that all have when lined up from the last axis."""
    ndim = max(map(len, shapes), default=0)
    result = [1] * ndim
    for shape in shapes:
        for i, n in [*enumerate(shape, ndim - len(shape))][::-1]:
            if n != 1 and result[i] not in (1, n):
                raise RuntimeError(
                    f"The size of tensor a ({result[i]}) must match the size "
                    f"of tensor b ({n}) at non-singleton dimension {i}"
                )
            result[i] = result[i] if n == 1 else n
    return Size(result)


def expand_to(
    x: Tensor, shape: Sequence[int], target: Sequence[int] = ()
) -> Tensor:
    """Return a view in a larger shape: new and repeated axes have stride 0."""
    if x.shape == shape:
        return x
    extra = len(shape) - len(x.shape)
    strides = [0] * extra
    for i, (n, step) in enumerate(zip(x.shape, x._strides, strict=True)):
        if n != shape[extra + i] and n != 1:
            raise RuntimeError(
                f"The expanded size of the tensor ({shape[extra + i]}) must "
                f"match the existing size ({n}) at non-singleton dimension "
                f"{extra + i}.  Target sizes: {list(target or shape)}.  "
                f"Tensor sizes: {list(x.shape)}"
            )
        strides.append(step if n == shape[extra + i] else 0)
    return alias(x, shape, tuple(strides))


def axis(dim: Any, ndim: int) -> int:
    """Return the number of an axis, counted from the front."""
    ndim = ndim or 1
    if not isinstance(dim, int):
        dim = dim.__index__()
    if not -ndim <= dim < ndim:
        raise IndexError(
            "Dimension out of range (expected to be in range of "
            f"[{-ndim}, {ndim - 1}], but got {dim})"
        )
    return dim % ndim


def axes(dims: Any, ndim: int) -> list[int]:
    """Return axes given as a number, several, or None for all of them."""
    if dims is None or dims == () or dims == []:
        return list(range(ndim))
    several = dims if isinstance(dims, tuple | list) else (dims,)
    found = (
        [axis(d, ndim) for d in several]
        if ndim
        else [axis(d, 0) for d in several]
    )
    for d in found:
        if found.count(d) > 1:
            raise RuntimeError(
                f"dim {d} appears multiple times in the list of dims"
            )
    return found if ndim else []


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
            if x.dtype is result or result.kind == BOOL:
                return values
            return result.round(values)
        x = x._storage[x._start]
    if result.kind == FLOAT and result.itemsize < 8:
        from .dtypes import float32 as result
    return repeat(result.round([x])[0]) if result is not bool_ else repeat(x)
