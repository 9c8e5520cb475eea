"""Import torch once, isolated, and fork a process for each notebook.

Run as a file, ``python -I -S server.py CONTROL FOLDER PACKAGES…``: the number
of a socket that is open already, the folder of the sandbox's files, the
folders of installed packages. For each message on the socket, which carries
two others, it forks a guard; the guard forks the notebook's process into
namespaces of its own, and kills all that it has started when the examiner
closes the second socket.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import platform
import random
import select
import shutil
import signal
import socket
import sys
import tempfile
from typing import Any

HOME = "home"
"""In the sandbox's folder: where a notebook may write."""


def main(words: list[str]) -> None:
    """Serve until the control socket is closed."""
    folder, packages = words[1], words[2:]
    sys.path[:] = [x for x in sys.path if x] + packages
    sys.path[0] = folder  # in place of this file's folder
    home = os.path.join(folder, HOME)
    # The compilers of PyTorch, and its bars, are switched off.
    os.environ |= {"TORCHDYNAMO_DISABLE": "1", "PYTORCH_JIT": "0"}
    os.environ |= {"MPLBACKEND": "agg", "TQDM_DISABLE": "1"}
    os.environ |= {"TRITON_INTERPRET": "1", "HOME": home, "TMPDIR": home}
    tempfile.tempdir = home
    shell = _prepare()
    from attn.grading.sandbox.limits import hide_memory

    hide_memory()
    control = socket.socket(fileno=int(words[0]))
    control.sendall(b"ready")
    while True:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # guards leave no trace
        text, sockets, _, _ = socket.recv_fds(control, 4096, 2)
        if not text:
            os._exit(0)  # to take PyTorch apart would take half a second
        request = json.loads(text)
        _import(request["imports"])
        channel, lifetime_socket = (socket.socket(fileno=x) for x in sockets)
        if os.fork() == 0:
            control.close()
            try:
                guard(channel, lifetime_socket, request["limits"], home, shell)
            finally:
                os._exit(1)
        channel.close()
        lifetime_socket.close()


def _import(names: list[str]) -> None:
    """Import what is not imported yet, for all notebooks that follow."""
    new = [x for x in names if x not in sys.modules]
    for name in new:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    if new:
        gc.collect()
        gc.freeze()  # no collection touches, and copies, what is shared


def _prepare() -> Any:
    """Import what every notebook needs; return an IPython shell."""
    import torch

    import attn.grading.sandbox.worker  # noqa: F401
    from attn.exercises import triton_compat  # noqa: F401
    from attn.grading.sandbox import notebook

    torch.set_num_threads(1)
    # What PyTorch imports at the first backward, random tensor and module.
    x = torch.randn(2, 2, requires_grad=True)
    torch.nn.Linear(2, 2)(x).softmax(-1).sum().backward()
    torch.autograd.grad((x @ x).sum(), [x])
    vars(platform)["_uname_cache"] = None  # the machine's name
    shell = notebook.make_shell()
    _import(["cloudpickle", "attn.exercises.kernel"])
    return shell


def guard(
    channel: socket.socket,
    lifetime_socket: socket.socket,
    bounds: dict[str, Any],
    home: str,
    shell: Any,
) -> None:
    """Run a notebook's process; end all of its own with the socket."""
    from attn.grading.sandbox import limits

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    limits.show_memory()
    is_apart = limits.own_namespaces()
    limits.hide_memory()
    if not is_apart:
        limits.adopt_orphans()
        home = tempfile.mkdtemp(dir=home)
        os.chmod(home, 0o777)
    child = os.fork()
    if child == 0:
        lifetime_socket.close()
        os.setsid()
        try:
            if is_apart:
                limits.read_only()
                limits.own_folder(home, 16 << 20)
                limits.own_folder("/dev/shm", 64 << 20)
                limits.drop_capabilities()
            else:
                limits.drop_root()
            _work(channel, limits.Limits(**bounds), home, shell)
        finally:
            os._exit(1)
    channel.close()
    wait(child, lifetime_socket)
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if not is_apart:
        limits.end_descendants()
        shutil.rmtree(home, ignore_errors=True)
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


def _work(channel: socket.socket, limits: Any, home: str, shell: Any) -> None:
    """Become the process of a notebook."""
    import torch

    from attn.grading.sandbox.notebook import Notebook
    from attn.profiling import compat

    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    os.environ |= {"HOME": home, "TMPDIR": home}
    tempfile.tempdir = home
    os.chdir(home)
    random.seed(0)
    torch.manual_seed(0)
    # To print a tensor would leave the modes that watch.
    compat.keep_modes_while_printing()
    limits.apply()
    Notebook(shell, channel).serve()


if __name__ == "__main__":
    main(sys.argv[1:])
