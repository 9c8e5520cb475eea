"""Import torch once, isolated, and fork a process for each answer.

Run as a file, ``python -I -S server.py CONTROL FOLDER PACKAGES…``: the number
of a socket that is open already, the folder of the sandbox's files, the
folders of installed packages. For each message on the socket, which carries
two others, it forks a guard; the guard forks the worker into namespaces of its
own, and kills all that the worker has started when the judge closes the second
socket.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import platform
import select
import signal
import socket
import sys
import tempfile
from typing import Any


def main(words: list[str]) -> None:
    """Serve until the control socket is closed."""
    folder, packages = words[1], words[2:]
    sys.path[:] = [x for x in sys.path if x] + packages
    sys.path[0] = folder  # in place of this file's folder
    os.environ["TRITON_INTERPRET"] = "1"
    tempfile.tempdir = "/tmp"  # no trial of which can be written
    _import(json.loads(os.environ.get("ATTN_SANDBOX_IMPORTS", "[]")))
    from attn.grading.sandbox.limits import hide_memory

    hide_memory()
    gc.collect()
    gc.freeze()  # so that no collection touches, and copies, what is shared
    control = socket.socket(fileno=int(words[0]))
    control.sendall(b"ready")
    while True:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # guards leave no trace
        text, sockets, _, _ = socket.recv_fds(control, 4096, 2)
        if not text:
            os._exit(0)  # to take PyTorch apart would take half a second
        channel, lifetime_socket = (socket.socket(fileno=x) for x in sockets)
        if os.fork() == 0:
            control.close()
            try:
                guard(
                    channel,
                    lifetime_socket,
                    json.loads(text),
                    [folder, *packages],
                )
            finally:
                os._exit(1)
        channel.close()
        lifetime_socket.close()


def _import(names: list[str]) -> None:
    import importlib

    import torch

    import attn.grading.sandbox.worker  # noqa: F401
    from attn.exercises import triton_compat  # noqa: F401

    torch.set_num_threads(1)
    for name in ["cloudpickle", "attn.exercises.kernel", *names]:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    # What PyTorch imports at the first backward, random tensor and module.
    x = torch.randn(2, 2, requires_grad=True)
    torch.nn.Linear(2, 2)(x).softmax(-1).sum().backward()
    torch.autograd.grad((x @ x).sum(), [x])
    vars(platform)["_uname_cache"] = None  # the machine's name


def guard(
    channel: socket.socket,
    lifetime_socket: socket.socket,
    bounds: dict[str, Any],
    readable: list[str],
) -> None:
    """Run a worker; end it, and all of its processes, with the socket."""
    from attn.grading.sandbox import limits

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    limits.show_memory()
    is_apart = limits.own_namespaces(network=True)
    limits.hide_memory()
    if not is_apart:
        limits.adopt_orphans()
    worker = os.fork()
    if worker == 0:
        lifetime_socket.close()
        os.setsid()
        try:
            if is_apart:
                limits.read_only()
                limits.drop_capabilities()
            else:
                limits.drop_root()
            _work(channel, limits.Limits(**bounds), readable)
        finally:
            os._exit(1)
    channel.close()
    wait(worker, lifetime_socket)
    with contextlib.suppress(ProcessLookupError):
        os.kill(worker, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1])
    if not is_apart:
        limits.end_descendants()
    with contextlib.suppress(OSError):
        lifetime_socket.sendall(str(status).encode())
    os._exit(0)


def wait(child: int, lifetime_socket: socket.socket) -> None:
    """Wait until a child process has ended, or the socket is closed."""
    if hasattr(os, "pidfd_open"):
        ended = os.pidfd_open(child)
        select.select([ended, lifetime_socket.fileno()], [], [])
        return
    import psutil  # macOS

    process = psutil.Process(child)
    while process.status() != psutil.STATUS_ZOMBIE:
        if select.select([lifetime_socket], [], [], 0.05)[0]:
            return


def _work(channel: socket.socket, limits: Any, readable: list[str]) -> None:
    """Become the process in which an answer runs."""
    from attn.grading.sandbox import worker
    from attn.grading.sandbox.watch import Watch

    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    os.chdir("/")
    worker.prepare()
    paths = [*readable, sys.prefix, sys.base_prefix]
    paths += [os.path.realpath(x) for x in paths]
    watch = Watch([*paths, "/usr/lib", "/usr/share", "/proc/self/"])
    watch.freeze()
    watch.install()
    limits.apply()
    worker.serve(channel, watch)
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
