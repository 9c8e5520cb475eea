"""Grade submissions in other processes.

They are executors of ``concurrent.futures``, one for each submission that is
graded at a time. A grader that dies or hangs takes no other submission with
it: its own is tried again by another, and then gets a row that says so.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

from attn.grading.classroom.grade import (
    Options,
    empty_row,
    examiner_of,
    failed,
    grade,
)
from attn.grading.classroom.result import Result
from attn.grading.classroom.submissions import Submission
from attn.grading.sandbox.isolation import neutral

Start = Callable[[], futures.Executor]
#: Gives what starts an executor, and how many are to run at a time.
Pool = Callable[[int], AbstractContextManager[tuple[Start, int]]]

_STUCK = 600.0  # seconds, and ten timeouts: sandboxes end sooner
_PATIENCE = 10.0  # seconds until a process that should have ended is killed
_turn = threading.Lock()  # Dask's workers have threads, a judge has one
_examiners: dict[tuple[Any, ...], Any] = {}  # of this process


def work(submission: Submission, options: Options) -> Result:
    """Grade a submission with this process's examiner of these options."""
    key = options.seed, options.timeout, options.isolation
    with _turn:
        if key not in _examiners:
            _examiners[key] = examiner_of(options)
        examiner = _examiners[key]
        result = grade(submission, options, examiner)
        if not result.digest:  # it failed: the next one gets a new sandbox
            _close()
        return result


def _close() -> None:
    for examiner in _examiners.values():
        examiner.close()


def run(
    submissions: Sequence[Submission],
    options: Options,
    pool: Pool,
    jobs: int,
) -> Iterator[Result]:
    """Yield a result for each submission, as they end.

    Args:
        submissions: each of them gets one row.
        options: of the batch.
        pool: starts executors.
        jobs: how many there may be.
    """
    waiting, failures = deque(submissions), Counter[str]()
    running: dict[Any, tuple[Submission, futures.Executor]] = {}
    with pool(jobs) as (start, most):
        idle = [start() for _ in range(most)]
        while waiting or running:
            while waiting and idle:
                submission, executor = waiting.popleft(), idle.pop()
                future = executor.submit(work, submission, options)
                running[future] = submission, executor
            limit = _STUCK + 10 * options.timeout
            done, _ = futures.wait(running, limit, futures.FIRST_COMPLETED)
            for future in done or [*running]:  # after so long, all of them
                submission, executor = running.pop(future)
                try:
                    yield future.result(0)
                except (Exception, SystemExit) as error:
                    executor = start()
                    failures[submission.name] += 1
                    if failures[submission.name] == 1:
                        waiting.appendleft(submission)
                    else:
                        why = neutral(f"{type(error).__name__}: {error}")
                        row = empty_row(submission, options)
                        end = f"its grader ended or hung, twice ({why})"
                        yield failed(row, end)
                idle.append(executor)


@contextmanager
def processes(jobs: int) -> Iterator[tuple[Start, int]]:
    """Start processes of this machine; end them all at the end.

    Each is a fresh interpreter: it has seen no submission, and imports
    PyTorch once.
    """
    before = {*multiprocessing.active_children()}
    spawn = multiprocessing.get_context("spawn")
    try:
        yield (
            partial(futures.ProcessPoolExecutor, 1, spawn, _stay_with_parent),
            jobs,
        )
    finally:
        ours = {*multiprocessing.active_children()} - before
        for process in ours:
            process.terminate()
        for process in ours:
            process.join(_PATIENCE)
            process.kill()
            process.join()


def _stay_with_parent() -> None:
    """Let Ctrl-C stop the batch from the parent alone, and end with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _end)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        _end()

    threading.Thread(target=watch, daemon=True).start()


def _end(*_: object) -> None:
    """End the process; an exception would be the result of a submission."""
    try:
        _close()
    finally:
        os._exit(1)


def cores() -> int:
    """Count the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
