"""Start the sandbox, and a process in it for each answer."""

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
from collections.abc import Callable
from dataclasses import asdict
from importlib import import_module
from multiprocessing import util
from pathlib import Path
from typing import Any

import cloudpickle

from attn.exercises import CHAPTERS
from attn.exercises.case import Case
from attn.grading.checks.clock import Clock, OutOfTime
from attn.grading.checks.run import Outcome
from attn.grading.sandbox import files, isolation, places, wire
from attn.grading.sandbox.limits import Limits
from attn.grading.sandbox.worker import SIZE, Task, Use

# What is not among the sandbox's files is sent by value: what launches a
# kernel, a mask, a function of an earlier chapter.
for _name in ("masks", "positions", *(f"exercises.{x}" for x in CHAPTERS)):
    cloudpickle.register_pickle_by_value(import_module(f"attn.{_name}"))

_START = 180.0  # seconds for the server's imports, on a busy machine


class Died(OutOfTime):
    """The answer's process ended before it returned anything."""


class Sandbox:
    """An isolated server, from which answers' processes are forked.

    ``close()`` ends it; so does the end of this process.

    Args:
        imports: modules that the answers of a chapter need, beside torch.
    """

    def __init__(self, *imports: str) -> None:
        self.isolation = isolation.KINDS[isolation.kind()]
        self._folder = tempfile.TemporaryDirectory(prefix=places.PREFIX)
        server = files.populate(Path(self._folder.name))
        self._control, other = socket.socketpair()
        packages = [str(x) for x in isolation.packages()]
        python = [sys.executable, "-I", "-S", "-B", str(server)]
        words = [str(other.fileno()), self._folder.name, *packages]
        self._process = subprocess.Popen(
            isolation.command(
                [*python, *words],
                shown=[Path(self._folder.name)],
                hidden=[*files.answers(), files.state_folder()],
            ),
            pass_fds=[other.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={
                "PATH": os.defpath,
                "LANG": "C.UTF-8",
                "HOME": "/nonexistent",
                "OMP_NUM_THREADS": "1",
                "ATTN_SANDBOX_IMPORTS": json.dumps(imports),
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

    def start_session(self, limits: Limits, timeout: float) -> Session:
        """Start a process for one answer."""
        channel, theirs = socket.socketpair()
        lifetime_socket, other = socket.socketpair()
        with theirs, other:
            request = json.dumps(asdict(limits)).encode()
            numbers = [theirs.fileno(), other.fileno()]
            socket.send_fds(self._control, [request], numbers)
        return Session(channel, lifetime_socket, timeout)


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
    """The process of one answer, from its definition to its last case.

    Args:
        channel: carries requests in, and outcomes out.
        lifetime_socket: closing it ends the process, and all of its own.
        timeout: seconds on the wall for all of it.
    """

    def __init__(
        self,
        channel: socket.socket,
        lifetime_socket: socket.socket,
        timeout: float,
    ) -> None:
        self._channel, self._timeout = channel, timeout
        self._lifetime_socket = lifetime_socket
        self._end = time.monotonic() + timeout
        self.ended: BaseException | None = None

    def define(self, task: Task) -> Outcome:
        """Define the answer; an error of its cell is in the outcome."""
        return self._ask(task)

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
        return self._ask(
            Use(case, forbids, limit, launch, list(names), fill_empty)
        )

    def _ask(self, request: Task | Use) -> Outcome:
        if self.ended is None:
            try:
                body = cloudpickle.dumps(request, pickle.HIGHEST_PROTOCOL)
                self._channel.settimeout(self._left())
                self._channel.sendall(SIZE.pack(len(body)) + body)
                return wire.receive(self._channel, self._end, places.neutral)
            except TimeoutError:
                self.ended = OutOfTime(
                    f"it was stopped after {self._timeout:.3g} s: is there "
                    "an endless loop?"
                )
            except (EOFError, OSError):
                self.ended = Died(f"its process {self.close()}")
            except wire.WireError as error:
                self.ended = Died(
                    f"what came back from its process is no result: {error}"
                )
        return Outcome(error=self.ended)

    def _left(self) -> float:
        return max(self._end - time.monotonic(), 0.001)

    def close(self) -> str:
        """End the process and all of its own; return how it had ended."""
        self._channel.close()
        said = b""
        with contextlib.suppress(OSError):
            self._lifetime_socket.shutdown(socket.SHUT_WR)
            self._lifetime_socket.settimeout(20)
            said = self._lifetime_socket.recv(64)
        self._lifetime_socket.close()
        number = int(said or b"0")
        if number < 0:
            return f"was ended by signal {-number}"
        return f"ended by itself, with the status {number}: out of memory?"
