"""A schedule on a virtual clock: what waiting and padding cost, repeatably.

No model runs. A step takes the time that a function of its token counts
says, measured once or computed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple

from attn import arguments
from attn.serving.request import Request
from attn.serving.scheduler import Scheduler

#: From the number of tokens in each row of a step to its seconds.
StepTime = Callable[[Sequence[int]], float]


class Step(NamedTuple):
    """One forward pass on the virtual clock.

    Example:
        >>> step = attn.serving.Step(0.0, 0.5, {"a": 1}, idle=("b",))
        >>> step.end - step.start
        0.5
    """

    start: float
    end: float
    num_scheduled_tokens: dict[Hashable, int]
    preempted: tuple[Hashable, ...] = ()
    idle: tuple[Hashable, ...] = ()  # rows computed after their end
    num_padding: int = 0  # tokens computed for nothing


@dataclass(frozen=True)
class Trace:
    """The steps of a simulation, and the time of each token.

    Attributes:
        steps: every forward pass.
        arrivals: time at which each request arrived, by its id.
        token_times: times at which its tokens were there.

    Example:
        >>> trace = attn.serving.Trace(
        ...     arrivals={"a": 1.0}, token_times={"a": [3.0, 3.5, 4.5]},
        ... )
        >>> trace.ttft, trace.itl, trace.e2e
        ({'a': 2.0}, {'a': [0.5, 1.0]}, {'a': 3.5})
    """

    steps: list[Step] = field(default_factory=list)
    arrivals: dict[Hashable, float] = field(default_factory=dict)
    token_times: dict[Hashable, list[float]] = field(default_factory=dict)

    @property
    def ttft(self) -> dict[Hashable, float]:
        """Return the time from arrival to the first token."""
        return {x: t[0] - self.arrivals[x] for x, t in self._times()}

    @property
    def itl(self) -> dict[Hashable, list[float]]:
        """Return the times between one token and the next."""
        return {x: [b - a for a, b in pairwise(t)] for x, t in self._times()}

    @property
    def e2e(self) -> dict[Hashable, float]:
        """Return the time from arrival to the last token."""
        return {x: t[-1] - self.arrivals[x] for x, t in self._times()}

    @property
    def duration(self) -> float:
        """Return the time from the first arrival to the end."""
        start = min(self.arrivals.values(), default=0.0)
        return (self.steps[-1].end if self.steps else start) - start

    @property
    def tokens_per_second(self) -> float:
        """Return the tokens produced in a second of ``duration``."""
        return sum(len(t) for _, t in self._times()) / self.duration

    @property
    def padding(self) -> float:
        """Return the share of computed tokens that is padding."""
        wasted = sum(x.num_padding for x in self.steps)
        real = (sum(x.num_scheduled_tokens.values()) for x in self.steps)
        return wasted / (wasted + sum(real))

    def _times(self) -> Iterable[tuple[Hashable, list[float]]]:
        return self.token_times.items()


def simulate(
    requests: Iterable[Request], step_time: StepTime, scheduler: Scheduler
) -> Trace:
    """Run a scheduler with a model that takes time and says nothing.

    Every request gets ``max_new_tokens``; its ``eos`` never comes. The
    requests are copied, and can be simulated again.

    Args:
        requests: with their ``arrival``, in seconds.
        step_time: from the number of tokens in each row, a list, to the
            seconds of the step: ``len`` is the number of rows, ``sum`` that
            of tokens.
        scheduler: without requests of its own.

    Returns:
        The trace. A request reads its whole text, but for what it shares.

    Raises:
        ValueError: the scheduler has requests, or cannot take one of these;
            ids repeat; or a step takes no time.

    Example:
        >>> pool = attn.PageAllocator(num_pages=8, page_size=4)
        >>> scheduler = attn.serving.Scheduler(pool, max_num_seqs=2)
        >>> lengths = {"a": 2, "b": 4, "c": 2}
        >>> requests = [
        ...     attn.serving.Request(name, [1, 2], max_new_tokens=n)
        ...     for name, n in lengths.items()
        ... ]
        >>> trace = attn.serving.simulate(requests, lambda n: 1.0, scheduler)
        >>> trace.duration, trace.ttft  # c begins when a has ended
        (4.0, {'a': 1.0, 'b': 1.0, 'c': 3.0})
    """
    if scheduler.has_unfinished:
        raise ValueError(
            "scheduler must have no requests yet; got some: make a new one"
        )
    pending, trace = _begin(requests)
    filler = _unused_token(pending)
    clock = 0.0
    while pending or scheduler.has_unfinished:
        if not scheduler.has_unfinished:
            clock = max(clock, pending[0].arrival)
        while pending and pending[0].arrival <= clock:
            scheduler.add(pending.popleft())
        output = scheduler.schedule()
        counts = output.num_scheduled_tokens
        start = clock
        clock += _seconds(step_time, list(counts.values()))
        trace.steps.append(Step(start, clock, counts, output.preempted))
        for name in output.samples:
            trace.token_times[name].append(clock)
        scheduler.update(output, dict.fromkeys(output.samples, filler))
    return trace


@arguments.named()
def simulate_static(
    requests: Iterable[Request],
    step_time: StepTime,
    max_num_seqs: int = 16,
    *,
    sort: bool = False,
    shrink: bool = False,
) -> Trace:
    """Run batches that are fixed until their longest row has ended.

    Prompts are padded to the longest and read in one step. A request that
    has ended stays in its batch, unless rows ``shrink``; none can join.

    Args:
        requests, step_time: as in ``simulate``.
        max_num_seqs: most rows of a batch.
        sort: make batches of requests of similar ``max_new_tokens``. Their
            lengths must be known: no server does.
        shrink: leave rows out once they have ended.

    Returns:
        The trace.

    Raises:
        ValueError: ``max_num_seqs`` is not positive, ids repeat, or a step
            takes no time.

    Example:
        >>> lengths = {"a": 2, "b": 4, "c": 2}
        >>> requests = [
        ...     attn.serving.Request(name, [1, 2], max_new_tokens=n)
        ...     for name, n in lengths.items()
        ... ]
        >>> trace = attn.serving.simulate_static(requests, lambda n: 1.0, 2)
        >>> trace.duration, trace.ttft
        (6.0, {'a': 1.0, 'b': 1.0, 'c': 5.0})
    """
    arguments.count("max_num_seqs", max_num_seqs)
    pending, trace = _begin(requests)
    clock = 0.0
    while pending:
        clock = max(clock, pending[0].arrival)
        arrived = [x for x in pending if x.arrival <= clock]
        if sort:
            arrived.sort(key=lambda x: x.max_new_tokens)
        batch = arrived[:max_num_seqs]
        pending = deque(x for x in pending if x not in batch)
        longest = max(len(x.prompt_ids) for x in batch)
        for produced in range(max(x.max_new_tokens for x in batch)):
            active = [x for x in batch if x.max_new_tokens > produced]
            rows = active if shrink else batch
            real = {x.id: 1 if produced else len(x.prompt_ids) for x in active}
            counts = [1 if produced else longest] * len(rows)
            start = clock
            clock += _seconds(step_time, counts)
            idle = tuple(x.id for x in rows if x.id not in real)
            padding = sum(counts) - sum(real.values())
            trace.steps.append(Step(start, clock, real, (), idle, padding))
            for request in active:
                trace.token_times[request.id].append(clock)
    return trace


def _begin(requests: Iterable[Request]) -> tuple[deque[Request], Trace]:
    """Return copies in the order of their arrival, and a trace of no step."""
    copies = sorted(map(replace, requests), key=lambda x: x.arrival)
    if len({x.id for x in copies}) < len(copies):
        raise ValueError(
            "requests must have ids of their own; got one several times in "
            f"{[x.id for x in copies]}"
        )
    arrivals = {x.id: x.arrival for x in copies}
    return deque(copies), Trace([], arrivals, {name: [] for name in arrivals})


def _seconds(step_time: StepTime, counts: Sequence[int]) -> float:
    """Return how long a step takes."""
    seconds = step_time(counts)
    if not seconds > 0:
        raise ValueError(
            f"step_time must return seconds above 0; got {seconds} for "
            f"{counts}"
        )
    return seconds


def _unused_token(requests: Iterable[Request]) -> int:
    """Return a token that ends no request, and is in no prompt."""
    used = [0]
    for request in requests:
        used += [*request.prompt_ids, *request.ends]
    return max(used) + 1
