"""The process of one rank: it works, reports, and answers its parent."""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import os
import pickle
import shutil
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

START = 120.0  # seconds, at most, until all ranks have begun their work
_WAITING = str(Path(dist.__file__).parent)


class Report(NamedTuple):
    """The end of a rank's work; ``value`` is the result, pickled."""

    value: bytes | None
    printed: str
    error: str = ""
    trace: str = ""


class Where(NamedTuple):
    """A rank's place in its work, and whether it waits for others."""

    waits: bool
    text: str
    printed: str
    seconds: float  # of CPU time


def serve(
    pipe: Connection,
    work: tuple[Callable[..., Any], tuple[Any, ...]] | bytes,
    rank: int,
    world_size: int,
    store: str,
    timeout: float,
) -> None:
    """Be one rank: do the work, report, and stay until all have ended."""
    torch.set_num_threads(1)  # first: OpenMP's threads do not survive a fork
    fn, args = pickle.loads(work) if isinstance(work, bytes) else work
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its ranks
    talk = threading.Lock()
    main = threading.get_ident()
    printed = io.StringIO()
    threading.Thread(
        target=_answer,
        args=(pipe, talk, main, fn, printed, store),
        daemon=True,
    ).start()
    with (
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
    ):
        try:
            _use_loopback()
            dist.init_process_group(
                "gloo",
                init_method=f"file://{store}",
                rank=rank,
                world_size=world_size,
                # The parent's limit comes first, and it can name a rank.
                timeout=timedelta(seconds=START + 2 * timeout),
            )
            with talk:  # the parent's limit begins now
                pipe.send_bytes(pickle.dumps(Where(False, "", "", 0.0)))
            value = _pickled(fn(rank, *args))
            report = Report(value, printed.getvalue())
        except BaseException as error:
            words = "".join(traceback.format_exception_only(error)).strip()
            trace = "".join(traceback.format_exception(error))
            report = Report(None, printed.getvalue(), words, trace)
    with talk:
        pipe.send_bytes(pickle.dumps(report))
    # Connections stay open: a closed one is an error to a slower neighbour.
    threading.Event().wait()


def _answer(
    pipe: Connection,
    talk: threading.Lock,
    main: int,
    fn: Callable[..., Any],
    printed: io.StringIO,
    store: str,
) -> None:
    """Answer the parent with the place of the rank; end with it."""
    parent = multiprocessing.parent_process()
    while parent is not None:
        ready = wait([pipe, parent.sentinel])
        if parent.sentinel in ready:
            break
        try:
            pipe.recv_bytes()
        except (EOFError, OSError):
            break
        waits, text = _place(sys._current_frames()[main], fn)
        place = Where(waits, text, printed.getvalue(), time.process_time())
        with talk:
            pipe.send_bytes(pickle.dumps(place))
    # The parent was killed, and has not removed its folder.
    shutil.rmtree(os.path.dirname(store), ignore_errors=True)
    os._exit(1)


def _place(frame: Any, fn: Callable[..., Any]) -> tuple[bool, str]:
    """Return whether a rank waits for others, and the line of its work."""
    stack = traceback.extract_stack(frame)
    home = getattr(getattr(fn, "__code__", None), "co_filename", None)
    own = [x for x in stack if x.filename == home] or stack
    now = stack[-1]
    return (
        now.filename.startswith(_WAITING) or ".wait(" in (now.line or ""),
        f"in {own[-1].name}, line {own[-1].lineno}",
    )


def _pickled(value: Any) -> bytes:
    """Return the result as bytes: a shared tensor would end with its rank."""
    try:
        return pickle.dumps(value)
    except Exception as error:
        raise TypeError(
            "a rank must return what pickle takes, tensors or plain data; got "
            f"{type(value).__name__}: {error}"
        ) from error


def _use_loopback() -> None:
    """Let gloo talk on this machine only, whatever the host's name says."""
    names = {name for _, name in socket.if_nameindex()}
    for name in ("lo", "lo0"):
        if name in names:
            os.environ.setdefault("GLOO_SOCKET_IFNAME", name)
