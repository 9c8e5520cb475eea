"""The logits of the next token, from models of several kinds, with caches."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attn.cache import Cache, StaticCache
from attn.nn.empty_caches import CACHES
from attn.nn.ragged_prompts import ragged_logits
from attn.nn.transformer import Transformer
from attn.positions import LearnedPositions, position_ids

#: From all ids ``(B, L)`` and the attention mask to logits ``(B, V)``.
NextLogits = Callable[..., Tensor]


def next_logits(
    model: Any,
    cache: Any,
    ids: Tensor,
    mask: Tensor | None,
    length: int,
    lengths: Tensor | None = None,
) -> NextLogits:
    """Return the function that runs a model on the tokens it has not read.

    The arguments are those of ``generate``; ``length`` is the number of
    tokens that the model reads, at most.
    """
    if isinstance(cache, str) and cache not in CACHES:
        raise ValueError(
            f"cache must be one of {CACHES}, caches, or None; got {cache!r}"
        )
    original = getattr(model, "_orig_mod", model)  # of torch.compile
    if isinstance(original, Transformer):
        return _of_attn(model, original, cache, ids, length, lengths)
    if lengths is not None:
        raise ValueError(
            "model must be an attn.Transformer with lengths; got "
            f"{type(model).__name__}: pad on the left, with an attention_mask"
        )
    if hasattr(original, "prepare_inputs_for_generation"):
        return _of_transformers(model, cache, ids, length)
    if cache is not None or mask is not None:
        raise ValueError(
            "model must be an attn.Transformer, or a language model of "
            "transformers that generates, to use a cache or padding; got "
            f"{type(model).__name__}. Any function from ids to logits writes "
            "with cache=None and no attention_mask"
        )

    def step(ids: Tensor, mask: Tensor | None) -> Tensor:
        logits = model(ids)
        shape = getattr(logits, "shape", ())
        if len(shape) != 3 or shape[:2] != ids.shape:
            raise ValueError(
                f"model must return logits (B, L, V), {tuple(ids.shape)} and "
                f"V; got {type(logits).__name__} of shape {tuple(shape)}"
            )
        return logits[:, -1]

    return step


def _of_attn(
    model: Any,
    original: Transformer,
    cache: Any,
    ids: Tensor,
    length: int,
    lengths: Tensor | None,
) -> NextLogits:
    check_predicts(original.config)
    check_length(original, length)
    caches = cache
    if isinstance(cache, str):
        caches = original.new_caches(cache, batch=len(ids), capacity=length)
    sizes = _capacities(caches, length)
    if lengths is not None:
        return ragged_logits(model, caches, ids, lengths)
    read = _tokens_read(caches, ids)

    def step(ids: Tensor, mask: Tensor | None) -> Tensor:
        nonlocal read
        positions = None
        if mask is not None:
            positions = position_ids(mask)[:, read:].contiguous()
            if sizes:  # one shape for all steps, as a compiled graph needs
                mask = F.pad(mask, (0, sizes[0] - mask.shape[1]))
        logits = model(
            ids[:, read:].clone(memory_format=torch.contiguous_format),
            attention_mask=mask,
            positions=positions,
            caches=caches,
            logits_to_keep=1,
        )
        read = 0 if caches is None else ids.shape[1]
        return logits[:, -1]

    return step


def check_predicts(config: Any) -> None:
    """Require a model that predicts the next token."""
    if not (config.head and config.is_causal):
        raise ValueError(
            "model must be causal and end with logits; got is_causal="
            f"{config.is_causal}, head={config.head}"
        )


def check_length(model: Any, length: int) -> None:
    """Require a position for each token that a model reads of a text."""
    learned = model.positions
    if isinstance(learned, LearnedPositions) and length > len(learned.weight):
        raise ValueError(
            f"max_new_tokens must leave at most {len(learned.weight)} tokens "
            "to read, one for each learned position; got "
            f"{length}, the prompt included"
        )


def _capacities(caches: Any, length: int) -> list[int]:
    """Return the sizes of static caches, which must have room for a text."""
    if caches is None:
        return []
    if not isinstance(caches, Sequence) or not all(
        isinstance(x, Cache) for x in caches
    ):
        raise TypeError(
            "cache must be caches of attn, one for each block of the model, "
            f"one of {CACHES}, or None; got {type(caches).__name__}"
        )
    sizes = [x.capacity for x in caches if isinstance(x, StaticCache)]
    if sizes and min(sizes) < length:
        raise ValueError(
            f"cache must have a capacity of {length}, for the prompt and "
            f"max_new_tokens - 1; got {min(sizes)}"
        )
    return sizes


def _tokens_read(caches: Any, ids: Tensor) -> int:
    """Return how many tokens caches have read: fewer than the prompt has."""
    if not caches:  # none, or those of a model without blocks
        return 0
    seen = torch.as_tensor(caches[0].seq_len)
    read = int(seen.max())
    if not bool((seen == read).all()):
        raise ValueError(
            "cache must have read equally many tokens in each row without "
            f"lengths; got {seen.tolist()}"
        )
    _check_read(read, ids)
    return read


def _check_read(read: int, ids: Tensor) -> None:
    """Require a token that the caches have not read."""
    if read >= ids.shape[1]:
        raise ValueError(
            f"ids must go on after the {read} tokens in the cache, which "
            f"are its first; got {ids.shape[1]} in all"
        )


def _of_transformers(
    model: Any, cache: Any, ids: Tensor, length: int
) -> NextLogits:
    if model.config.is_encoder_decoder:
        raise ValueError(
            "model must be a decoder; got an encoder with a decoder, "
            f"{type(model).__name__}: use its own generate"
        )
    if cache == "sliding":
        raise ValueError(
            "cache must be 'dynamic' for a model of transformers: its cache "
            "keeps no more than its windows need; got 'sliding'"
        )
    options: dict[str, Any] = {"use_cache": cache is not None}
    names = inspect.signature(model.forward).parameters
    if "logits_to_keep" in names:
        options["logits_to_keep"] = 1
    past = None if isinstance(cache, str) else cache
    if cache == "static":
        from transformers import StaticCache as TheirStaticCache

        past = TheirStaticCache(config=model.config, max_cache_len=length)
    if past is not None and not hasattr(past, "get_seq_length"):
        raise TypeError(
            "cache must be one of transformers for a model of transformers, "
            f"'dynamic', 'static', or None; got {type(past).__name__}"
        )
    read = 0 if past is None else int(past.get_seq_length())
    _check_read(read, ids)

    def step(ids: Tensor, mask: Tensor | None) -> Tensor:
        nonlocal past, read
        if mask is not None and "position_ids" in names:
            options["position_ids"] = position_ids(mask)[:, read:]
        if mask is not None and cache == "static":  # Bloom needs all of it
            mask = F.pad(mask, (0, length - mask.shape[1]))
        out = model(
            ids[:, read:],
            attention_mask=mask,
            past_key_values=past,
            **options,
        )
        if options["use_cache"]:
            past, read = out.past_key_values, ids.shape[1]
        return out.logits[:, -1]

    return step
