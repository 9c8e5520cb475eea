"""Drive the process of a notebook: run a cell, fork at a check."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import cloudpickle

from attn.exercises import CHAPTERS
from attn.exercises.case import Case
from attn.exercises.outcome import Outcome
from attn.grading.checks.clock import Clock, OutOfTime
from attn.grading.sandbox import isolation
from attn.grading.sandbox.requests import Cell, Check, WireError, read, send
from attn.grading.sandbox.wire import decode, text_of

# What is not among the sandbox's files is sent by value: what launches a
# kernel, a mask, a function of an earlier chapter.
for _name in ("masks", "positions", *(f"exercises.{x}" for x in CHAPTERS)):
    cloudpickle.register_pickle_by_value(import_module(f"attn.{_name}"))

_SLACK = 20.0


@dataclass(frozen=True)
class Note:
    """An error that a statement of a cell raised."""

    statement: int
    kind: str
    text: str


@dataclass(eq=False)
class CellDied(Exception):
    """The notebook's process ended in a cell, or had to be ended.

    Args:
        note: on the statement, of the kind ``Died``.
    """

    note: Note


class Session(contextlib.AbstractContextManager["Session"]):
    """The process of one notebook, from its first cell to its last check.

    Args:
        control: carries requests in, and notes on the cells out.
        lifetime_socket: closing it ends the process, and all of its own.
    """

    def __init__(
        self, control: socket.socket, lifetime_socket: socket.socket
    ) -> None:
        self._control, self._lifetime_socket = control, lifetime_socket

    def give(
        self,
        text: str,
        given: dict[str, Any] | None = None,
        slack: float = _SLACK,
    ) -> None:
        """Bind names that the tasks give, and run the book's text."""
        self.run(Cell(0, text, left=slack, given=given or {}), slack)

    def run(
        self, cell: Cell, slack: float = _SLACK
    ) -> tuple[list[Note], float]:
        """Run a cell; return its errors and seconds.

        Args:
            cell: what to run.
            slack: seconds on the wall that it has beyond its own: it may
                import.

        Raises:
            CellDied: the process ended in it, or had to be ended.
        """
        end = time.monotonic() + max(cell.left, cell.seconds) + slack
        at = 0
        try:
            send(self._control, end, cell)
            while "notes" not in (said := self._said(end)):
                at = int(said["at"])
            notes = [
                Note(int(number), text_of(kind), text_of(text))
                for number, kind, text in said["notes"]
            ]
            return notes, max(0.0, said["spent"])
        except Exception as error:  # it may send anything
            why = f"its process {self.close()}"
            if isinstance(error, TimeoutError):
                why = "it did not end in time, and could not be interrupted"
            elif not isinstance(error, OSError | EOFError):
                why = "its process sent what is no note"
            raise CellDied(Note(at, "Died", why)) from None

    def _said(self, end: float) -> dict[str, Any]:
        text, _ = read(self._control, end)
        return dict(json.loads(isolation.neutral(text)))

    @contextlib.contextmanager
    def check(self, check: Check, timeout: float) -> Iterator[Answer]:
        """Fork a process for an exercise: what the notebook has of it now.

        Args:
            check: the exercise.
            timeout: seconds on the wall for all of it.
        """
        channel, theirs = socket.socketpair()
        end = time.monotonic() + timeout
        with channel:
            with theirs, contextlib.suppress(OSError):  # it has ended
                send(self._control, end, check, theirs)
            slack = timeout / 3
            answer = Answer(
                channel, timeout, end, lambda: self._end_check(slack)
            )
            answer.undefined = answer.received().error
            yield answer

    def _end_check(self, slack: float) -> str:
        """End the process of a check in time; return how it had ended."""
        end = time.monotonic() + slack
        try:
            send(self._control, end, Cell(0, ""))
            return _how(int(self._said(end)["status"]))
        except Exception:  # it may send anything
            return f"ended with the notebook's, which {self.close()}"

    def close(self) -> str:
        """End the process and all of its own; return how it had ended."""
        self._control.close()
        said = b""
        with contextlib.suppress(OSError), self._lifetime_socket as lifetime:
            lifetime.shutdown(socket.SHUT_WR)
            lifetime.settimeout(20)
            said = lifetime.recv(64)
        return _how(int(said or b"0"))

    def __exit__(self, *_: object) -> None:
        self.close()


def _how(status: int) -> str:
    if status < 0:
        return f"was ended by signal {-status}"
    return f"ended by itself, with the status {status}: out of memory?"


class Died(OutOfTime):
    """The answer's process ended before it returned anything."""


@dataclass
class Answer:
    """The process that was forked at a check.

    Args:
        channel: carries cases in, and outcomes out.
        timeout: seconds on the wall for all of it.
        end: the time at which they are over.
        ended: ends the process, and returns how it had ended.
        error: why there are no more outcomes, once there is a reason.
        undefined: why there is no answer, if there is none.
    """

    channel: socket.socket
    timeout: float
    end: float
    ended: Callable[[], str]
    error: BaseException | None = None
    undefined: BaseException | None = None

    def run(self, _answer: Any, case: Case, **options: Any) -> Outcome:
        """Run the answer on a case there, as ``run.run`` does here."""
        limit = options.pop("clock", Clock()).limit
        return self.received((case, limit, options))

    def received(self, request: tuple[Any, ...] = ()) -> Outcome:
        """Return the next outcome, after a request if there is one."""
        if self.error is None:
            try:
                if request:
                    send(self.channel, self.end, request)
                text, data = read(self.channel, self.end)
                return decode(isolation.neutral(text), data)
            except TimeoutError:
                self.error = OutOfTime(
                    f"it was stopped after {self.timeout:.3g} s: is there "
                    "an endless loop?"
                )
            except (EOFError, OSError):
                self.error = Died(f"its process {self.ended()}")
            except WireError as error:
                self.error = Died(
                    f"what came back from its process is no result: {error}"
                )
        return Outcome(error=self.error)
