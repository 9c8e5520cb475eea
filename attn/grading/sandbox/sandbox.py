"""Start the sandbox, a process for each notebook, a fork at each check."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from importlib import import_module
from multiprocessing import util
from pathlib import Path
from typing import Any

import cloudpickle

from attn.exercises import CHAPTERS
from attn.exercises.case import Case
from attn.grading.checks.clock import Clock, OutOfTime
from attn.grading.checks.run import Outcome
from attn.grading.sandbox import files, isolation, wire
from attn.grading.sandbox.limits import Limits
from attn.grading.sandbox.requests import (
    SIZE,
    Begin,
    Bind,
    Cell,
    Check,
    End,
    Use,
)
from attn.grading.sandbox.server import HOME

# What is not among the sandbox's files is sent by value: what launches a
# kernel, a mask, a function of an earlier chapter.
for _name in ("masks", "positions", *(f"exercises.{x}" for x in CHAPTERS)):
    cloudpickle.register_pickle_by_value(import_module(f"attn.{_name}"))

_START = 180.0  # seconds for the server's imports, on a busy machine
_SLACK = 20.0
_LINE = 1 << 17  # bytes of what a notebook's process says of a cell


class Died(OutOfTime):
    """The answer's process ended before it returned anything."""


class CellDied(Exception):
    """The notebook's process ended in a cell, or had to be ended.

    Args:
        cell: its number; 0 for the book's own text.
        statement: in the cell.
    """

    def __init__(self, cell: int, statement: int, why: str) -> None:
        super().__init__(why)
        self.cell, self.statement, self.why = cell, statement, why


@dataclass(frozen=True)
class Note:
    """An error that a statement of a cell raised."""

    statement: int
    kind: str
    text: str


class Sandbox:
    """An isolated server, from which notebooks' processes are forked.

    ``close()`` ends it; so does the end of this process.

    Args:
        kind: of isolation, a key of ``isolation.KINDS``.

    Raises:
        ValueError: this kind does not work here.
        RuntimeError: it did not start.
    """

    def __init__(self, kind: str = "bubblewrap") -> None:
        isolation.require(kind)
        self._folder = tempfile.TemporaryDirectory(prefix=files.PREFIX)
        folder = Path(self._folder.name)
        server = files.populate(folder)
        self._control, other = socket.socketpair()
        packages = [str(x) for x in isolation.packages()]
        argv = [sys.executable, "-I", "-S", "-B", str(server)]
        argv += [str(other.fileno()), str(folder), *packages]
        if kind == "bubblewrap":
            argv = isolation.command(
                argv, shown=[folder], hidden=[*files.answers(), folder / HOME]
            )
        self._process = subprocess.Popen(
            argv,
            pass_fds=[other.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={
                "PATH": os.defpath,
                "LANG": "C.UTF-8",
                "OMP_NUM_THREADS": "1",
            },
            start_new_session=True,
        )
        other.close()
        # At exit, too: a worker of multiprocessing runs no other hook.
        parts = (self._control, self._process, self._folder)
        self.close = util.Finalize(self, _end, parts, exitpriority=1)
        self._control.settimeout(_START)
        if self._control.recv(16) != b"ready":
            said = self._process.communicate()[1].decode(errors="replace")
            self.close()
            raise RuntimeError(f"the sandbox did not start: {said.strip()}")

    @property
    def is_open(self) -> bool:
        """True while it can start sessions."""
        return self._process.poll() is None

    def start_session(
        self, limits: Limits, imports: Iterable[str] = ()
    ) -> Session:
        """Start a process for one notebook.

        Args:
            limits: of the process, and of each that it forks.
            imports: modules to import before, for this and all later ones.
        """
        channel, theirs = socket.socketpair()
        lifetime_socket, other = socket.socketpair()
        request = {"limits": asdict(limits), "imports": [*imports]}
        with theirs, other:
            numbers = [theirs.fileno(), other.fileno()]
            text = json.dumps(request).encode()
            socket.send_fds(self._control, [text], numbers)
        return Session(channel, lifetime_socket)


def _end(
    control: socket.socket,
    process: subprocess.Popen[bytes],
    folder: tempfile.TemporaryDirectory[str],
) -> None:
    """End the server, and all that was forked from it."""
    control.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(5)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stderr:
        process.stderr.close()
    folder.cleanup()


class Session:
    """The process of one notebook, from its first cell to its last check.

    Args:
        control: carries requests in, and notes on the cells out.
        lifetime_socket: closing it ends the process, and all of its own.
    """

    def __init__(
        self, control: socket.socket, lifetime_socket: socket.socket
    ) -> None:
        self._control, self._lifetime_socket = control, lifetime_socket
        self._said = bytearray()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(
        self, request: Begin | Bind | Cell, slack: float = _SLACK
    ) -> tuple[list[Note], float]:
        """Run a cell, or the book's text; return its errors and seconds.

        Args:
            request: what to run.
            slack: seconds on the wall that it has beyond its own: it may
                import.

        Raises:
            CellDied: the process ended in it, or had to be ended.
        """
        cell = request if isinstance(request, Cell) else Cell(0, "")
        end = time.monotonic() + max(cell.left, cell.seconds) + slack
        at, spent = 0, 0.0
        try:
            self._send(request, end)
            while True:
                said = self._line(end)
                at = int(said.get("at", at))
                spent = float(said.get("spent", spent))
                if "notes" in said:
                    return [*map(_note, said["notes"])], spent
        except TimeoutError:
            self.close()
            why = "it did not end in time, and could not be interrupted"
        except (OSError, EOFError):
            why = f"its process {self.close()}"
        except (ValueError, TypeError, wire.WireError):
            self.close()
            why = "its process sent what is no note"
        raise CellDied(cell.number, at, why)

    @contextlib.contextmanager
    def check(
        self, name: str, form: str, given: dict[str, Any], timeout: float
    ) -> Iterator[Answer]:
        """Fork a process for an exercise: what the notebook has of it now.

        Args:
            name: of the function, class or kernel.
            form: ``function``, ``class`` or ``kernel``.
            given: names that the task gives.
            timeout: seconds on the wall for all of it.

        Raises:
            CellDied: the notebook's process has ended.
        """
        channel, theirs = socket.socketpair()
        end = time.monotonic() + timeout
        with channel:
            try:
                with theirs:
                    self._send(Check(name, form, given), end, theirs)
            except OSError:
                raise CellDied(0, 0, f"its process {self.close()}") from None
            yield Answer(channel, timeout, end, self._end_check)

    def _end_check(self) -> str:
        """End the process of a check; return how it had ended."""
        try:
            end = time.monotonic() + _SLACK
            self._send(End(), end)
            return _how(int(self._line(end)["status"]))
        except (OSError, EOFError, ValueError, TypeError, KeyError):
            return f"ended with the notebook's, which {self.close()}"

    def _send(
        self, request: Any, end: float, own: socket.socket | None = None
    ) -> None:
        body = cloudpickle.dumps(request, pickle.HIGHEST_PROTOCOL)
        self._control.settimeout(max(end - time.monotonic(), 0.001))
        head = SIZE.pack(len(body))
        socket.send_fds(self._control, [head], [own.fileno()] if own else [])
        self._control.sendall(body)

    def _line(self, end: float) -> dict[str, Any]:
        """Read one line of JSON, of bounded size."""
        while b"\n" not in self._said:
            self._control.settimeout(max(end - time.monotonic(), 0.001))
            part = self._control.recv(1 << 16)
            if not part:
                raise EOFError
            self._said += part
            if len(self._said) > _LINE:
                raise ValueError("its line is too long")
        line, _, rest = self._said.partition(b"\n")
        self._said = rest
        return dict(json.loads(files.neutral(line.decode("ascii"))))

    def close(self) -> str:
        """End the process and all of its own; return how it had ended."""
        self._control.close()
        said = b""
        with contextlib.suppress(OSError):
            self._lifetime_socket.shutdown(socket.SHUT_WR)
            self._lifetime_socket.settimeout(20)
            said = self._lifetime_socket.recv(64)
        self._lifetime_socket.close()
        return _how(int(said or b"0"))


class Answer:
    """The process that was forked at a check.

    Args:
        channel: carries cases in, and outcomes out.
        timeout: seconds on the wall for all of it.
        end: the time at which they are over.
        ended: ends the process, and returns how it had ended.

    Attributes:
        error: why there are no more outcomes, once there is a reason.
        undefined: why there is no answer, if there is none.
    """

    def __init__(
        self,
        channel: socket.socket,
        timeout: float,
        end: float,
        ended: Callable[[], str],
    ) -> None:
        self._channel, self._timeout, self._end = channel, timeout, end
        self._ended = ended
        self.error: BaseException | None = None
        self.undefined: BaseException | None = None

    def defined(self) -> Outcome:
        """Return an outcome without error, if there is an answer."""
        outcome = self._received()
        self.undefined = outcome.error
        return outcome

    def run(
        self,
        _answer: Any,
        case: Case,
        *,
        forbids: tuple[str, ...] = (),
        clock: Clock | None = None,
        launch: Callable[..., Any] | None = None,
        names: list[str] | tuple[str, ...] = (),
        fill_empty: bool = False,
    ) -> Outcome:
        """Run the answer on a case there, as ``run.run`` does here."""
        limit = (clock or Clock()).limit
        return self._received(
            Use(case, forbids, limit, launch, list(names), fill_empty)
        )

    def _received(self, request: Use | None = None) -> Outcome:
        if self.error is None:
            try:
                if request:
                    body = cloudpickle.dumps(request, pickle.HIGHEST_PROTOCOL)
                    left = max(self._end - time.monotonic(), 0.001)
                    self._channel.settimeout(left)
                    self._channel.sendall(SIZE.pack(len(body)) + body)
                return wire.receive(self._channel, self._end, files.neutral)
            except TimeoutError:
                self.error = OutOfTime(
                    f"it was stopped after {self._timeout:.3g} s: is there "
                    "an endless loop?"
                )
            except (EOFError, OSError):
                self.error = Died(f"its process {self._ended()}")
            except wire.WireError as error:
                self.error = Died(
                    f"what came back from its process is no result: {error}"
                )
        return Outcome(error=self.error)


def _note(said: Any) -> Note:
    statement, kind, text = said
    return Note(int(statement), wire.text_of(kind), wire.text_of(text))


def _how(status: int) -> str:
    if status < 0:
        return f"was ended by signal {-status}"
    return f"ended by itself, with the status {status}: out of memory?"
