"""Choose the tokens of each forward pass just before it runs.

Source: Yu et al. 2022, "Orca" (iteration-level scheduling); Agrawal et al.
2024, "Sarathi-Serve" (chunked prefill); Kwon et al. 2023, "PagedAttention",
section 4.5 (preemption by recomputation).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

from attn import arguments
from attn.cache import PageAllocator
from attn.serving.prefix_cache import PrefixCache
from attn.serving.request import Request


class SchedulerOutput(NamedTuple):
    """The tokens that one forward pass reads, by the ids of the requests.

    Example:
        >>> counts = {"a": 1, "b": 511}  # a decodes, b reads its prompt
        >>> output = attn.serving.SchedulerOutput(counts, samples=("a",))
        >>> sum(output.num_scheduled_tokens.values())
        512

    Source: vLLM ``SchedulerOutput`` (``vllm/v1/core/sched/output.py``).
    """

    num_scheduled_tokens: dict[Hashable, int]
    preempted: tuple[Hashable, ...] = ()  # by this call of schedule
    finished: tuple[Hashable, ...] = ()  # since the last one
    samples: tuple[Hashable, ...] = ()  # those whose last token is read
    drafts: Mapping[Hashable, Sequence[int]] = {}  # guesses that follow it


class Scheduler:
    """Continuous batching: requests join and leave at every step.

    A step has a budget of tokens. Running requests are served first, in the
    order of their arrival; what remains goes to those that wait. There is no
    phase of prefill and none of decode: a request has tokens that are not
    computed yet, and gets as many of them as fit. A new token is sampled
    only where the last of them is read.

    When no page is free, the request that came last gives its pages back,
    waits at the front, and is computed again later. The tokens that it has
    produced are kept. A request must fit into the pool alone, so that the
    first always goes on.

    Guesses (``Request.draft_ids``) are read behind the last token, as many
    as budget and pages allow: a request drops its own before another is
    preempted, and leaves a token of the budget to each that runs.

    Args:
        pool: the pages, an ``attn.PageAllocator`` or ``attn.PagePool``.
        max_num_seqs: most requests that run at a time.
        max_num_batched_tokens: most tokens of a step, in all requests.
        chunked_prefill: read a prompt in parts that fill the budget;
            otherwise a prompt waits until all of it fits.
        prefix_cache: where finished pages are kept, and found again.
        watermark: pages that stay free when a request joins others, for the
            tokens that these will produce.
        can_crop: rejected guesses can be forgotten; if not, as in a layer
            with a state, a step that has one is computed again.

    Attributes:
        waiting, running: the requests, in the order of their arrival.

    Raises:
        ValueError: an argument is wrong.

    Example:
        >>> pool = attn.PageAllocator(num_pages=8, page_size=4)
        >>> scheduler = attn.serving.Scheduler(pool, max_num_batched_tokens=4)
        >>> scheduler.add(attn.serving.Request("a", [1, 2, 3], 2))
        >>> scheduler.add(attn.serving.Request("b", [1, 2, 3], 2))
        >>> output = scheduler.schedule()
        >>> output.num_scheduled_tokens, output.samples
        ({'a': 3, 'b': 1}, ('a',))
        >>> scheduler.update(output, {"a": 7})
        []
        >>> scheduler.schedule().num_scheduled_tokens
        {'a': 1, 'b': 2}

    Source: vLLM ``Scheduler`` (``vllm/v1/core/sched/scheduler.py``), first
    come, first served, without its ``scheduler_reserve_full_isl`` (2026): a
    request is admitted as soon as the tokens of one step fit.
    """

    @arguments.named()
    def __init__(
        self,
        pool: PageAllocator,
        *,
        max_num_seqs: int = 16,
        max_num_batched_tokens: int = 512,
        chunked_prefill: bool = True,
        prefix_cache: PrefixCache | None = None,
        watermark: int = 0,
        can_crop: bool = True,
    ):
        need = "a PageAllocator or a PagePool"
        arguments.instance("pool", pool, PageAllocator, need)
        arguments.count("max_num_seqs", max_num_seqs)
        arguments.count("max_num_batched_tokens", max_num_batched_tokens)
        arguments.count("watermark", watermark, 0)
        if prefix_cache is not None and prefix_cache.pool is not pool:
            raise ValueError(
                "prefix_cache must be of the same pool; got another"
            )
        self.pool, self.prefix_cache = pool, prefix_cache
        self.max_num_seqs = max_num_seqs
        self.max_num_batched_tokens = max_num_batched_tokens
        self.chunked_prefill, self.watermark = chunked_prefill, watermark
        self.can_crop = can_crop
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []
        self._finished: list[Hashable] = []
        self._computing: SchedulerOutput | None = None

    def add(self, request: Request) -> None:
        """Append a request to those that wait.

        Raises:
            ValueError: its id is taken, or it could never be computed.
        """
        if any(x.id == request.id for x in (*self.waiting, *self.running)):
            raise ValueError(
                f"request must have an id of its own; got {request.id!r} again"
            )
        if (
            request.num_computed_tokens
            or request.output_ids
            or request.aborted
        ):
            raise ValueError(
                f"request must be new; got {request.id!r}, which has begun"
            )
        most = request.max_tokens
        if self.pool.pages_for(most) > self.pool.num_pages:
            raise ValueError(
                f"request must fit in the pool, {self.pool.num_pages} pages "
                f"of {self.pool.page_size} tokens, when it is alone; got "
                f"{request.id!r} with up to {most} tokens"
            )
        if not self.chunked_prefill and most > self.max_num_batched_tokens:
            raise ValueError(
                "request must fit in max_num_batched_tokens, "
                f"{self.max_num_batched_tokens}, without chunked_prefill; got "
                f"{request.id!r} with up to {most} tokens"
            )
        self.waiting.append(request)

    def abort(self, request: Request | Hashable) -> bool:
        """Stop a request, or the one with this id; return whether it was here.

        Its pages come back at once; see ``Engine.abort``.
        """
        need = "a Request, or the id of one"
        arguments.instance("request", request, Hashable, need)
        for x in (*self.running, *self.waiting):
            if x is request or x.id == request:
                x.aborted = True
                self._retire(x)
                return True
        return False

    @property
    def has_unfinished(self) -> bool:
        """Return whether a request waits or runs."""
        return bool(self.waiting or self.running)

    def schedule(self) -> SchedulerOutput:
        """Choose the tokens of the next step, and allocate their pages.

        Raises:
            ValueError: the step before was not followed by ``update``.
        """
        if self._computing is not None:
            raise ValueError(
                "update must be called with the output of schedule before "
                "the next step; got another call of schedule"
            )
        for request in (*self.running, *self.waiting):
            if request.is_finished:  # its limit was lowered meanwhile
                self._retire(request)
        scheduled: dict[Hashable, int] = {}
        preempted: list[Hashable] = []
        budget = self.max_num_batched_tokens
        i = 0
        while i < len(self.running) and budget:
            request = self.running[i]
            behind = len(self.running) - i - 1
            count = self._wanted(request, budget, behind)
            # Requests after this one came later: they give way first.
            while not self._allocate(request, count):
                if request.draft_ids:  # guesses give way before requests
                    request.draft_ids = []
                    count = self._wanted(request, budget)
                    continue
                last = self._preempt()
                preempted.append(last.id)
                if last is request:
                    break
            else:
                if count:
                    scheduled[request.id] = count
                    budget -= count
                i += 1
        while (
            self.waiting
            and not preempted
            and budget
            and len(self.running) < self.max_num_seqs
        ):
            request = self.waiting[0]
            self._reuse_prefix(request)
            count = self._wanted(request, budget)
            spare = self.watermark if self.running else 0
            if not count or not self._allocate(request, count, spare):
                self._release(request)
                break
            self.running.append(self.waiting.popleft())
            scheduled[request.id] = count
            budget -= count
        finished, self._finished = tuple(self._finished), []
        samples = [
            x
            for x in self.running
            if scheduled.get(x.id, 0) >= x.num_tokens - x.num_computed_tokens
        ]
        output = SchedulerOutput(
            scheduled,
            tuple(preempted),
            finished,
            tuple(x.id for x in samples),
            {x.id: x.draft_ids for x in samples if x.draft_ids},
        )
        self._computing = output if scheduled else None
        return output

    def update(
        self,
        output: SchedulerOutput,
        tokens: Mapping[Hashable, int | Sequence[int]],
    ) -> list[Request]:
        """Record what a step has computed, and its new tokens.

        Args:
            output: what ``schedule`` returned for this step.
            tokens: the token of each request in ``output.samples``. Where
                guesses were read, the accepted ones and one more. Requests
                aborted since need none.

        Returns:
            The requests that have ended; their pages are free.

        Raises:
            ValueError: tokens are missing, or belong to a prompt that is
                not read to its end; or the output is of another step.
        """
        if output.num_scheduled_tokens and output is not self._computing:
            raise ValueError(
                "output must be that of the last call of schedule, and each "
                f"is used once; got {output}"
            )
        new = {
            name: x if isinstance(x, Sequence) else [x]
            for name, x in tokens.items()
        }
        sampled, left = set(output.samples), {x.id for x in self.running}
        if not sampled & left <= {x for x in new if new[x]} <= sampled:
            raise ValueError(
                "tokens must have one for each request whose last token was "
                f"read, {list(output.samples)}; got {list(tokens)}"
            )
        self._computing, ended = None, []
        for request in list(self.running):
            count = output.num_scheduled_tokens.get(request.id)
            if count is None:
                continue
            mine = new.get(request.id, ())
            read = len(output.drafts.get(request.id, ())) + bool(mine)
            rejected = max(0, read - len(mine))
            request.draft_ids = []
            for token in mine:
                if request.append(token):
                    break
            if not rejected or self.can_crop:
                self._record(request, count - rejected)
            if request.is_finished:
                self._retire(request)
                ended.append(request)
        return ended

    def discard(self) -> None:
        """Forget a step that failed: its tokens are scheduled again."""
        self._computing = None

    def _record(self, request: Request, count: int) -> None:
        """Count tokens as computed; from now on they can be shared."""
        size, before = self.pool.page_size, request.num_computed_tokens
        request.num_computed_tokens += count
        fills = request.num_computed_tokens // size > before // size
        if self.prefix_cache is not None and fills:
            computed = request.token_ids[: request.num_computed_tokens]
            self.prefix_cache.insert(computed, request.pages)

    def _wanted(self, request: Request, budget: int, behind: int = 0) -> int:
        """Return how many tokens a request reads next; 0 must wait."""
        missing = request.num_tokens - request.num_computed_tokens
        if missing > budget and not self.chunked_prefill:
            return 0
        room = max(0, budget - missing - behind)
        request.draft_ids = request.draft_ids[:room]
        return min(missing + len(request.draft_ids), budget)

    def _allocate(self, request: Request, count: int, spare: int = 0) -> bool:
        """Take the pages for the next tokens, all or none."""
        total = request.num_computed_tokens + count
        needed = self.pool.pages_for(total) - len(request.pages)
        lacking = needed + spare - len(self.pool.free_pages)
        if needed > 0 and lacking > 0:
            cache = self.prefix_cache
            if cache is None or cache.num_evictable < lacking:
                return False
            cache.evict(lacking)
        request.pages += [self.pool.allocate() for _ in range(needed)]
        return True

    def _preempt(self) -> Request:
        """Stop the request that came last, to be computed again."""
        request = self.running.pop()
        self._release(request)
        self.waiting.appendleft(request)
        return request

    def _reuse_prefix(self, request: Request) -> None:
        """Begin behind the longest prefix that is stored."""
        if self.prefix_cache is None:
            return
        match = self.prefix_cache.match_prefix(request.token_ids)
        for page in match.pages:
            self.pool.retain(page)
        request.pages = list(match.pages)
        request.num_computed_tokens = match.length

    def _retire(self, request: Request) -> None:
        """Take a request out that has ended."""
        queue = self.running if request in self.running else self.waiting
        queue.remove(request)
        self._release(request)
        self._finished.append(request.id)

    def _release(self, request: Request) -> None:
        """Return the pages of a request, the last one first."""
        for page in reversed(request.pages):
            self.pool.release(page)
        request.pages, request.num_computed_tokens = [], 0
        request.states, request.draft_ids = [], []
