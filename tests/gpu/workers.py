"""Run jobs in separate processes, so that a crash or a hang stays alone.

A kernel can end its process: an illegal access, a compiler that aborts or
never returns. A ``Worker`` turns each into a reason, and other jobs go on.
"""

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

Job = Callable[..., Any]


class Outcome(NamedTuple):
    """A job's value, or the reason why it has none."""

    value: Any = None
    error: str | None = None
    healthy: bool = True  # the process can run another job


class Worker:
    """A process that runs one job after another."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._log = tempfile.NamedTemporaryFile(  # noqa: SIM115 until stop()
            "r", errors="replace"
        )
        self.pipe, child = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(child, self._log.name), daemon=True
        )
        self._process.start()
        child.close()
        self.deadline = 0.0

    def begin(self, job: Job, *arguments: Any, seconds: float) -> None:
        """Start a job with a time limit."""
        self.deadline = time.monotonic() + seconds
        self._seconds = seconds
        with contextlib.suppress(OSError):  # outcome() reports a dead process
            self.pipe.send((job, arguments))

    def outcome(self) -> Outcome:
        """Wait for the job; stop a process that died or exceeds its limit."""
        left = max(0.0, self.deadline - time.monotonic())
        if self.pipe.closed:
            return Outcome(error="the process was stopped", healthy=False)
        if not self.pipe.poll(left):
            self.stop()
            error = f"stopped after {self._seconds:.3g} s"
            return Outcome(error=error, healthy=False)
        try:
            outcome: Outcome = self.pipe.recv()
        except (EOFError, OSError):
            self._process.join(5)
            outcome = Outcome(error=self._cause_of_death(), healthy=False)
        if not outcome.healthy:
            self.stop()
        return outcome

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
            except ProcessLookupError:  # it has no group of its own yet
                self._process.kill()

    def _cause_of_death(self) -> str:
        code = self._process.exitcode
        cause = f"exit code {code}"
        if code is not None and code < 0:
            cause = signal.Signals(-code).name
        output = " ".join(self._log.read()[-1000:].split())[-300:]
        return f"the process died ({cause}) {output}".rstrip()


def run_all(
    job: Job,
    arguments: Iterable[Any],
    *,
    processes: int,
    seconds: float,
    until: float,
) -> Iterator[tuple[Any, Outcome]]:
    """Run a job on each argument, several at a time.

    Args:
        job: a module's function of one argument.
        arguments: the most important first.
        processes: how many; 0 runs everything in this process.
        seconds: limit of one job.
        until: ``time.monotonic()`` at which all jobs are stopped.

    Yields:
        An argument and its outcome, in the order in which jobs end. Jobs that
        are not done by ``until`` are left out.
    """
    waiting = deque(arguments)
    if not processes:
        while waiting and time.monotonic() < until:
            argument = waiting.popleft()
            yield argument, attempt(job, argument)
        return
    idle: list[Worker] = []
    busy: dict[Worker, Any] = {}
    try:
        while True:
            while waiting and len(busy) < processes:
                left = until - time.monotonic()
                if left <= 0:
                    break
                worker = idle.pop() if idle else Worker()
                busy[worker] = argument = waiting.popleft()
                worker.begin(job, argument, seconds=min(seconds, left))
            if not busy:
                return
            first = min(worker.deadline for worker in busy)
            left = max(0.0, first - time.monotonic())
            ready = wait([worker.pipe for worker in busy], left)
            now = time.monotonic()
            for worker in list(busy):
                if worker.pipe in ready or worker.deadline <= now:
                    argument = busy.pop(worker)
                    outcome = worker.outcome()
                    if outcome.healthy:
                        idle.append(worker)
                    if outcome.error is None or now < until:
                        yield argument, outcome
    finally:
        for worker in (*idle, *busy):
            worker.kill()
        for worker in (*idle, *busy):
            worker.stop()


def attempt(job: Job, *arguments: Any) -> Outcome:
    """Run a job in this process; an error becomes a reason."""
    try:
        value = job(*arguments)
        _synchronize()
    except Exception as error:
        text = " ".join(str(error).split())[:300]
        return Outcome(None, f"{type(error).__name__}: {text}", _healthy())
    return Outcome(value)


def _healthy() -> bool:
    """Return False if the GPU is lost: some errors outlive their job."""
    try:
        _synchronize()
    except Exception:
        return False
    return True


def _synchronize() -> None:
    """Wait for the GPU, which raises its errors late."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.synchronize()


def _serve(pipe: Connection, log: str) -> None:
    os.setpgrp()  # stopping a worker stops its own children
    output = os.open(log, os.O_WRONLY | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    while True:
        try:
            job, arguments = pipe.recv()
        except EOFError:
            return
        outcome = attempt(job, *arguments)
        pipe.send(outcome)
        if not outcome.healthy:
            return
