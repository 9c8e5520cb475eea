"""A model that serves many requests: schedule, run, sample, repeat."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import torch
from torch import Tensor

from attn import arguments
from attn.cache import PagePool
from attn.nn import MultiHeadAttention, Transformer
from attn.nn.generation import evaluating
from attn.positions import LearnedPositions
from attn.serving.packed import PackedCache
from attn.serving.prefix_cache import PrefixCache
from attn.serving.request import Request
from attn.serving.scheduler import Scheduler, SchedulerOutput


class Engine:
    """Continuous batching on a real model, with greedy tokens.

    A step is a call of ``Scheduler.schedule``, one forward pass over the
    tokens that it chose, and a call of ``Scheduler.update``. Every layer has
    a pool of its own, and all share one block table. The tokens of all
    requests, of parts of prompts and of answers, are one row without
    padding; attention alone tells the requests apart. On a GPU with Triton
    it is one call of ``attn.kernels.varlen_attention`` in each layer.
    Elsewhere, and with ALiBi, it is one for all requests that read equally
    many tokens, and there the keys of shorter ones are padded.

    Each request gets the tokens of ``attn.generate``, whatever runs beside
    it, up to near-ties: a product of matrices rounds differently for another
    number of rows, and where the two best logits differ by no more than
    that, another token may win. ``margins`` tells.

    Args:
        model: a causal ``attn.Transformer`` with a head.
        num_pages: of the pool; a page is one in every layer.
        page_size: tokens in a page.
        enable_prefix_caching: share the pages of equal beginnings.
        options: of the ``Scheduler``.

    Attributes:
        scheduler: with the requests that run and wait.
        margins: for each request, how far each of its tokens was ahead of
            the second best, in logits.

    Raises:
        TypeError, ValueError: the model has no keys and values to keep in
            pages, or no head.

    Example:
        >>> model = attn.Transformer(attn.llama_style(
        ...     vocab_size=50, embed_dim=16, num_layers=2, num_heads=4,
        ... ))
        >>> engine = attn.serving.Engine(model, num_pages=8, page_size=4)
        >>> a, b = torch.tensor([1, 2, 3]), torch.tensor([4, 5])
        >>> engine.add_request(attn.serving.Request("a", a, 5))
        >>> engine.add_request(attn.serving.Request("b", b, 3))
        >>> tokens = engine.run()
        >>> alone = attn.generate(model, b[None], max_new_tokens=3)[0]
        >>> [4, 5, *tokens["b"]] == alone.tolist()
        True

    Source: vLLM ``LLMEngine`` (``add_request``, ``step``).
    """

    @arguments.named(of=Scheduler.__init__)
    def __init__(
        self,
        model: Transformer,
        *,
        num_pages: int,
        page_size: int = 16,
        enable_prefix_caching: bool = True,
        **options: Any,
    ):
        check_model(model)
        self.model, c = model, model.config
        weight = model.token_embedding.weight
        pool = PagePool(
            num_pages,
            page_size,
            c.num_kv_heads or c.num_heads,
            c.head_dim or c.embed_dim // c.num_heads,
            c.value_dim,
            dtype=weight.dtype,
            device=weight.device,
        )
        others = (pool.another_layer() for _ in model.blocks[1:])
        self.pools = [pool, *others]
        prefix_cache = PrefixCache(pool) if enable_prefix_caching else None
        self.scheduler = Scheduler(pool, prefix_cache=prefix_cache, **options)
        self.margins: dict[Hashable, list[float]] = {}
        self._requests: dict[Hashable, Request] = {}

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
        learned = self.model.positions
        if isinstance(learned, LearnedPositions):
            most = len(learned.weight)
            if request.max_tokens > most:
                raise ValueError(
                    "max_new_tokens must leave at most "
                    f"{most} tokens to read, one for each learned position; "
                    f"got {request.max_tokens}, the prompt included"
                )
        self.scheduler.add(request)
        self._requests[request.id] = request
        self.margins[request.id] = []

    @torch.no_grad()
    def step(self) -> SchedulerOutput:
        """Run one forward pass; return what was scheduled for it.

        Requests are updated in place (``request.output_ids``).
        """
        output = self.scheduler.schedule()
        counts = output.num_scheduled_tokens
        rows = [x for x in self.scheduler.running if x.id in counts]
        tokens: dict[Hashable, int] = {}
        if rows:
            with evaluating(self.model):
                logits = self._forward(rows, output)
            best = logits.topk(2, -1)  # (samples, 2)
            margins = (best.values[:, 0] - best.values[:, 1]).tolist()
            tokens = dict(
                zip(output.samples, logits.argmax(-1).tolist(), strict=True)
            )
            for name, margin in zip(tokens, margins, strict=True):
                self.margins[name].append(margin)
        self.scheduler.update(output, tokens)
        return output

    def run(self) -> dict[Hashable, list[int]]:
        """Run until every request has ended; return their new tokens."""
        while self.scheduler.has_unfinished:
            self.step()
        return {x.id: x.output_ids for x in self._requests.values()}

    def _forward(
        self, requests: Sequence[Request], output: SchedulerOutput
    ) -> Tensor:
        """Read the tokens of a step; return logits of those that sample."""
        device = self.pools[0].key.device
        counts = [output.num_scheduled_tokens[x.id] for x in requests]
        ids: list[int] = []
        positions: list[int] = []
        ends = []
        for request, count in zip(requests, counts, strict=True):
            start = request.num_computed_tokens
            ids += request.token_ids[start : start + count]
            positions += range(start, start + count)
            if request.id in output.samples:
                ends.append(len(ids) - 1)
        pages = [x.pages for x in requests]
        read = [x.num_computed_tokens for x in requests]
        caches = [PackedCache.at(pool, pages, read) for pool in self.pools]
        for cache in caches:
            cache.counts = counts
        logits = self.model(
            torch.tensor([ids], device=device),  # (1, T)
            positions=torch.tensor([positions], device=device),
            caches=caches,
            logits_to_keep=torch.tensor(ends, dtype=torch.long, device=device),
        )[0]  # (samples, V)
        if bool(logits.isnan().any()):
            raise ValueError(
                "model must return numbers as logits; got NaN for "
                f"{list(output.samples)}"
            )
        return logits


def check_model(model: Any) -> None:
    """Require a language model whose layers all have keys and values."""
    if not isinstance(model, Transformer):
        raise TypeError(
            "model must be an attn.Transformer; got "
            f"{type(model).__name__}: attn.hf.load converts one of "
            "transformers"
        )
    c = model.config
    if not (c.head and c.is_causal):
        raise ValueError(
            "model must be causal and end with logits; got is_causal="
            f"{c.is_causal}, head={c.head}"
        )
    for block in model.blocks:
        layer = getattr(block, "attention", None)
        if not isinstance(layer, MultiHeadAttention):
            raise TypeError(
                "model must have MultiHeadAttention in every layer, whose "
                "keys and values fit in pages; got "
                f"{type(layer).__name__}"
            )
