"""Define the examiner's requests, and how both sides send and read.

In go pickles of the examiner's, which has the right answers and never runs
learner's code. Out come packets, of JSON and of raw elements; nothing is
unpickled in that direction.
"""

from __future__ import annotations

import json
import pickle
import socket
import struct
import time
from dataclasses import dataclass, field
from typing import Any

import cloudpickle

MOST_TEXT = 2 << 20  # bytes of JSON
#: Bytes of elements: thirty times those of the largest right result. The
#: judge keeps the results of all cases of an exercise, a hundred of them.
MOST_DATA = 4 << 20
_SIZE, _SIZES = struct.Struct(">Q"), struct.Struct(">II")


@dataclass(frozen=True)
class Cell:
    """A cell to run, statement by statement.

    Args:
        number: of the cell, from 1; 0 for the book's own text.
        text: its source.
        seconds: for each statement.
        left: seconds for the cell; after them, definitions alone run.
        skip: numbers of statements to leave out.
        given: names that the tasks give, and their values.
    """

    number: int
    text: str
    seconds: float = 5.0
    left: float = 20.0
    skip: frozenset[int] = frozenset()
    given: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Check:
    """Fork a process for an exercise; its channel comes with the request.

    Args:
        name: of the function, class or kernel.
        form: ``function``, ``class`` or ``kernel``.
        given: names that this task gives, where they are not bound.
    """

    name: str
    form: str
    given: dict[str, Any]


class WireError(ValueError):
    """Raised for bytes that are no outcome."""


def send(
    channel: socket.socket, end: float, request: Any, *own: socket.socket
) -> None:
    """Send a request, and sockets with it, until a time on the clock."""
    body = cloudpickle.dumps(request, pickle.HIGHEST_PROTOCOL)
    channel.settimeout(max(end - time.monotonic(), 0.001))
    numbers = [x.fileno() for x in own]
    socket.send_fds(channel, [_SIZE.pack(len(body))], numbers)
    channel.sendall(body)


def receive(channel: socket.socket) -> tuple[Any, list[socket.socket]]:
    """Return the next request, and the sockets that came with it.

    Raises:
        EOFError: the examiner has closed the channel.
    """
    head, numbers, _, _ = socket.recv_fds(channel, _SIZE.size, 2)
    head += _exactly(channel, _SIZE.size - len(head))
    body = _exactly(channel, _SIZE.unpack(head)[0])
    return pickle.loads(body), [socket.socket(fileno=x) for x in numbers]


def packet(said: Any, data: bytes = b"") -> bytes:
    """Return a value of JSON's, and raw elements, as they are sent."""
    text = json.dumps(said, ensure_ascii=False).encode(errors="replace")
    return _SIZES.pack(len(text), len(data)) + text + data


def read(channel: socket.socket, end: float) -> tuple[str, bytes]:
    """Return the text and the elements of the next packet, until a time.

    Raises:
        TimeoutError: it did not come in time.
        EOFError: the other side has ended.
        WireError: it is too large.
    """
    sizes = _SIZES.unpack(_exactly(channel, _SIZES.size, end))
    if sizes[0] > MOST_TEXT or sizes[1] > MOST_DATA:
        raise WireError(f"it is {sum(sizes):,} bytes long, which is too much")
    text, data = (_exactly(channel, size, end) for size in sizes)
    return text.decode(errors="replace"), data


def _exactly(
    channel: socket.socket, size: int, end: float | None = None
) -> bytes:
    found = bytearray()
    while len(found) < size:
        if end is not None:
            channel.settimeout(max(end - time.monotonic(), 0.001))
        part = channel.recv(min(size - len(found), 1 << 20))
        if not part:
            raise EOFError
        found += part
    return bytes(found)
