"""Run chapters by nbval in the jail, each in a fork of one warm process.

``stage.py`` starts it, and sends lines of JSON over the socket that is its
standard input: how many seconds, and the file that holds the task, which this
process leaves to a fork, so that no later chapter finds it in its memory. Each
has process, file and user namespaces of its own where the system allows it.
Its first process starts pytest and the kernel, kills all others when pytest
has ended or its time is up, and only then reads what pytest has counted.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import socket
import stat
import struct
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import psutil

from attn.grading.classroom import stand_in
from attn.grading.sandbox import limits, privileges
from attn.publishing import prefork

MOST_CELLS = 2000
MOST_MEMORY = 4 << 30  # bytes, of all processes together
MOST_FILES = 256 << 20  # bytes, in memory
MOST_PROCESSES = 40
_GRACE = 20.0  # seconds to end a chapter, after its time is up
_LOOK = 0.1  # seconds between two looks at memory and processes


def main() -> None:
    """Serve until the socket is closed."""
    control = socket.socket(fileno=os.dup(0))
    for name in ("session", "progress_table"):
        sys.modules[f"attn.grading.{name}"] = stand_in
    prefork.load()
    prefork.freeze()
    limits.adopt_orphans()
    limits.hide_memory()
    control.sendall(b"ready\n")
    for line in control.makefile("rb"):
        answer = _chapter(**json.loads(line), control=control)
        control.sendall(json.dumps(answer).encode() + b"\n")
    _end()


def _end() -> NoReturn:
    """Leave nothing: the one that started this process may be gone."""
    limits.end_descendants()
    shutil.rmtree(os.environ["HOME"], ignore_errors=True)
    os._exit(0)


def _chapter(task: str, seconds: float, control: socket.socket) -> Any:
    """Run one chapter; return what its first process reports, or None."""
    folder = tempfile.mkdtemp()
    read, write = os.pipe()
    guard = os.fork()
    if guard == 0:
        os.close(read)
        os.close(control.detach())  # close() leaves it to the reader of lines
        _end_with(_guard, task, seconds, folder, write)
    os.close(write)
    try:
        return _reported(read, control, seconds + _GRACE)
    finally:
        os.close(read)
        with contextlib.suppress(ProcessLookupError):
            os.kill(guard, signal.SIGKILL)
        os.waitpid(guard, 0)
        limits.end_descendants()
        shutil.rmtree(folder, ignore_errors=True)


def _end_with(function: Callable[..., None], *args: Any) -> NoReturn:
    """Run a function as all that is left of this process."""
    try:
        function(*args)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


def _reported(read: int, control: socket.socket, seconds: float) -> Any:
    """Read a report; None if it does not come, or is none."""
    streams = [read, control.fileno()]
    ready, _, _ = select.select(streams, [], [], seconds)
    if control.fileno() in ready:  # closed: nothing else is sent meanwhile
        _end()
    try:
        return json.loads(os.read(read, 2 * MOST_CELLS)) if ready else None
    except ValueError:
        return None


def _guard(task: str, seconds: float, folder: str, write: int) -> None:
    """Start the first process of namespaces of its own."""
    limits.show_memory()
    limits.own_namespaces(network=True)
    first = os.fork()
    if first == 0:
        _end_with(_first, task, seconds, folder, write)
    os.close(write)
    os.waitpid(first, 0)
    os._exit(0)


def _first(task: str, seconds: float, folder: str, write: int) -> None:
    """Run pytest on a chapter, and report how it ended."""
    is_apart = os.getpid() == 1
    try:
        _confine(folder, is_apart)
    except OSError:
        _report(write, "jail", "")
        raise
    os.chdir(folder)
    _write_files(json.loads(Path(task).read_bytes()))
    limits.Limits(seconds=int(seconds) + 5, processes=200).apply()
    listeners = prefork.listen("warm")
    user = socket.socket(socket.AF_UNIX)
    user.connect(prefork.users("warm"))
    if os.fork() == 0:
        os.close(write)
        user.close()
        prefork.serve(*listeners)
    pytest = os.fork()
    if pytest == 0:
        os.close(write)
        _pytest()
    end = _watch(pytest, seconds, is_apart)
    _end_all(is_apart)
    _report(write, end, _counted())
    os._exit(0)


def _confine(folder: str, is_apart: bool) -> None:
    """Leave this process a folder in memory, and nothing else to write.

    Raises:
        OSError: the system has no namespaces for it, and it is root.
    """
    os.setsid()
    if is_apart:
        _loopback_up()
        limits.read_only()
        privileges.own_folder(folder, MOST_FILES)
        privileges.own_folder("/dev/shm", MOST_FILES)
        privileges.give_up()
    elif os.geteuid() == 0:
        raise PermissionError("root without namespaces is not held back")
    limits.adopt_orphans()
    limits.hide_memory()
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)


def _loopback_up() -> None:
    """Switch 127.0.0.1 on, by which pytest and the kernel talk."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        up = struct.pack("16sH14x", b"lo", 1)
        fcntl.ioctl(any_socket, 0x8914, up)  # SIOCSIFFLAGS


def _report(write: int, end: str | int, cells: str) -> None:
    """Send how a chapter ended, in one piece: a pipe's least is 4096."""
    os.write(write, json.dumps({"end": end, "cells": cells}).encode())


def _write_files(task: dict[str, str]) -> None:
    """Write the chapter and all else that its processes read."""
    here = Path.cwd()
    client = ["-I", "-S", prefork.__file__, "run", str(here / "warm")]
    launch = ["ipykernel_launcher", "-f", "{connection_file}"]
    argv = [sys.executable, *client, *launch]
    spec = {"argv": argv, "display_name": "warm", "language": "python"}
    kernel = here / "share/kernels/warm/kernel.json"
    kernel.parent.mkdir(parents=True)
    kernel.write_text(json.dumps(spec))
    for name, text in task.items():
        (here / name).write_bytes(text.encode("utf-8", "replace"))
        (here / name).chmod(0o444)
    home = here / "home"
    home.mkdir()
    os.environ |= dict.fromkeys(("HOME", "TMPDIR", "MPLCONFIGDIR"), str(home))
    os.environ |= {
        "IPYTHONDIR": str(home),
        "JUPYTER_PATH": str(here / "share"),
        "JUPYTER_RUNTIME_DIR": str(home),
        stand_in.MARKS: str(here / "marks.json"),
    }
    tempfile.tempdir = None


class _Counter:
    """A pytest plugin that writes a letter for each cell that has run."""

    letters = {"passed": b".", "skipped": b"s", "failed": b"F"}

    def __init__(self) -> None:
        self.file = os.open("cells", os.O_WRONLY | os.O_CREAT)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "teardown":
            return
        if report.when == "call" or not report.passed:
            letter = self.letters[report.outcome]
            if hasattr(report, "wasxfail"):  # nbval, after a time-out
                letter = b"F"
            if "the kernel died" in report.longreprtext:
                letter = b"K"
            os.write(self.file, letter)


def _pytest() -> None:
    """Be ``pytest --nbval`` on the chapter."""
    import pytest

    options = "--nbval --nbval-kernel-name warm -q --tb=line -c /dev/null"
    options += " -p no:cacheprovider -p no:xdist --rootdir . notebook.ipynb"
    status = 70
    try:
        status = int(pytest.main(options.split(), plugins=[_Counter()]))
    finally:
        os._exit(status)


def _watch(pytest: int, seconds: float, is_apart: bool) -> str | int:
    """Wait for pytest; return its status, or why it was not waited for."""
    last = time.monotonic() + seconds
    ended = os.pidfd_open(pytest)
    usual = _resident("self")
    while not select.select([ended], [], [], _LOOK)[0]:
        if time.monotonic() > last:
            return "time"
        if is_apart:
            processes = [x for x in os.listdir("/proc") if x.isdigit()]
        else:
            below = psutil.Process().children(recursive=True)
            processes = [str(x.pid) for x in below]
        own = [_resident(x) for x in processes]
        if len(own) > MOST_PROCESSES:
            return "processes"
        if sum(max(0, x - usual) for x in own) > MOST_MEMORY:
            return "memory"
    return os.waitstatus_to_exitcode(os.waitpid(pytest, 0)[1])


def _end_all(is_apart: bool) -> None:
    """Kill all other processes, and wait until they are gone."""
    if not is_apart:
        limits.end_descendants()
        return
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()


def _resident(process: str) -> int:
    """Return the bytes of a process in memory, those it shares included."""
    try:
        pages = Path(f"/proc/{process}/statm").read_text().split()[1]
    except (OSError, IndexError):  # it has ended
        return 0
    return int(pages) * os.sysconf("SC_PAGESIZE")


def _counted() -> str:
    """Read the letters that pytest has written, if that is what they are."""
    try:
        file = os.open("cells", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        about = os.fstat(file)
        if stat.S_ISREG(about.st_mode) and about.st_size <= MOST_CELLS:
            return os.read(file, MOST_CELLS).decode("ascii")
    except (OSError, ValueError):
        pass
    return "?"


if __name__ == "__main__":
    main()
