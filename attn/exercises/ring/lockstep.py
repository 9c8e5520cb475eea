"""Run a function as every rank of a group, in one process, in turns.

A rank that waits for what has not been sent is stopped, and started again
when it has been: it then gets, at once, all that it got before. So an answer
runs in the process that checks it, without threads, and always in one order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

Message = tuple[Tensor, ...]
CHANGED = "shifts whose tensors were changed before wait() returned"
SPOILED = "ranks whose inputs were changed in place"


def _copies(messages: Sequence[Message]) -> list[Message]:
    return [tuple(x.clone() for x in m) for m in messages]


def _equal(x: Tensor, y: Tensor) -> bool:
    # Nearly always without a NaN, and three times as fast.
    return torch.equal(x, y) or torch.equal(x.nan_to_num(), y.nan_to_num())


class _Waits(BaseException):
    """A rank has to wait; no answer may catch it by ``except Exception``."""


class Link:
    """One rank's way to the others.

    Args:
        rank: of this one.
        sent: of each rank, what it has sent in each of its calls: a message
            for every rank.
    """

    def __init__(self, rank: int, sent: list[list[list[Message]]]) -> None:
        self.rank, self.sent = rank, sent
        self.started: list[list[Message]] = []
        self._at_start: list[list[Message]] = []
        self.changed = 0  # calls whose tensors changed on their way
        self._inputs: list[tuple[Tensor, Tensor]] = []

    def lend(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Return inputs of this rank, to see later whether they changed."""
        self._inputs += [(x, x.clone()) for x in tensors]
        return tensors

    @property
    def spoiled(self) -> bool:
        """Tell whether an input of this rank was changed in place."""
        return not all(_equal(*pair) for pair in self._inputs)

    def shift(self, *tensors: Tensor) -> Callable[[], list[Tensor]]:
        """Start to send to the next rank, and to receive from the last.

        What arrives is what the tensors hold when ``wait()`` is called.
        """
        size = len(self.sent)
        at = (self.rank + 1) % size
        messages: list[Message] = [()] * size
        messages[at] = tensors
        post = self._start(messages)
        return lambda: list(post()[(self.rank - 1) % size])

    def all_to_all(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Send entry j to rank j; return what each has sent to this one."""
        size = len(self.sent)
        if len(tensors) != size:
            raise ValueError(
                f"all_to_all must get {size} tensors, one for each rank; "
                f"got {len(tensors)}"
            )
        return [x for (x,) in self._start([(x,) for x in tensors])()]

    def gather(self, *tensors: Tensor) -> list[Message]:
        """Send tensors to all ranks; return what each has sent."""
        return self._start([tensors] * len(self.sent))()

    def _start(self, messages: list[Message]) -> Callable[[], list[Message]]:
        for x in (x for message in messages for x in message):
            if not isinstance(x, Tensor):
                raise TypeError(f"tensors can be sent; got {type(x).__name__}")
        call = len(self.started)
        self.started.append(messages)
        self._at_start.append(_copies(messages))

        waited = False

        def wait() -> list[Message]:
            nonlocal waited
            self.changed += not waited and not self._as_started(call)
            waited = True
            self._send(call + 1)
            if any(len(other) <= call for other in self.sent):
                raise _Waits
            arrived = [other[call][self.rank] for other in self.sent]
            arrived[self.rank] = messages[self.rank]
            return _copies(arrived)

        return wait

    def _send(self, calls: int) -> None:
        """Send what was started, unless an earlier turn has sent it."""
        own = self.sent[self.rank]
        for messages in self.started[len(own) : calls]:
            own.append(_copies(messages))

    def _as_started(self, call: int) -> bool:
        both = zip(self.started[call], self._at_start[call], strict=True)
        return all(
            _equal(x, y)
            for now, before in both
            for x, y in zip(now, before, strict=True)
        )

    def finish(self) -> None:
        """Send what was never waited for."""
        self._send(len(self.started))

    @property
    def elements(self) -> int:
        """The elements that this rank has sent to others."""
        return sum(
            x.numel()
            for messages in self.started
            for rank, message in enumerate(messages)
            if rank != self.rank
            for x in message
        )


def run_ranks(
    work: Callable[[int, Link], Any], world_size: int
) -> tuple[list[Any], list[Link]]:
    """Call ``work(rank, link)`` as each rank, until all have returned.

    Raises:
        RuntimeError: a rank waits for what is never sent.
    """
    sent: list[list[list[Message]]] = [[] for _ in range(world_size)]
    results: dict[int, Any] = {}
    links: dict[int, Link] = {}
    while len(results) < world_size:
        before = sum(map(len, sent)), len(results)
        for rank in range(world_size):
            if rank in results:
                continue
            link = links[rank] = Link(rank, sent)
            try:
                result = work(rank, link)
                link.finish()
            except _Waits:
                continue
            results[rank] = result
        if before == (sum(map(len, sent)), len(results)):
            silent = min(range(world_size), key=lambda rank: len(sent[rank]))
            raise RuntimeError(
                f"rank {silent} has sent {len(sent[silent])} times and "
                "others wait for more: every rank must send equally often"
            )
    ranks = range(world_size)
    return [results[r] for r in ranks], [links[r] for r in ranks]


def run_crossed(
    work: Callable[..., Any], world_size: int
) -> tuple[list[Any], list[Link]]:
    """Call ``work`` as each rank, which gets what others send elsewhere.

    All tensors of that run are smaller, by the ``factor`` 0.5, and those of
    the run between are not. An answer that has the others' tensors from
    anywhere but a message, from a global of its own for instance, gives
    another result.

    Args:
        work: of ``(rank, link, factor)``; the factor is 1 by default.
        world_size: the number of ranks.
    """
    smaller = partial(work, factor=0.5)
    _, links = run_ranks(smaller, world_size)
    run_ranks(work, world_size)  # what a global holds is of this run
    crossed = [Link(rank, links[0].sent) for rank in range(world_size)]
    try:
        return [smaller(x.rank, x) for x in crossed], crossed
    except _Waits:
        raise RuntimeError(
            "a rank waits for what is not sent when the tensors have other "
            "values: how often it sends must not depend on them"
        ) from None


def shards(x: Tensor, world_size: int, layout: str) -> list[Tensor]:
    """Cut ``(B, H, L, D)`` into what each rank has of the text."""
    if layout == "contiguous":
        return [y.clone() for y in x.chunk(world_size, 2)]
    parts = x.chunk(2 * world_size, 2)
    return [
        torch.cat(pair, 2) for pair in zip(parts, reversed(parts), strict=True)
    ][:world_size]


def named(results: Sequence[Any], *names: str) -> dict[str, Any]:
    """Name what each rank has returned, as the task does."""
    found: dict[str, Any] = {}
    for rank, result in enumerate(results):
        is_one = len(names) == 1 or not isinstance(result, tuple | list)
        parts = (result,) if is_one else result
        more = (f"result {i}" for i in range(len(names) + 1, len(parts) + 1))
        for what, x in zip((*names, *more), parts, strict=False):
            found[f"{what} of rank {rank}"] = x
    return found
