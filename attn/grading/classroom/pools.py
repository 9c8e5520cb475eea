"""Grade submissions in other processes: here, or on a Dask cluster.

Both are executors of ``concurrent.futures``. A grader that dies takes no
other submission with it: those that were under way are tried again, each
alone, and the one that ends its grader once more gets a row that says so.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import signal
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from attn.grading.classroom.grade import Options, empty_row, failed, grade
from attn.grading.classroom.result import Result
from attn.grading.classroom.submissions import Submission
from attn.grading.sandbox.isolation import neutral

if TYPE_CHECKING:
    from attn.grading.classroom.examiner import Examiner

Work = Callable[[Submission, Options], Result]
#: Opens an executor of so many workers, or of those that there are.
Pool = Callable[[int], AbstractContextManager[tuple[futures.Executor, int]]]

_PATIENCE = 2.0  # seconds until a process that should have ended is killed
_turn = threading.Lock()  # Dask's workers have threads, a judge has one
_examiners: dict[tuple[object, ...], Examiner] = {}  # of this process


def work(submission: Submission, options: Options) -> Result:
    """Grade a submission with this process's examiner.

    It is made when it is first needed, and lives as long as the process.
    """
    from attn.grading.classroom.examiner import Examiner

    key = options.seed, options.timeout, options.isolation
    with _turn:
        if key not in _examiners:
            close()
            _examiners[key] = Examiner(
                options.seed, options.timeout, isolation=options.isolation
            )
        result = grade(submission, options, _examiners[key])
        if not result.digest:  # it failed: the next one gets another
            close()
        return result


@atexit.register
def close() -> None:
    """Close this process's examiner."""
    while _examiners:
        with suppress(Exception):
            _examiners.popitem()[1].close()


def run(
    submissions: Sequence[Submission],
    options: Options,
    pool: Pool,
    jobs: int,
    work: Work = work,
) -> Iterator[Result]:
    """Yield a result for each submission, as they end.

    Args:
        submissions: each of them gets one row.
        options: of the batch.
        pool: opens an executor, and says how many submissions it grades at a
            time.
        jobs: how many it may be.
        work: grades one; a function of a module.
    """
    waiting = deque(submissions)
    while waiting:
        suspects: list[Submission] = []
        with suppress(TimeoutError), pool(jobs) as (executor, most):
            running: dict[futures.Future[Result], Submission] = {}
            while running or (waiting and not suspects):
                with suppress(futures.BrokenExecutor):  # a result tells why
                    while waiting and len(running) < most and not suspects:
                        future = executor.submit(work, waiting[0], options)
                        running[future] = waiting.popleft()
                done, _ = futures.wait(
                    running, _limit(options), futures.FIRST_COMPLETED
                )
                if not done:
                    suspects += running.values()
                    raise TimeoutError  # and the pool ends
                for future in done:
                    submission = running.pop(future)
                    # An exit of a worker's is not to be raised here.
                    if future.cancelled() or future.exception():
                        suspects.append(submission)
                    else:
                        yield future.result()
        for submission in suspects:
            yield _alone(submission, options, pool, work)


def _limit(options: Options) -> float:
    """Return the seconds until a grader is stuck: sandboxes end sooner."""
    return 600 + 10 * options.timeout


def _alone(
    submission: Submission, options: Options, pool: Pool, work: Work
) -> Result:
    try:
        with pool(1) as (executor, _):
            future = executor.submit(work, submission, options)
            return future.result(_limit(options))
    except (Exception, SystemExit) as error:
        why = neutral(f"{type(error).__name__}: {error}")
    row = empty_row(submission, options)
    return failed(row, f"its grader ended or hung, twice ({why})")


@contextmanager
def processes(jobs: int) -> Iterator[tuple[futures.Executor, int]]:
    """Start processes of this machine; end them all at the end.

    Each is a fresh interpreter: it has seen no submission, and imports
    PyTorch once.
    """
    start = multiprocessing.get_context("spawn")
    executor = futures.ProcessPoolExecutor(jobs, start, _live_with_the_parent)
    before = {*multiprocessing.active_children()}
    try:
        yield executor, jobs
        executor.shutdown()
    finally:  # stopped: they are in the middle of something
        ours = {*multiprocessing.active_children()} - before
        for process in ours:
            process.terminate()
        executor.shutdown(wait=False, cancel_futures=True)
        for process in ours:
            process.join(_PATIENCE)
            process.kill()
            process.join()


def _live_with_the_parent() -> None:
    """Let Ctrl-C stop the batch from the parent alone, and end with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _end)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_PATIENCE)
        _end()  # the main thread has not come to it

    threading.Thread(target=watch, daemon=True).start()


def _end(*_: object) -> None:
    """End the process; an exception would be the result of a submission."""
    close()
    os._exit(1)


def cluster(address: str) -> Pool:
    """Return the pool of a Dask cluster: all of its workers.

    They and the scheduler need this version of the book, and the workers
    see the same files.

    Raises:
        ValueError: ``distributed`` is not installed, or there is no scheduler
            at the address, or it has no worker.
    """
    try:
        from distributed import Client
    except ImportError:
        raise ValueError(
            "--dask must have the package distributed, which is not "
            "installed; install it with `pip install distributed`"
        ) from None
    place = address if "://" in address else f"tcp://{address}"
    try:  # a client that fails would hold the process up for minutes
        where = urlsplit(place)
        at = (where.hostname or "", where.port or 8786)
        socket.create_connection(at, _PATIENCE * 5).close()
    except (OSError, ValueError) as error:
        raise ValueError(
            "--dask must be the address of a running scheduler; got "
            f"{address!r} ({error})"
        ) from None

    @contextmanager
    def pool(_jobs: int) -> Iterator[tuple[futures.Executor, int]]:
        with Client(place, set_as_default=False) as client:
            if not (workers := len(client.nthreads())):
                raise ValueError(
                    f"--dask must name a cluster with workers; {address} has "
                    f"none: start one with `dask worker {address}`"
                )
            executor = client.get_executor(pure=False)
            try:
                yield executor, workers
            finally:
                executor.shutdown(wait=False)

    return pool


def cores() -> int:
    """Count the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
