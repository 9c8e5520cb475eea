"""Define the examiner's requests to a notebook's process, and to a check's.

Requests are pickles of the examiner's, which has the right answers and never
runs learner's code; nothing is unpickled in the other direction.
"""

from __future__ import annotations

import os
import pickle
import socket
import struct
from dataclasses import dataclass, field
from typing import Any

SIZE = struct.Struct(">Q")


@dataclass(frozen=True)
class Begin:
    """Start a notebook.

    Args:
        given: names that the tasks give, and their values.
        text: the chapter's own definitions that the cells may use.
    """

    given: dict[str, Any]
    text: str


@dataclass(frozen=True)
class Cell:
    """A cell to run, statement by statement.

    Args:
        number: of the cell, from 1.
        text: its source.
        seconds: for each statement.
        left: seconds for the cell; after them, definitions alone run.
        skip: numbers of statements to leave out.
    """

    number: int
    text: str
    seconds: float = 5.0
    left: float = 20.0
    skip: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Bind:
    """Give an exercise's name the book's answer, after a check that failed."""

    text: str


@dataclass(frozen=True)
class Check:
    """Fork a process that serves the cases of an exercise.

    Its channel comes with the request.

    Args:
        name: of the function, class or kernel.
        form: ``function``, ``class`` or ``kernel``.
        given: names that this task gives, where they are not bound.
    """

    name: str
    form: str
    given: dict[str, Any]


@dataclass(frozen=True)
class End:
    """End the process of a check; tell how it ended."""


@dataclass(frozen=True)
class Use:
    """One case, and how it is run; the names are those of ``run.run``."""

    case: Any
    forbids: tuple[str, ...] = ()
    limit: float = 5.0
    launch: Any = None
    names: list[str] = field(default_factory=list)
    fill_empty: bool = False


def receive(
    channel: socket.socket,
) -> tuple[Any, list[socket.socket]]:
    """Return the next request, and the sockets that came with it.

    The process ends when the other side has closed the channel.
    """
    head, numbers, _, _ = socket.recv_fds(channel, SIZE.size, 1)
    head += _exactly(channel, SIZE.size - len(head)) if head else b""
    if not head:
        os._exit(0)
    body = _exactly(channel, SIZE.unpack(head)[0])
    return pickle.loads(body), [socket.socket(fileno=x) for x in numbers]


def _exactly(channel: socket.socket, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        part = channel.recv(min(size - len(found), 1 << 20))
        if not part:
            os._exit(0)
        found += part
    return bytes(found)
