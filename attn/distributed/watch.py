"""Processes of ranks as their parent sees them: results, and failures.

When one rank fails, others fail after it: their connections break, or they
wait for what is never sent. The error names the first.
"""

from __future__ import annotations

import contextlib
import pickle
import signal
import time
from multiprocessing.connection import Connection, wait
from typing import Any

from attn.distributed.serve import START, Report, Where

# Connections that break are the consequence of a failure elsewhere.
_CONSEQUENCES = (
    "gloo",
    "Connection closed",
    "Connection reset",
    "Broken pipe",
)
_GRACE = 0.5  # seconds in which the cause of a broken connection shows up
_IDLE = 0.05  # seconds of CPU time, at most: Gloo polls while a rank waits
_INTERVALS = 4  # in one of which, at least, a rank that waits is idle


class RankError(RuntimeError):
    """The failure of one rank, which ended the work of all.

    ``rank`` is its number; the text of an exception is in the message, and
    its traceback is the cause.

    Example:
        >>> def work(rank):
        ...     return 1 // (1 - rank)
        >>> try:
        ...     attn.distributed.launch(work, 2)
        ... except attn.distributed.RankError as error:
        ...     print(error.rank, error)
        1 rank 1 of 2 raised ZeroDivisionError: integer division or modulo by zero
    """  # noqa: E501

    def __init__(self, rank: int, text: str) -> None:
        super().__init__(text)
        self.rank = rank

    def __reduce__(self) -> tuple[Any, ...]:
        return RankError, (self.rank, str(self))


class _Remote(Exception):
    """The traceback of a rank, as the cause of a ``RankError``."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


class Rank:
    """A process as its parent sees it."""

    def __init__(self, number: int, process: Any, pipe: Connection) -> None:
        self.number, self.process, self.pipe = number, process, pipe
        self.report: Report | None = None
        self.place: Where | None = None
        self.dead = False

    def read(self) -> None:
        """Take what the rank has sent, and notice when it is dead."""
        try:
            while self.pipe.poll():
                message = pickle.loads(self.pipe.recv_bytes())
                if isinstance(message, Report):
                    self.report = message
                else:
                    self.place = message
        except (EOFError, OSError):
            self.process.join(1.0)
        self.dead = not self.process.is_alive()

    @property
    def is_done(self) -> bool:
        return self.report is not None or self.dead

    @property
    def failure(self) -> str:
        """Return what went wrong, or nothing."""
        if self.report is not None:
            error = self.report.error
            return f"raised {error}" if error else ""
        if not self.dead:
            return ""
        code = self.process.exitcode
        if code < 0:
            return f"was killed by {signal.Signals(-code).name}"
        return f"exited with status {code} before it returned"

    @property
    def is_consequence(self) -> bool:
        """Return whether another rank's end explains the failure."""
        error = self.report.error if self.report else ""
        return any(x in error for x in _CONSEQUENCES)


def collect(ranks: list[Rank], timeout: float) -> list[Any]:
    """Return the results of all ranks, or raise for the one to blame."""
    start, late = time.monotonic(), False
    end = start + timeout
    while not all(one.is_done for one in ranks):
        if any(one.place is None and not one.is_done for one in ranks):
            # The limit is for the work: a new process first imports PyTorch.
            end = min(time.monotonic(), start + START) + timeout
        left = end - time.monotonic()
        if left <= 0:
            late = True
            break
        _listen(ranks, left)
        if any(one.failure for one in ranks):
            # Others may have the cause, or fail in the same way.
            end = min(end, time.monotonic() + _GRACE)
            while time.monotonic() < end and not all(r.is_done for r in ranks):
                _listen(ranks, end - time.monotonic())
            break
    lag = _lagging(ranks, timeout) if late else None
    for one in ranks:
        said = one.report or one.place
        if said and said.printed:
            print(said.printed, end="")
    failed = [one for one in ranks if one.failure]
    if failed:
        # A death explains broken connections, as does an exception.
        cause = min(failed, key=lambda one: (one.is_consequence, one.number))
        text = f"rank {cause.number} of {len(ranks)} {cause.failure}"
        trace = cause.report.trace if cause.report else ""
        raise RankError(cause.number, text) from (
            _Remote(trace) if trace else None
        )
    if lag is not None and not all(one.is_done for one in ranks):
        raise lag
    return [pickle.loads(x.report.value) for x in ranks]  # type: ignore


def _listen(ranks: list[Rank], seconds: float) -> None:
    """Wait until a rank says something or ends, and read it."""
    busy = [one for one in ranks if not one.is_done]
    wait([x for r in busy for x in (r.pipe, r.process.sentinel)], seconds)
    for one in busy:
        one.read()


def _lagging(ranks: list[Rank], timeout: float) -> RankError:
    """Return an error that names the ranks for which the others wait."""
    busy = [one for one in ranks if not one.is_done]
    waits = _waiting(busy)
    lags = [x for x in busy if x not in waits]
    returned = [x for x in ranks if x not in busy]
    within = f"within {timeout:g} s"
    if lags:
        text = f"{_verb(lags, 'has', 'have')} not returned {within}"
        text += f": {_places(lags)}"
        if waits:
            pronoun = "it" if len(lags) == 1 else "them"
            text += f"; {_verb(waits, 'waits', 'wait')} for {pronoun}"
        return RankError(lags[0].number, text)
    text = f"{_verb(waits, 'still waits', 'still wait')} after {timeout:g} s"
    text += f": {_places(waits)}; "
    if returned:
        text += f"{_verb(returned, 'has', 'have')} returned"
        return RankError(returned[0].number, text)
    return RankError(waits[0].number, f"{text}no rank sends what is awaited")


def _waiting(busy: list[Rank]) -> list[Rank]:
    """Return the ranks that only wait for others.

    Such a rank waits at both ends of an interval and computes nothing in it.
    Where much else runs, one interval may be disturbed, so a rank that may
    wait gets several.
    """
    found: set[Rank] = set()
    before = _ask(busy)
    for _ in range(_INTERVALS):
        time.sleep(_GRACE)
        now = _ask(busy)
        for one, old, new in zip(busy, before, now, strict=True):
            if not (old and new and old.waits and new.waits):
                continue
            if new.seconds - old.seconds < _IDLE:
                found.add(one)
        rest = [x.place for x in busy if x not in found]
        if not any(place is None or place.waits for place in rest):
            break
        before = now
    return [x for x in busy if x in found]


def _ask(busy: list[Rank]) -> list[Where | None]:
    """Return where ranks are; None for one that does not answer."""
    for one in busy:
        one.place = None
        with contextlib.suppress(OSError):
            one.pipe.send_bytes(b"where")
    end = time.monotonic() + _GRACE
    while any(x.place is None for x in busy) and time.monotonic() < end:
        wait([x.pipe for x in busy if x.place is None], 0.1)
        for one in busy:
            one.read()
    return [x.place for x in busy]


def _verb(ranks: list[Rank], one: str, several: str) -> str:
    """Return ``rank 1 waits``, or ``ranks 0, 1 and 2 wait``."""
    *others, last = [str(x.number) for x in ranks]
    if not others:
        return f"rank {last} {one}"
    return f"ranks {', '.join(others)} and {last} {several}"


def _places(ranks: list[Rank]) -> str:
    texts = [x.place.text if x.place else "no answer" for x in ranks]
    if len(ranks) == 1:
        return texts[0]
    named = zip(ranks, texts, strict=True)
    return ", ".join(f"rank {x.number} {text}" for x, text in named)
