"""Run jobs in processes of their own, so that one may crash or hang alone.

A kernel can take its process with it: an illegal access, a compiler that
aborts or never ends. A ``Worker`` makes a reason of each, and the other jobs
go on.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

__all__ = ["Outcome", "Worker", "attempt", "run_all"]

Job = Callable[..., Any]


class Outcome(NamedTuple):
    """What became of a job: its value, or why there is none."""

    value: Any = None
    error: str | None = None
    healthy: bool = True  # the process can take another job


class Worker:
    """A process that does one job after another."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._log = tempfile.NamedTemporaryFile(  # noqa: SIM115 until stop()
            "r", errors="replace"
        )
        self.pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(theirs, self._log.name), daemon=True
        )
        self._process.start()
        theirs.close()
        self.deadline = 0.0

    def begin(self, job: Job, *arguments: Any, seconds: float) -> None:
        """Start a job, which is stopped after so many seconds."""
        self.deadline = time.monotonic() + seconds
        self._seconds = seconds
        with contextlib.suppress(OSError):  # it died idle: outcome() tells
            self.pipe.send((job, arguments))

    def outcome(self) -> Outcome:
        """Wait for the job's end; a process that died or hung is stopped."""
        left = max(0.0, self.deadline - time.monotonic())
        if self.pipe.closed:
            return Outcome(error="the process was stopped", healthy=False)
        if not self.pipe.poll(left):
            self.stop()
            error = f"stopped after {self._seconds:.3g} s"
            return Outcome(error=error, healthy=False)
        try:
            done: Outcome = self.pipe.recv()
        except (EOFError, OSError):
            self._process.join(5)
            done = Outcome(error=self._last_words(), healthy=False)
        if not done.healthy:
            self.stop()
        return done

    def stop(self) -> None:
        """End the process, and wait until it is gone."""
        self.kill()
        self._process.join(5)
        self.pipe.close()
        self._log.close()

    def kill(self) -> None:
        """End the process, with the compilers that it started."""
        if self._process.is_alive() and self._process.pid:
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except ProcessLookupError:  # it has not made its group yet
                self._process.kill()

    def _last_words(self) -> str:
        code = self._process.exitcode
        how = f"exit code {code}"
        if code is not None and code < 0:
            how = signal.Signals(-code).name
        said = " ".join(self._log.read()[-1000:].split())[-300:]
        return f"the process died ({how}) {said}".rstrip()


def run_all(
    job: Job,
    arguments: Iterable[Any],
    *,
    hands: int,
    seconds: float,
    until: float,
) -> Iterator[tuple[Any, Outcome]]:
    """Run a job on each argument, several at a time.

    Args:
        job: a function of a module, of one argument.
        arguments: the most important first.
        hands: processes; with 0, everything happens in this one.
        seconds: limit of one job.
        until: ``time.monotonic()`` from which none is started, and at which
            all are stopped.

    Yields:
        An argument and its outcome, in the order in which jobs end. Jobs that
        were never started, or were stopped ``until``, are not there.
    """
    waiting = deque(arguments)
    if not hands:
        while waiting and time.monotonic() < until:
            argument = waiting.popleft()
            yield argument, attempt(job, argument)
        return
    idle: list[Worker] = []
    busy: dict[Worker, Any] = {}
    try:
        while True:
            while waiting and len(busy) < hands:
                left = until - time.monotonic()
                if left <= 0:
                    break
                worker = idle.pop() if idle else Worker()
                busy[worker] = argument = waiting.popleft()
                worker.begin(job, argument, seconds=min(seconds, left))
            if not busy:
                return
            soonest = min(worker.deadline for worker in busy)
            left = max(0.0, soonest - time.monotonic())
            ready = wait([worker.pipe for worker in busy], left)
            now = time.monotonic()
            for worker in list(busy):
                if worker.pipe in ready or worker.deadline <= now:
                    argument = busy.pop(worker)
                    done = worker.outcome()
                    if done.healthy:
                        idle.append(worker)
                    if done.error is None or now < until:
                        yield argument, done
    finally:
        for worker in (*idle, *busy):
            worker.kill()
        for worker in (*idle, *busy):
            worker.stop()


def attempt(job: Job, *arguments: Any) -> Outcome:
    """Run a job here; an error becomes a reason."""
    try:
        value = job(*arguments)
        _settle()
    except Exception as error:
        text = " ".join(str(error).split())[:300]
        return Outcome(None, f"{type(error).__name__}: {text}", _healthy())
    return Outcome(value)


def _healthy() -> bool:
    """Tell whether the GPU still answers: some errors never go away."""
    try:
        _settle()
    except Exception:
        return False
    return True


def _settle() -> None:
    """Wait for the GPU, where its errors come to light."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.synchronize()


def _serve(pipe: Connection, log: str) -> None:
    os.setpgrp()  # stopping a worker stops what it started
    said = os.open(log, os.O_WRONLY | os.O_APPEND)
    os.dup2(said, 1)
    os.dup2(said, 2)
    while True:
        try:
            job, arguments = pipe.recv()
        except EOFError:
            return
        done = attempt(job, *arguments)
        pipe.send(done)
        if not done.healthy:
            return
