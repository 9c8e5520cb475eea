"""Limit the time of a learner's code: its own, without imports."""

from __future__ import annotations

import math
import operator
import signal
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

TIME_LIMIT = 5.0  # seconds of this thread for one call
_TICK = 0.02
#: Between two interruptions, seconds of the thread and on the wall: the first
#: has left by then, however busy the machine, unless something caught it.
_PAUSE = 0.05, 1.0


class OutOfTime(BaseException):
    """The time limit, raised inside the learner's code.

    It is no Exception, so that a broad ``except`` does not swallow it.
    """


class Clock:
    """Measure the time of one case at a time, and interrupt it at a limit.

    What counts is the time of this thread: other processes of a busy machine
    take none of it. A module that is imported meanwhile takes none either,
    and is never left half imported.

    Args:
        limit: seconds; it may change between two uses.
        patience: times the limit by the clock on the wall, when it sleeps.
        share: of the limit: an answer that has computed for so long is
            stopped by the clock on the wall, at which a learner looks.

    Attributes:
        spent: seconds of the last use.
    """

    def __init__(
        self,
        limit: float = TIME_LIMIT,
        patience: float = 12,
        share: float = 1,
    ) -> None:
        self.limit, self._patience, self._share = limit, patience, share
        self.spent = self._waited = 0.0
        self._raised = -math.inf, -math.inf

    @contextmanager
    def running(self) -> Iterator[None]:
        """Let it run; interrupt Python code (main thread, POSIX)."""
        self.spent = self._waited = 0.0
        self._last = _now()
        is_main = threading.current_thread() is threading.main_thread()
        if can_interrupt := is_main and hasattr(signal, "setitimer"):
            before = signal.signal(signal.SIGALRM, self._tick)
            # It rings again and again: one may fall into a bare `except:`.
            first = min(5 * _TICK, self.limit)
            signal.setitimer(signal.ITIMER_REAL, first, _TICK)
        try:
            yield
        finally:
            if can_interrupt:
                signal.setitimer(signal.ITIMER_REAL, 0)
                signal.signal(signal.SIGALRM, before)
            self._read()

    def _tick(self, _signal: int, frame: FrameType | None) -> None:
        files = (x.f_code.co_filename for x, _ in traceback.walk_stack(frame))
        if "<frozen importlib._bootstrap>" in files:
            self._last = _now()
            return
        self._read()
        is_slow = self.spent > self.limit * self._share
        waited = self._waited / (1 if is_slow else self._patience)
        since = map(operator.sub, self._last, self._raised)
        is_due = any(map(operator.gt, since, _PAUSE))
        if is_due and max(self.spent, waited) > self.limit:
            self._raised = self._last
            raise OutOfTime(
                f"it did not finish within {self.limit:.2g} s: is there an "
                "endless loop?"
            )

    def _read(self) -> None:
        now = _now()
        self.spent += now[0] - self._last[0]
        self._waited += now[1] - self._last[1]
        self._last = now


def _now() -> tuple[float, float]:
    return time.thread_time(), time.monotonic()
