"""Carry an outcome out of the sandbox: JSON and raw elements, strictly parsed.

The other side may send anything at all. ``decode`` accepts what ``encode``
makes, of bounded size, and refuses all else with one error; nothing that
arrives is executed, imported or unpickled.
"""

from __future__ import annotations

import builtins
import json
from collections.abc import Mapping
from functools import cache
from numbers import Real
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import torch
from safetensors.torch import load, save
from torch import Tensor

from attn.exercises.out_of_bounds import OutOfBounds
from attn.exercises.outcome import Forbidden, Outcome, SideEffect
from attn.grading.checks.clock import OutOfTime
from attn.grading.checks.objects import WrongParameters
from attn.grading.checks.result import Foreign, NoGradient
from attn.grading.sandbox.requests import WireError, packet

_MOST = 20_000  # characters of one string, and values in one outcome
_DTYPES = {
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8),
    torch.bool,
}
_COLLECTIONS = {x.__name__: x for x in (tuple, list, set, frozenset)}
_RECORDS = {x.__name__: x for x in (Outcome, SideEffect, Foreign)}
_ERRORS: dict[str, type[BaseException]] = {
    x.__name__: x
    for x in (Forbidden, NoGradient, OutOfBounds, OutOfTime, WrongParameters)
}
_hints = cache(get_type_hints)
_UNPRINTABLE = dict.fromkeys(
    {*range(32), *range(127, 160), *range(0xD800, 0xE000)} - {9, 10}, "\ufffd"
)


def encode(outcome: Outcome) -> bytes:
    """Return an outcome as a packet; what does not fit becomes ``Foreign``."""
    tensors: dict[str, Tensor] = {}
    tree = _packed(outcome, tensors)
    return packet(tree, save(tensors) if tensors else b"")


def decode(text: str, data: bytes) -> Outcome:
    """Return the outcome that ``encode`` was given.

    Raises:
        WireError: it is anything else.
    """
    try:
        reader = _Reader(load(data) if data else {})
        outcome = reader.value(json.loads(text))
    except WireError:
        raise
    except Exception as error:  # of a parser's many kinds
        raise WireError(f"{type(error).__name__}: {error}") from error
    if not isinstance(outcome, Outcome):
        raise WireError("it is something else")
    return outcome


def _packed(x: Any, tensors: dict[str, Tensor]) -> Any:
    """Return a value as JSON, in which a list begins with its kind."""

    def each(parts: Any) -> list[Any]:
        return [_packed(part, tensors) for part in parts]

    if x is None or isinstance(x, bool | int | float):
        return x
    if isinstance(x, str):
        return x[:_MOST]
    if isinstance(x, Mapping) and all(isinstance(k, str) for k in x):
        return dict(zip(x, each(x.values()), strict=True))
    for name, kind in _COLLECTIONS.items():
        if isinstance(x, kind):
            return [name, *each(x)]
    if isinstance(x, range) and x[:_MOST] == x:
        return ["range", x.start, x.stop, x.step]
    if isinstance(x, Real):
        return float(x)
    if isinstance(x, BaseException):
        return ["error", *each(_described(x))]
    if type(x) in _RECORDS.values():
        return [type(x).__name__, *each([vars(x)])]
    if not isinstance(x, Tensor):
        return _packed(Foreign(f"a {type(x).__name__}"), tensors)
    if x.dtype not in _DTYPES or x.device.type != "cpu":
        found = Foreign("a tensor", f"of {x.dtype} on {x.device}")
        return _packed(found, tensors)
    name = str(len(tensors))
    tensors[name] = x.detach().clone(memory_format=torch.contiguous_format)
    return ["tensor", name]


def _described(error: BaseException) -> tuple[Any, ...]:
    """Return the name of an error's class, its texts, and what it holds."""
    texts = error.args[:4]
    if not all(isinstance(x, str) for x in texts):
        texts = (str(error),)
    held = {"__notes__": getattr(error, "__notes__", [])}
    if type(error) in _ERRORS.values():
        held |= vars(error)
    return type(error).__name__, [x[:4000] for x in texts], held


class _Reader:
    """Rebuild values; count them, and see that each tensor is used once."""

    def __init__(self, tensors: dict[str, Tensor]) -> None:
        self._tensors, self._nodes = tensors, 0

    def value(self, x: Any) -> Any:
        self._count(1)
        if x is None or isinstance(x, bool | int | float):
            return x
        if isinstance(x, str):
            return text_of(x)
        if isinstance(x, dict):
            return {text_of(k): self.value(y) for k, y in x.items()}
        kind, *parts = x[0], *map(self.value, x[1:])
        if kind in _COLLECTIONS:
            return _COLLECTIONS[kind](parts)
        if kind == "tensor":
            return self._tensors.pop(*parts)
        if kind == "range":  # a comparison may list it
            self._count(len(range(*parts)))
            return range(*parts)
        if kind == "error":
            return _error(*parts)
        return _record(_RECORDS[text_of(kind)], *parts)

    def _count(self, more: int) -> None:
        self._nodes += more
        if self._nodes > _MOST:
            raise WireError("it is too large")


def _error(name: str, texts: list[str], held: dict[str, Any]) -> BaseException:
    try:
        error = (_ERRORS.get(name) or _kind(name))(*texts)
    except TypeError:  # it needs others
        error = RuntimeError(" ".join(texts))
    vars(error).update(held)
    return error


@cache
def _kind(name: str) -> type[BaseException]:
    """Return Python's own exception of a name, or one made for it."""
    found = getattr(builtins, name, None)
    if isinstance(found, type) and issubclass(found, Exception):
        return found
    return type(name[:100], (Exception,), {})


def _record(kind: type, fields: dict[str, Any]) -> Any:
    """Return an object of a dataclass; its fields have their types."""
    hints = _hints(kind)
    if not all(_fits(x, hints[name]) for name, x in fields.items()):
        raise WireError(f"it is no {kind.__name__}")
    return kind(**fields)


def _fits(x: Any, hint: Any) -> bool:
    """Return whether a value is what an annotation names, on its outside."""
    kind = get_origin(hint)
    if hint is Any or kind is Literal:
        return hint is Any or x in get_args(hint)
    return isinstance(x, hint if kind in (None, UnionType) else kind)


def text_of(x: Any) -> str:
    """Return a text that every report can hold, and no terminal obeys."""
    if not isinstance(x, str) or len(x) > _MOST:
        raise WireError("a text is none, or too long")
    return x.translate(_UNPRINTABLE)
