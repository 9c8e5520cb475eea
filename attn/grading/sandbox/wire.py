"""Carry an outcome out of the sandbox: JSON and raw elements, strictly parsed.

The other side may send anything at all. ``decode`` accepts what ``encode``
makes, of bounded size, and refuses all else with one error; nothing that
arrives is executed, imported or unpickled.
"""

from __future__ import annotations

import builtins
import json
import re
import socket
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import cache
from numbers import Integral, Real
from typing import Any, get_args

import torch
from safetensors.torch import load, save
from torch import Tensor

from attn.exercises.guard import OutOfBounds
from attn.grading.checks.clock import OutOfTime
from attn.grading.checks.effects import EFFECTS, Library, SideEffect
from attn.grading.checks.forbidden import Forbidden, Refusal
from attn.grading.checks.objects import WrongParameters
from attn.grading.checks.result import Foreign, NoGradient
from attn.grading.checks.run import Outcome

MOST_TEXT = 2 << 20  # bytes of JSON
#: Bytes of elements: thirty times those of the largest right result. The
#: judge keeps the results of all cases of an exercise, a hundred of them.
MOST_DATA = 4 << 20
MOST_NAMED = 1 << 20  # bytes of the list of tensors
_LONGEST = 20_000  # characters of one string
_NODES = 20_000  # values in one outcome
_DEEPEST = 12
_HEAD = struct.Struct(">II")
_UNPRINTABLE = {
    code: "\ufffd"
    for code in (*range(32), *range(127, 160), *range(0xD800, 0xE000))
    if chr(code) not in "\n\t"
}
_DTYPES = {
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8),
    torch.bool,
}
#: Errors of ours, and what they hold beside a text.
_ERRORS: dict[type[BaseException], tuple[str, ...]] = {
    Forbidden: ("kind",),
    WrongParameters: ("extra", "missing", "shared"),
    OutOfBounds: ("output",),
    NoGradient: (),
    OutOfTime: (),
}


class WireError(Exception):
    """Raised for bytes that are no outcome."""


def encode(outcome: Outcome) -> bytes:
    """Return an outcome as bytes; what does not fit becomes ``Foreign``."""
    tensors: dict[str, Tensor] = {}
    body = {
        "output": _packed(outcome.output, tensors),
        "grads": _packed(outcome.grads, tensors),
        "error": _packed_error(outcome.error, tensors),
        "where": _cut(outcome.where, 500),
        "shapes_seen": {k: list(x) for k, x in outcome.shapes_seen.items()},
        "side_effect": _packed_effect(outcome.side_effect),
        "random_used": sorted(outcome.random_used),
        "repeats": outcome.repeats,
        "printed": _cut(outcome.printed, _LONGEST),
    }
    text = json.dumps(body).encode()
    data = save(tensors) if tensors else b""
    return _HEAD.pack(len(text), len(data)) + text + data


def decode(text: bytes, data: bytes) -> Outcome:
    """Return the outcome that ``encode`` was given.

    Raises:
        WireError: it is anything else.
    """
    try:
        body = json.loads(text)
        # A safetensors file begins with the size of its list of tensors.
        if int.from_bytes(data[:8], "little") > MOST_NAMED:
            raise WireError("it has too many tensors")
        tensors = load(data) if data else {}
        if any(x.dtype not in _DTYPES for x in tensors.values()):
            raise WireError("a tensor has a dtype that none is sent in")
        outcome = _outcome(body, _Reader(tensors))
        if tensors:
            raise WireError("it has tensors that nothing names")
        return outcome
    except WireError:
        raise
    except Exception as error:  # of a parser's many kinds
        raise WireError(f"{type(error).__name__}: {error}") from error


def receive(
    channel: socket.socket,
    end: float,
    clean: Callable[[str], str] = str,
) -> Outcome:
    """Read one outcome from a channel, until a time on the monotonic clock.

    Args:
        channel: of the answer's process.
        end: the time.
        clean: changes the text that came, which is JSON.

    Raises:
        TimeoutError: it did not come in time.
        EOFError: the other side has ended.
        WireError: it is too large, or no outcome.
    """
    text_size, data_size = _HEAD.unpack(_read(channel, _HEAD.size, end))
    if text_size > MOST_TEXT or data_size > MOST_DATA:
        raise WireError(
            f"it is {text_size + data_size:,} bytes long, which is too much"
        )
    text = _read(channel, text_size, end)
    data = _read(channel, data_size, end)
    return decode(clean(text.decode("ascii", "replace")).encode(), data)


def _read(channel: socket.socket, size: int, end: float) -> bytes:
    found = bytearray()
    while len(found) < size:
        channel.settimeout(max(end - time.monotonic(), 0.001))
        part = channel.recv(min(size - len(found), 1 << 20))
        if not part:
            raise EOFError
        found += part
    return bytes(found)


def _packed(x: Any, tensors: dict[str, Tensor]) -> Any:
    """Return a value as JSON; its kind comes first where JSON has several."""
    if x is None or isinstance(x, bool):
        return x
    if isinstance(x, Tensor):
        if type(x) not in (Tensor, torch.nn.Parameter):
            return _foreign(x)
        if x.dtype not in _DTYPES or x.device.type != "cpu":
            return ["foreign", ["a tensor", f"of {x.dtype} on {x.device}"]]
        name = str(len(tensors))
        tensors[name] = x.detach().clone(memory_format=torch.contiguous_format)
        return ["tensor", name]
    if isinstance(x, Foreign):
        return ["foreign", [_cut(x.kind, 500), _cut(x.details, 500)]]
    if isinstance(x, str):
        return ["str", _cut(x, _LONGEST)]
    if isinstance(x, Integral):
        return int(x) if abs(int(x)) < 10**300 else _foreign(x)
    if isinstance(x, Real):
        return float(x)
    if isinstance(x, range):
        if x[:_NODES] != x:
            return ["foreign", ["a range", f"of more than {_NODES:,} numbers"]]
        return ["range", [x.start, x.stop, x.step]]
    if isinstance(x, tuple | list):
        kind = "tuple" if isinstance(x, tuple) else "list"
        return [kind, [_packed(y, tensors) for y in x]]
    if isinstance(x, Mapping) and all(isinstance(k, str) for k in x):
        return ["dict", {k: _packed(y, tensors) for k, y in x.items()}]
    return _foreign(x)


def _foreign(x: Any) -> list[Any]:
    return ["foreign", [f"a {type(x).__name__}", ""]]


class _Reader:
    """Rebuild values; count them, and see that each tensor is used once."""

    def __init__(self, tensors: dict[str, Tensor]) -> None:
        self._tensors, self._nodes = tensors, 0

    def value(self, x: Any, depth: int = 0) -> Any:
        self._nodes += 1
        if self._nodes > _NODES or depth > _DEEPEST:
            raise WireError("it is too large, or too deep")
        if x is None or isinstance(x, bool | int | float):
            return x
        kind, content = x
        if kind == "tensor":
            return self._tensors.pop(text_of(content))
        if kind == "foreign":
            return Foreign(*map(text_of, content))
        if kind == "str":
            return text_of(content)
        if kind == "range":
            return self._range(range(*map(int, content)))
        if kind in ("tuple", "list") and isinstance(content, list):
            parts = [self.value(y, depth + 1) for y in content]
            return tuple(parts) if kind == "tuple" else parts
        if kind == "dict" and isinstance(content, dict):
            return {
                text_of(k): self.value(y, depth + 1)
                for k, y in content.items()
            }
        raise WireError(f"there is no kind {kind!r}")

    def _range(self, x: range) -> range:
        """Count what a range goes through: a comparison may list it."""
        if x[:_NODES] != x:
            raise WireError("a range is too long")
        self._nodes += len(x)
        return x


def _outcome(body: Any, reader: _Reader) -> Outcome:
    output, grads = reader.value(body["output"]), reader.value(body["grads"])
    if not all(isinstance(x, Tensor) for x in grads.values()):
        raise WireError("a gradient is no tensor")
    shapes_seen = {
        text_of(name): tuple(int(n) for n in sizes)
        for name, sizes in body["shapes_seen"].items()
    }
    if not isinstance(body["repeats"], bool):
        raise WireError("repeats is true or false")
    return Outcome(
        output=output,
        grads=grads,
        error=_error(body["error"], reader),
        where=text_of(body["where"]),
        shapes_seen=shapes_seen,
        side_effect=_effect(body["side_effect"]),
        random_used=frozenset(
            _one_of(Library, x) for x in body["random_used"]
        ),
        repeats=body["repeats"],
        printed=text_of(body["printed"]),
    )


def _cut(text: str, most: int) -> str:
    """Return the beginning of a text, without half a word at its end.

    Half of a folder's name would not be known for one, and stay in a report.
    """
    if len(text) <= most:
        return text
    return re.sub(r"\S{1,400}$", "…", text[:most])


def _packed_effect(effect: SideEffect | None) -> Any:
    if effect is None:
        return None
    names = [_cut(x, 500) for x in effect.names[:50]]
    return asdict(effect) | {"names": names}


def _effect(body: Any) -> SideEffect | None:
    if body is None:
        return None
    sizes = [body["peak"], body["limit"], *body["largest"]]
    if not all(type(n) is int and 0 <= n < 2**63 for n in sizes):
        raise WireError("a size is none")
    return SideEffect(
        kind=_one_of(EFFECTS, body["kind"]),
        names=tuple(map(text_of, body["names"])),
        peak=body["peak"],
        limit=body["limit"],
        largest=tuple(body["largest"]),
    )


def _packed_error(
    error: BaseException | None, tensors: dict[str, Tensor]
) -> Any:
    if error is None:
        return None
    held = next((x for kind, x in _ERRORS.items() if type(error) is kind), ())
    # The arguments of an error, or its text if they are no texts.
    texts = error.args[:4]
    if held or not all(isinstance(x, str) for x in texts):
        texts = (str(error),)
    return {
        "type": type(error).__name__,
        "texts": [_cut(x, 4000) for x in texts],
        "held": [_packed(_plain(getattr(error, x)), tensors) for x in held],
        "notes": [_cut(str(x), 1000) for x in getattr(error, "__notes__", ())],
    }


def _plain(x: Any) -> Any:
    return sorted(x) if isinstance(x, set | frozenset) else x


def _error(body: Any, reader: _Reader) -> BaseException | None:
    if body is None:
        return None
    name, texts = text_of(body["type"]), [*map(text_of, body["texts"][:4])]
    held = [reader.value(x) for x in body["held"]]
    kinds = {x.__name__: x for x in _ERRORS}
    kind: Any = kinds.get(name) or _kind(name)
    if kind is Forbidden:
        _one_of(Refusal, held[0])
    if kind is OutOfBounds:
        held.append("")  # the kernel's line, which the outcome has
    try:
        error: BaseException = kind(*texts, *held)
    except TypeError:  # it needs others
        error = RuntimeError(" ".join(texts))
    for note in body["notes"]:
        error.add_note(text_of(note))
    return error


@cache
def _kind(name: str) -> type[Exception]:
    """Return Python's own exception of a name, or one made for it."""
    found = getattr(builtins, name, None)
    if isinstance(found, type) and issubclass(found, Exception):
        return found
    return type(name[:100], (Exception,), {})


def _one_of(known: Any, x: Any) -> Any:
    """Return a value of a ``Literal``, or a key of a dict."""
    if x not in (values := get_args(known) or [*known]):
        raise WireError(f"it is none of {values}")
    return x


def text_of(x: Any) -> str:
    """Return a text that every report can hold, and no terminal obeys."""
    if not isinstance(x, str) or len(x) > _LONGEST:
        raise WireError("a text is none, or too long")
    return x.translate(_UNPRINTABLE)
