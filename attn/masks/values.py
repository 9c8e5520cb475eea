"""Masks as values: what makes two predicates equal, and fit to pickle.

A predicate is a function of a module, or a ``functools.partial`` that binds
its arguments.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from functools import partial
from pickle import PicklingError
from types import FunctionType
from typing import Any

import torch
from torch import Tensor

from attn import tracing


def same(a: Any, b: Any) -> bool:
    """Return whether two values are equal; tensors by what they hold."""
    if a is b:
        return True
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        kinds = [(x.shape, x.dtype, x.device) for x in (a, b)]
        known = kinds[0] == kinds[1] and tracing.has_values(a, b)
        return known and torch.equal(a, b)
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return False
    if isinstance(a, partial) and isinstance(b, partial):
        return same(_parts(a), _parts(b))
    if isinstance(a, tuple | list) and type(a) is type(b):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


def digest(x: Any) -> int:
    """Return a hash, equal for what ``same`` calls equal.

    Only shape and dtype of a tensor count: reading its elements would wait
    for the device, and they may change.
    """
    if isinstance(x, Tensor):
        return hash((x.shape, x.dtype))
    if isinstance(x, partial):
        return digest(_parts(x))
    if isinstance(x, tuple | list):
        return hash(tuple(map(digest, x)))
    return hash(x) if getattr(type(x), "__hash__", None) else hash(type(x))


def tensors_read(x: Any, seen: set[int] | None = None) -> Iterator[Tensor]:
    """Yield the tensors that a predicate may read.

    They are bound to it, in its closure, or globals that it names; so are
    those of the functions and masks in these places.
    """
    seen = set() if seen is None else seen
    if id(x) in seen:
        return
    seen.add(id(x))
    inner: Iterable[Any] = ()
    if isinstance(x, Tensor):
        yield x
    elif isinstance(x, partial):
        inner = (x.func, *x.args, *x.keywords.values())
    elif isinstance(x, tuple | list):
        inner = x
    elif isinstance(x, FunctionType):
        names = inspect.getclosurevars(x)
        inner = (*names.nonlocals.values(), *names.globals.values())
    elif predicate := getattr(x, "predicate", None):  # of a mask
        inner = (predicate,)
    for each in inner:
        yield from tensors_read(each, seen)


def check_importable(x: Any) -> None:
    """Raise for a function that another process cannot import.

    Raises:
        PicklingError: it has no name in its module.
    """
    if isinstance(x, partial):
        check_importable(_parts(x))
    elif isinstance(x, tuple):
        for part in x:
            check_importable(part)
    elif isinstance(x, FunctionType) and "<" in x.__qualname__:
        raise PicklingError(
            "predicate must be a function with a name in its module to be "
            f"pickled; got {x.__qualname__}: move it to the top of the "
            "module, with def, and bind its data by functools.partial"
        )


def _parts(x: partial[Any]) -> tuple[Any, ...]:
    """Return a function and what is bound to it, in a fixed order."""
    return (x.func, x.args, tuple(sorted(x.keywords.items())))
