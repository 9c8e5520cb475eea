"""A model that serves many requests: schedule, run, sample, repeat."""

from __future__ import annotations

import math
import traceback
import warnings
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import torch
from torch import Tensor

from attn import arguments
from attn.cache import PagePool
from attn.nn import StateLayer, Transformer
from attn.nn.decoding import check_length
from attn.nn.generation import evaluating
from attn.serving.drafts import Draft, first_branch, trim
from attn.serving.packed import read_tokens
from attn.serving.prefix_cache import PrefixCache
from attn.serving.request import Request
from attn.serving.scheduler import Scheduler, SchedulerOutput
from attn.serving.served_models import check_model


class Engine:
    """Continuous batching on a real model.

    A step is a call of ``Scheduler.schedule``, one forward pass over the
    tokens that it chose, and a call of ``Scheduler.update``. Every layer has
    a pool of its own, and all share one block table. The tokens of all
    requests, of parts of prompts, of answers and of drafts, are one row
    without padding; attention alone tells the requests apart. On a GPU with
    Triton it is one call of ``attn.kernels.varlen_attention`` in each layer.
    Elsewhere, and with ALiBi, it is one for all requests that read equally
    many tokens, and there the keys of shorter ones are padded. Layers with a
    state have one for each request, beside its pages.

    Each request gets the tokens of ``attn.generate``, whatever runs beside
    it, up to near-ties: a product of matrices rounds differently for another
    number of rows, and where the two best logits differ by no more than
    that, another token may win. ``margins`` tells. With a temperature it is
    a generator with the request's ``seed``. A draft changes no token: a guess
    stays if it is the one that the model chooses there.

    To cancel a request, call ``abort``: one that is removed from the
    scheduler's lists keeps its pages. A step that raises (out of memory)
    warns and ends the requests in it, which have the ``error``, and no
    others; a draft or an ``on_token`` that raises, or NaN as logits, ends one.

    Args:
        model: a causal ``attn.Transformer`` with a head.
        num_pages: of the pool; a page is one in every layer.
        page_size: tokens in a page.
        enable_prefix_caching: share the pages of equal beginnings. A model
            with states shares none: a page holds no state to go on from.
        draft: as in ``speculative_decode``, for every request: such as
            ``functools.partial(prompt_lookup, ngram=3, k=8)`` or a
            ``ModelDraft``. Of branches, the first counts.
        options: of the ``Scheduler``.

    Attributes:
        scheduler: with the requests that run and wait.
        margins: for each request, how far the best logit was ahead of the
            second, at each of its tokens.

    Raises:
        TypeError, ValueError: the model has neither keys and values to keep
            in pages nor states, or no head.

    Example:
        >>> model = attn.Transformer(attn.llama_style(
        ...     vocab_size=50, embed_dim=16, num_layers=2, num_heads=4,
        ... ))
        >>> engine = attn.serving.Engine(model, num_pages=8, page_size=4)
        >>> a, b = torch.tensor([1, 2, 3]), torch.tensor([4, 5])
        >>> engine.add_request(attn.serving.Request("a", a, 5))
        >>> engine.add_request(attn.serving.Request("b", b, 3))
        >>> engine.add_request(attn.serving.Request("c", b, 9))
        >>> engine.abort("c")
        True
        >>> tokens = engine.run()
        >>> alone = attn.generate(model, b[None], max_new_tokens=3)[0]
        >>> [4, 5, *tokens["b"]] == alone.tolist()
        True

    Source: vLLM ``LLMEngine`` (``add_request``, ``abort_request``, ``step``).
    """

    @arguments.named(of=Scheduler.__init__)
    def __init__(
        self,
        model: Transformer,
        *,
        num_pages: int,
        page_size: int = 16,
        enable_prefix_caching: bool = True,
        draft: Callable[[list[int]], Draft] | None = None,
        **options: Any,
    ):
        check_model(model, StateLayer)
        if draft is not None:
            arguments.function("draft", draft)
        self.model, self.draft, c = model, draft, model.config
        states = [isinstance(x.attention, StateLayer) for x in model.blocks]
        weight = model.token_embedding.weight
        pool = PagePool(
            num_pages,
            page_size,
            c.num_kv_heads or c.num_heads,
            c.head_dim or c.embed_dim // c.num_heads,
            c.value_dim,
            dtype=torch.mm(weight[:1, :1], weight[:1, :1]).dtype,  # autocast's
            device=weight.device,
        )
        others = (pool.another_layer() for _ in range(states.count(False) - 1))
        self.pools = [pool, *others]
        shares = enable_prefix_caching and not any(states)
        self.scheduler = Scheduler(
            pool,
            prefix_cache=PrefixCache(pool) if shares else None,
            can_crop=not any(states),
            **options,
        )
        self.margins: dict[Hashable, list[float]] = {}
        self._requests: dict[Hashable, Request] = {}
        self._failed: list[Request] = []  # in the step that runs

    def add_request(self, request: Request) -> None:
        """Append a request to those that wait.

        Raises:
            ValueError: the pool or the model has no room for it, a token is
                not in the vocabulary, or its id is taken.
        """
        if request.id in self._requests:
            raise ValueError(
                f"request must have an id of its own; got {request.id!r} again"
            )
        vocab_size = self.model.config.vocab_size
        if max(request.prompt_ids) >= vocab_size:
            raise ValueError(
                f"prompt_ids must be below the vocab_size, {vocab_size}; got "
                f"{max(request.prompt_ids)}"
            )
        check_length(self.model, request.max_tokens)
        self.scheduler.add(request)
        self._requests[request.id] = request
        self.margins[request.id] = []

    def abort(self, request: Request | Hashable) -> bool:
        """Stop a request, or the one with this id; return whether it was here.

        Its pages come back at once, those that it shares with the last of
        their users; ``output_ids`` keeps what it has written. One that has
        ended, or is unknown, stays as it is: clients cancel twice, or late.

        Source: vLLM ``LLMEngine.abort_request``.
        """
        return self.scheduler.abort(request)

    @torch.no_grad()
    def step(self) -> SchedulerOutput:
        """Run one forward pass; return what was scheduled for it.

        Requests are updated in place (``request.output_ids``).
        """
        output = self._step()
        failed, self._failed = self._failed, []
        for request in failed:
            error = request.error
            warnings.warn(
                f"request {request.id!r} ends with {type(error).__name__}, "
                f"its error: {error}",
                RuntimeWarning,
                stacklevel=3,
            )
        return output

    def _step(self) -> SchedulerOutput:
        self._guess()
        output = self.scheduler.schedule()
        counts = output.num_scheduled_tokens
        rows = [x for x in self.scheduler.running if x.id in counts]
        if not rows:
            return output
        try:
            with evaluating(self.model):
                logits, states = read_tokens(
                    self.model, self.pools, rows, output
                )
            tokens = self._choose(rows, output, logits)
        except BaseException as error:
            self.scheduler.discard()
            if not isinstance(error, Exception):
                raise  # an interrupt costs nothing: the step is run again
            self._fail(rows, error)
            return output
        read = [x.num_computed_tokens + counts[x.id] for x in rows]
        had = [len(x.output_ids) for x in rows]
        self.scheduler.update(output, tokens)
        for i, request in enumerate(rows):
            if request.num_computed_tokens == read[i]:
                request.states = [x.of(i) for x in states]
        for request, start in zip(rows, had, strict=True):
            try:
                for token in request.output_ids[start:]:
                    if request.on_token is not None and not request.aborted:
                        request.on_token(request, token)
            except Exception as error:
                self._fail([request], error)
        return output

    def run(self) -> dict[Hashable, list[int]]:
        """Run until every request has ended; return their new tokens.

        One that was aborted or has failed has fewer: ``finish_reason`` tells.
        """
        while self.scheduler.has_unfinished:
            self.step()
        return {x.id: x.output_ids for x in self._requests.values()}

    def _guess(self) -> None:
        """Draft for each request that has one token to read."""
        vocab_size = self.model.config.vocab_size
        for request in list(self.scheduler.running):
            room = request.max_new_tokens - len(request.output_ids) - 1
            missing = request.num_tokens - request.num_computed_tokens
            if self.draft is None or room < 1 or missing > 1:
                continue
            try:
                guess = trim(self.draft(request.token_ids), room, vocab_size)
                request.draft_ids = first_branch(guess)
            except Exception as error:
                self._fail([request], error)

    def _choose(
        self,
        requests: Sequence[Request],
        output: SchedulerOutput,
        logits: Tensor,
    ) -> dict[Hashable, list[int]]:
        """Return the new tokens of each request that samples.

        Each is chosen as in ``generate``. The next one is chosen, too, if
        the guess was this one.
        """
        best = logits.topk(2, -1).values  # (samples, 2)
        ahead = (best[:, 0] - best[:, 1]).tolist()
        tokens: dict[Hashable, list[int]] = {}
        row = 0
        for request in requests:
            if request.id not in output.samples:
                continue
            guesses = [*output.drafts.get(request.id, ()), None]
            new: list[int] = []
            try:
                for i, guess in enumerate(guesses, row):
                    if math.isnan(ahead[i]):
                        raise ValueError(
                            "model must return numbers as logits; got "
                            f"{float(best[i, 0])} for {request.id!r}"
                        )
                    new.append(request.sample(logits[i]))
                    if new[-1] != guess or new[-1] in request.ends:
                        break
                tokens[request.id] = new
                had = len(request.output_ids)  # a step may be run again
                self.margins[request.id][had:] = ahead[row : row + len(new)]
            except Exception as error:
                self._fail([request], error)
            row += len(guesses)
        return tokens

    def _fail(self, requests: Sequence[Request], error: Exception) -> None:
        """End requests with an error, which is theirs to read."""
        cause: BaseException | None = error
        while cause is not None:  # its frames would hold the step's tensors
            traceback.clear_frames(cause.__traceback__)
            cause = cause.__context__
        for request in requests:
            request.error = error
            self.scheduler.abort(request)
        self._failed += requests
