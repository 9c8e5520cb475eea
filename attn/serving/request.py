"""A prompt to be continued, and how far it is."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from attn import arguments, tracing
from attn.nn.sampling import check_sampling, next_tokens


@dataclass(eq=False)
class Request:
    """A prompt, its limits, and the state that a scheduler keeps of it.

    Args:
        id: any name, unique within a scheduler.
        prompt_ids: tokens of the prompt, integers ``(L,)``, at least one.
        max_new_tokens: most tokens to produce, at least 1.
        eos: the token that ends the text, or several.
        arrival: when it arrives, in seconds, for ``simulate``.
        temperature, top_k, top_p, min_p: as in ``attn.generate``.
        seed: of its own random numbers, which no other request shares;
            PyTorch's own when None.
        on_token: called with the request and each new token. An exception
            ends the request, and no other.

    Attributes:
        output_ids: tokens produced so far; preemption keeps them.
        aborted, error: whether it was stopped, and by which exception.
        num_computed_tokens: tokens whose keys and values are stored, those
            of a shared prefix included.
        pages: the block table: page ``i`` holds the tokens from
            ``i * page_size``.
        states: what layers with a state hold of the computed tokens.
        draft_ids: guesses that the next step checks.

    Raises:
        ValueError, TypeError: an argument is wrong.

    Example:
        >>> request = attn.serving.Request("a", [5, 6, 7], max_new_tokens=2)
        >>> request.append(8), request.append(9)
        (False, True)
        >>> request.token_ids
        [5, 6, 7, 8, 9]

    Source: vLLM ``Request`` (``vllm/v1/request.py``), whose sampling is in
    ``SamplingParams``.
    """

    id: Hashable
    prompt_ids: Sequence[int] | Tensor
    max_new_tokens: int
    eos: int | Sequence[int] | None = None
    arrival: float = 0.0
    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    seed: int | None = None
    on_token: Callable[[Request, int], Any] | None = None
    output_ids: list[int] = field(default_factory=list, init=False)
    aborted: bool = field(default=False, init=False)
    error: Exception | None = field(default=None, init=False)
    num_computed_tokens: int = field(default=0, init=False)
    pages: list[int] = field(default_factory=list, init=False)
    states: list[Any] = field(default_factory=list, init=False, repr=False)
    draft_ids: list[int] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.prompt_ids = as_ids("prompt_ids", self.prompt_ids)
        if not self.prompt_ids:
            raise ValueError("prompt_ids must have a token; got none")
        arguments.count("max_new_tokens", self.max_new_tokens)
        ends = [] if self.eos is None else self.eos
        ends = ends if isinstance(ends, Sequence | Tensor) else [ends]
        self.ends = frozenset(as_ids("eos", ends))
        names = ("top_k", "top_p", "min_p")
        self._filters = {name: getattr(self, name) for name in names}
        check_sampling(self.temperature, **self._filters)
        if self.seed is not None:
            arguments.count("seed", self.seed, 0)
        if self.on_token is not None:
            arguments.function("on_token", self.on_token)
        self._generator: torch.Generator | None = None

    @property
    def token_ids(self) -> list[int]:
        """Return the prompt, and what was produced."""
        return [*self.prompt_ids, *self.output_ids]

    @property
    def num_tokens(self) -> int:
        """Return the number of ``token_ids``."""
        return len(self.prompt_ids) + len(self.output_ids)

    @property
    def max_tokens(self) -> int:
        """Return the most tokens that it stores: the last is never read."""
        return len(self.prompt_ids) + self.max_new_tokens - 1

    @property
    def finish_reason(self) -> str | None:
        """Return why no token may follow; None where one may.

        ``"error"``, ``"abort"``, ``"stop"`` (its ``eos``) or ``"length"``.
        """
        if self.error is not None or self.aborted:
            return "abort" if self.error is None else "error"
        if self.output_ids and self.output_ids[-1] in self.ends:
            return "stop"
        is_full = len(self.output_ids) >= self.max_new_tokens
        return "length" if is_full else None

    @property
    def is_finished(self) -> bool:
        """Return whether no token may follow."""
        return self.finish_reason is not None

    def append(self, token: int) -> bool:
        """Add a produced token; return whether it was the last."""
        self.output_ids.append(int(token))
        return self.is_finished

    def sample(self, logits: Tensor) -> int:
        """Choose the next token, of logits ``(V,)``."""
        if self.seed is not None and self._generator is None:
            self._generator = torch.Generator(logits.device)
            self._generator.manual_seed(self.seed)
        wide = torch.promote_types(logits.dtype, torch.float32)
        options = (self.temperature, self._generator)
        new = next_tokens(logits[None].to(wide), *options, **self._filters)
        return int(new)


def as_ids(name: str, ids: Sequence[int] | Tensor) -> list[int]:
    """Return tokens as a list of ints, 0 or more."""
    if isinstance(ids, Tensor):
        if ids.dim() != 1 or ids.dtype not in (torch.int64, torch.int32):
            raise TypeError(
                f"{name} must be integers (L,), of one text; got {ids.dtype} "
                f"of shape {tuple(ids.shape)}"
            )
        tracing.require_values("which are tokens", **{name: ids})
        ids = ids.tolist()
    if not isinstance(ids, Sequence) or isinstance(ids, str):
        raise TypeError(
            f"{name} must be a sequence of ints, or a tensor of them; got "
            f"{type(ids).__name__}"
        )
    ids = list(ids)
    for token in ids:
        arguments.count(name, token, 0)
    return ids
