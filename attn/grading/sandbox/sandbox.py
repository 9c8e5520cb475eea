"""Start the sandbox: it imports PyTorch while its examiner does."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from multiprocessing import util
from pathlib import Path
from typing import TYPE_CHECKING

from attn.grading.sandbox import isolation

if TYPE_CHECKING:
    from attn.grading.sandbox.session import Session

_START = 180.0  # seconds for the server's imports, on a busy machine
_SERVER = """
import sys
sys.path[:] = [sys.argv[2], *sys.path, *sys.argv[3:]]
from attn.grading.sandbox.server import main
main(int(sys.argv[1]))
"""
#: The compilers of PyTorch, and its bars, are switched off.
_ENVIRONMENT = {
    "LANG": "C.UTF-8",
    "MPLBACKEND": "agg",
    "OMP_NUM_THREADS": "1",
    "PATH": os.defpath,
    "PYTORCH_JIT": "0",
    "TORCHDYNAMO_DISABLE": "1",
    "TQDM_DISABLE": "1",
    "TRITON_INTERPRET": "1",
}


class Sandbox:
    """An isolated server, from which notebooks' processes are forked.

    ``close()`` ends it; so does the end of this process.

    Args:
        kind: of isolation, a key of ``isolation.KINDS``.

    Raises:
        ValueError: this kind does not work here.
    """

    def __init__(self, kind: str = "bubblewrap") -> None:
        isolation.require(kind)
        self._is_ready = False
        self._folder = tempfile.TemporaryDirectory(prefix=isolation.PREFIX)
        folder = Path(self._folder.name)
        home = str(isolation.populate(folder))
        self._control, other = socket.socketpair()
        words = [sys.executable, "-I", "-S", "-B", "-c", _SERVER]
        words += map(str, (other.fileno(), folder, *isolation.packages()))
        if kind != "none":
            words = isolation.command(words, folder)
        with other:
            self._process = subprocess.Popen(
                words,
                pass_fds=[other.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env=_ENVIRONMENT
                | {"HOME": home, "TMPDIR": home, "KIND": kind},
                start_new_session=True,
            )
        # At exit, too: a worker of multiprocessing runs no other hook.
        parts = (self._control, self._process, self._folder)
        self.close = util.Finalize(self, _end, parts, exitpriority=1)

    def wait(self) -> None:
        """Wait until it has imported what notebooks need.

        Raises:
            RuntimeError: it did not start.
        """
        if self._is_ready:
            return
        self._control.settimeout(_START)
        if self._control.recv(16) != b"ready":
            said = self._process.communicate()[1].decode(errors="replace")
            self.close()
            raise RuntimeError(f"the sandbox did not start: {said.strip()}")
        self._is_ready = True

    @property
    def is_open(self) -> bool:
        """True until it ends."""
        return self._process.poll() is None

    def start_session(
        self, memory: int = 4 << 30, imports: Iterable[str] = ()
    ) -> Session:
        """Start a process for one notebook.

        Args:
            memory: bytes that it may have, and each that it forks.
            imports: modules to import before, for this and all later ones.
        """
        from attn.grading.sandbox.requests import send
        from attn.grading.sandbox.session import Session

        self.wait()
        channel, theirs = socket.socketpair()
        lifetime_socket, other = socket.socketpair()
        request, end = (memory, [*imports]), time.monotonic() + _START
        with theirs, other:
            send(self._control, end, request, theirs, other)
        return Session(channel, lifetime_socket)


def _end(
    control: socket.socket,
    process: subprocess.Popen[bytes],
    folder: tempfile.TemporaryDirectory[str],
) -> None:
    """End the server, and all that was forked from it."""
    control.close()
    with process:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    folder.cleanup()
