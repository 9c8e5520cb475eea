"""Fork a process for each notebook, where torch has been imported once.

For each message on its socket, which carries two others, the server forks a
guard; the guard forks the notebook's process into namespaces of its own, and
kills all that it has started when the examiner closes the second socket.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import platform
import random
import select
import shutil
import signal
import socket
import sys
import tempfile
from functools import cache
from typing import Any

import torch

from attn.grading.sandbox import limits, notebook
from attn.grading.sandbox.requests import receive
from attn.profiling import compat


def main(number: int) -> None:
    """Prepare what notebooks need; serve until this socket is closed."""
    torch.set_num_threads(1)
    # What PyTorch imports at the first backward, random tensor and module.
    x = torch.randn(2, 2, requires_grad=True)
    torch.nn.Linear(2, 2)(x).softmax(-1).sum().backward()
    torch.autograd.grad((x @ x).sum(), [x])
    vars(platform)["_uname_cache"] = None  # the machine's name
    shell = notebook.make_shell()
    _share()
    limits.protect()
    control = socket.socket(fileno=number)
    control.sendall(b"ready")
    while True:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # guards leave no trace
        try:
            (memory, imports), (channel, lifetime_socket) = receive(control)
        except EOFError:
            os._exit(0)  # to take PyTorch apart would take half a second
        with channel, lifetime_socket:
            for name in imports:
                _import(name)
            if os.fork() == 0:
                try:
                    control.close()
                    guard(channel, lifetime_socket, memory, shell)
                finally:
                    os._exit(1)


@cache
def _import(name: str) -> None:
    """Try once to import a module for all notebooks that follow."""
    with contextlib.suppress(ImportError):
        importlib.import_module(name)
        _share()


def _share() -> None:
    gc.collect()
    gc.freeze()  # no collection touches, and copies, what is shared


def guard(
    channel: socket.socket,
    lifetime_socket: socket.socket,
    memory: int,
    shell: Any,
) -> None:
    """Run a notebook's process; end all of its own with the socket."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    limits.protect()
    is_apart = limits.own_namespaces()
    assert is_apart or os.environ["KIND"] == "none"
    home = os.environ["HOME"]
    if not is_apart:
        home = tempfile.mkdtemp(dir=home)
        os.chmod(home, 0o777)
    child = os.fork()
    if child == 0:
        lifetime_socket.close()
        os.setsid()
        try:
            if is_apart:
                limits.own_mounts(home)
            else:
                limits.drop_root()
            _work(channel, memory, home, shell)
        finally:
            os._exit(1)
    channel.close()
    status = ended(child, lifetime_socket)
    if not is_apart:
        limits.end_descendants()
        shutil.rmtree(home, ignore_errors=True)
    with contextlib.suppress(OSError):
        lifetime_socket.sendall(str(status).encode())
    os._exit(0)


def ended(child: int, lifetime_socket: socket.socket) -> int:
    """Return the status of a child process, which ends with the socket."""
    while not (found := os.waitpid(child, os.WNOHANG))[0]:
        if select.select([lifetime_socket], [], [], 0.05)[0]:
            os.kill(child, signal.SIGKILL)
            found = os.waitpid(child, 0)
            break
    return os.waitstatus_to_exitcode(found[1])


def _work(channel: socket.socket, memory: int, home: str, shell: Any) -> None:
    """Become the process of a notebook."""
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    os.environ |= {"HOME": home, "TMPDIR": home}
    sys.breakpointhook = lambda *_, **__: None  # no terminal
    tempfile.tempdir = home
    os.chdir(home)
    random.seed(0)
    torch.manual_seed(0)
    # To print a tensor would leave the modes that watch.
    compat.keep_modes_while_printing()
    limits.apply(memory)
    notebook.Notebook(shell, channel).serve()
