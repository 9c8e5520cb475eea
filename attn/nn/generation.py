"""Text from a language model, token by token."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from attn import arguments, tracing
from attn.nn.decoding import next_logits
from attn.nn.ragged_prompts import close_gap, real_tokens
from attn.nn.sampling import (
    check_sampling,
    next_tokens,
    penalize_repetition,
)


@torch.no_grad()
@arguments.named()
def generate(
    model: Any,
    ids: Tensor,
    max_new_tokens: int,
    *,
    attention_mask: Tensor | None = None,
    lengths: Tensor | None = None,
    temperature: float = 0.0,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    repetition_penalty: float = 1.0,
    eos: int | Sequence[int] | None = None,
    cache: Any = "dynamic",
    streamer: Any = None,
    generator: torch.Generator | None = None,
    progress: bool | None = None,
) -> Tensor:
    """Continue texts by the tokens that a language model predicts.

    Each step reads the tokens that are not in the cache, takes the logits of
    the last one, lowers those of repeated tokens, and appends the most likely
    token or, with a ``temperature``, one that is drawn after the filters of
    ``filter_logits``. The model runs in evaluation mode.

    Args:
        model: an ``attn.Transformer``; or a causal language model of
            transformers, with ``attn.hf.attach`` or without; or, with
            ``cache=None``, any function from ids ``(B, L)`` to logits
            ``(B, L, V)``.
        ids: the prompts, ``(B, L)``, with padding on the left; or on the
            right, with ``lengths``.
        max_new_tokens: most tokens to append.
        attention_mask: ``(B, L)``, 1 for a real token; all are when None.
        lengths: number of real tokens in each prompt, ``(B,)``, for an
            ``attn.Transformer``. Its caches store only these.
        temperature: 0 takes the most likely token; otherwise as in
            ``filter_logits``.
        top_k, top_p, min_p: as in ``filter_logits``.
        repetition_penalty: as in ``penalize_repetition``.
        eos: the token that ends a text, or several. A row that has ended is
            filled with the first of them.
        cache: ``"dynamic"``; ``"static"``, of fixed size, for a model that
            is compiled; ``"sliding"``, which keeps what the model's windows
            need; None computes the whole text at every step. Or caches that
            have read the first tokens of ``ids``: one for each block, or a
            cache of transformers.
        streamer: called with the new tokens ``(B,)`` of each step; or an
            object such as transformers' ``TextStreamer``, whose ``put`` gets
            the prompt, then the tokens, and whose ``end`` is called last.
        generator: of the random numbers; PyTorch's own when None.
        progress: show a bar; on a terminal, without a streamer, when None.

    Returns:
        Prompts and new tokens, ``(B, L + N)``. ``N`` is ``max_new_tokens``,
        or less when every row has ended. With ``lengths``, the new tokens
        come before the padding.

    Raises:
        ValueError, TypeError: an argument is wrong.

    Example:
        >>> config = attn.llama_style(
        ...     vocab_size=100, embed_dim=32, num_layers=2, num_heads=4,
        ... )
        >>> model = attn.Transformer(config)
        >>> prompt = torch.tensor([[1, 2, 3]])
        >>> ids = attn.generate(model, prompt, max_new_tokens=5)
        >>> ids.shape, torch.equal(ids[:, :3], prompt)
        (torch.Size([1, 8]), True)

    Source: transformers ``GenerationMixin.generate``, equal token for token.
    """
    _check_prompt(ids, attention_mask, max_new_tokens)
    if attention_mask is not None:
        why = "with attention_mask, which is of padding on the left"
        arguments.absent(why, lengths=lengths)
    arguments.positive("repetition_penalty", repetition_penalty)
    _check_callables(streamer, generator)
    filters: dict[str, Any] = {"top_k": top_k, "top_p": top_p, "min_p": min_p}
    check_sampling(temperature, **filters)
    length = ids.shape[1] + max_new_tokens - 1  # the last one is not read
    mask, prompt_len = attention_mask, ids.shape[1]
    if mask is not None and _all_true(mask):
        mask = None
    if lengths is not None:
        lengths, mask = real_tokens(ids, lengths)
    predict = next_logits(model, cache, ids, mask, length, lengths)
    ends = _ends(eos, ids)
    running = torch.ones(len(ids), dtype=torch.bool, device=ids.device)
    with (
        evaluating(model),
        _bar(max_new_tokens, progress, streamer) as advance,
        _streaming(streamer, ids) as emit,
    ):
        for _ in range(max_new_tokens):
            logits = predict(ids, mask)  # (B, V)
            logits = logits.to(torch.promote_types(logits.dtype, torch.float))
            largest = logits.amax(-1)  # NaN if one is
            is_known = tracing.has_values(largest)
            if is_known and not bool((largest > -torch.inf).all()):
                raise ValueError(
                    "model must return numbers as logits; got "
                    f"{float(largest.min())} after {ids.shape[1]} tokens"
                )
            if repetition_penalty != 1:
                logits = penalize_repetition(
                    logits, ids, repetition_penalty, mask
                )
            new = next_tokens(logits, temperature, generator, **filters)
            if len(ends):
                new = torch.where(running, new, ends[0])
                running &= ~torch.isin(new, ends)
            ids = torch.cat([ids, new[:, None].to(ids.dtype)], 1)
            if mask is not None:
                mask = torch.cat([mask, torch.ones_like(mask[:, :1])], 1)
            emit(new)
            advance()
            if len(ends) and _all_true(~running):
                break
    return ids if lengths is None else close_gap(ids, lengths, prompt_len)


def _check_prompt(
    ids: Tensor, attention_mask: Tensor | None, max_new_tokens: int
) -> None:
    """Require ids with a token in each row, and padding on the left."""
    arguments.tensor("ids", ids)
    if ids.dim() != 2 or ids.dtype not in (torch.int64, torch.int32):
        raise TypeError(
            f"ids must be integers (B, L); got {ids.dtype} of shape "
            f"{tuple(ids.shape)}"
        )
    if 0 in ids.shape:
        raise ValueError(
            "ids must have a row and a token to continue from; got shape "
            f"{tuple(ids.shape)}"
        )
    arguments.count("max_new_tokens", max_new_tokens)
    if attention_mask is None:
        return
    arguments.tensor("attention_mask", attention_mask)
    if attention_mask.shape != ids.shape:
        raise ValueError(
            f"attention_mask must have the shape of ids, {tuple(ids.shape)}; "
            f"got {tuple(attention_mask.shape)}"
        )
    last = attention_mask[:, -1]
    if tracing.has_values(last) and not bool(last.bool().all()):
        raise ValueError(
            "attention_mask must end with 1 in every row, as padding "
            "belongs on the left; got 0"
        )


def _all_true(x: Tensor) -> bool:
    """Return whether all elements are true, as far as they can be read."""
    return tracing.has_values(x) and bool(x.bool().all())


def _ends(eos: Any, ids: Tensor) -> Tensor:
    """Return the tokens that end a text, like ``ids``."""
    ends = eos.tolist() if isinstance(eos, Tensor) else eos
    ends = ends if isinstance(ends, list | tuple) else [ends]
    for token in () if eos is None else ends:
        arguments.count("eos", token, 0)
    return ids.new_tensor([] if eos is None else ends)


def _check_callables(streamer: Any, generator: Any) -> None:
    if not (
        streamer is None or callable(streamer) or hasattr(streamer, "put")
    ):
        raise TypeError(
            "streamer must be a function of tokens, or have put and end; got "
            f"{streamer!r}"
        )
    if not (generator is None or isinstance(generator, torch.Generator)):
        raise TypeError(
            f"generator must be a torch.Generator; got {generator!r}"
        )


@contextlib.contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """Put a model into evaluation mode, and each part back as it was."""
    modules = list(model.modules()) if isinstance(model, nn.Module) else []
    training = [x for x in modules if x.training]
    for module in training:
        module.training = False
    try:
        yield
    finally:
        for module in training:
            module.training = True


@contextlib.contextmanager
def _streaming(
    streamer: Any, ids: Tensor
) -> Iterator[Callable[[Tensor], Any]]:
    """Yield what each step's tokens are passed to."""
    if streamer is None:
        yield lambda new: None
    elif not hasattr(streamer, "put"):
        yield lambda new: streamer(new.cpu())
    else:
        streamer.put(ids.cpu())
        try:
            yield lambda new: streamer.put(new.cpu())
        finally:
            streamer.end()


@contextlib.contextmanager
def _bar(
    steps: int, progress: bool | None, streamer: Any
) -> Iterator[Callable[[], Any]]:
    """Yield a function that advances a progress bar by one token."""
    if progress is None and streamer is not None:
        progress = False
    try:
        from tqdm import tqdm
    except ImportError:  # the package itself needs torch alone
        yield lambda: None
        return
    # tqdm's disable=None is: shown on a terminal only.
    disable = None if progress is None else not progress
    with tqdm(total=steps, unit="token", leave=False, disable=disable) as bar:
        yield bar.update
