"""The checks that modules share; attention itself has its own."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import torch
from torch import Tensor

from attn import arguments
from attn.api import registry
from attn.backends.registry import check_registry
from attn.cache import Cache, SlidingCache
from attn.cache import validation as cache_validation
from attn.cost.attention import check_heads
from attn.functional import validation as of_calls
from attn.positions import NoRope, Rope


def sizes(
    embed_dim: int, num_heads: int, num_kv_heads: int, head_dim: int | None
) -> None:
    """Require positive sizes that divide each other."""
    arguments.counts(embed_dim=embed_dim, num_heads=num_heads)
    arguments.count("num_kv_heads", num_kv_heads)
    check_heads(num_heads, num_kv_heads)
    if head_dim is None and embed_dim % num_heads:
        raise ValueError(
            "embed_dim must be a multiple of num_heads, or head_dim must be "
            f"given; got {embed_dim} and {num_heads}"
        )


def given_tensors(query: Any, **others: Any) -> None:
    """Require tensors, or None but for the query."""
    arguments.tensor("query", query)
    for name, x in others.items():
        if x is not None:
            arguments.tensor(name, x)


def options(
    dropout: Any,
    norm_eps: Any,
    scale: Any,
    impl: str,
    own: Any,
    window: Any = None,
    softcap: Any = None,
) -> None:
    """Require what each call would require, when a module is made."""
    arguments.number("dropout", dropout, 0)
    arguments.number("norm_eps", norm_eps, 0)
    if dropout > 1.0:
        raise ValueError(f"dropout must be 0 to 1; got {dropout}")
    of_calls.window(window)
    of_calls.softcap(softcap)
    of_calls.scale(scale, 1)
    if own is not None:
        check_registry(own)
    if impl != "auto":
        _ = (own or registry)[impl]  # raises if unknown


def tokens(name: str, x: Any, size: int) -> None:
    """Require dense tokens of the module's size, ``(B, L, E)``."""
    arguments.tensor(name, x)
    if x.dim() != 3 or x.is_nested:
        got = "a nested tensor" if x.is_nested else tuple(x.shape)
        raise ValueError(f"{name} must be dense, (B, L, E); got {got}")
    features(name, x, size)


def features(name: str, x: Any, size: int, weight: Any = None) -> None:
    """Require a float tensor of the module's size, and of its dtype."""
    arguments.tensor(name, x, floating=True)
    if x.shape[-1:] != (size,):
        raise ValueError(
            f"{name} must have embeddings of size {size}, as the module; got "
            f"{x.shape[-1] if x.dim() else 'no axis'}"
        )
    # Quantized weights have a dtype of their own, and autocast casts.
    if isinstance(weight, Tensor):
        arguments.same_device(name, x, "the module", weight)
    own = getattr(weight, "dtype", x.dtype)
    if x.dtype == own or not own.is_floating_point or own.itemsize < 2:
        return
    if not torch.is_autocast_enabled(x.device.type):
        raise TypeError(
            f"{name} must have the dtype of the module, {own}; got {x.dtype}: "
            f"pass {name}.to({own}), or use torch.autocast"
        )


def implementation(name: str, impl: str) -> None:
    """Require the name of an implementation in the default registry."""
    if impl != "auto" and impl not in registry:
        raise ValueError(
            f"{name} must be 'auto', one of {tuple(registry)}, or a class; "
            f"got {impl!r}"
        )


def rope(
    rope: Any, head_dim: int, alibi: bool = False, is_part: bool = False
) -> None:
    """Require no rotation, or one of the heads, without ALiBi.

    Where ``is_part``, it may rotate fewer elements than a head has.
    """
    if rope is None:
        return
    if not isinstance(rope, Rope | NoRope):
        raise TypeError(
            f"rope must be Rope({head_dim}), NoRope({head_dim}) or None; got "
            f"{rope!r}"
        )
    if rope.head_dim > head_dim or rope.head_dim < head_dim and not is_part:
        needs = "at most the head_dim" if is_part else "the queries' head_dim"
        raise ValueError(
            f"rope must have {needs}, {head_dim}; got {rope.head_dim}"
        )
    if alibi:
        raise ValueError(
            "alibi must be False with rope: positions count once; got True"
        )


def attn_mask(mask: Any) -> None:
    """Refuse a tokenizer's integers, which a user may take for a mask."""
    if isinstance(mask, Tensor) and not (
        mask.dtype == torch.bool or mask.is_floating_point()
    ):
        raise TypeError(
            "attn_mask must be bool (True = may attend) or float; got "
            f"{mask.dtype}: padding is key_padding_mask (True = padding), "
            "attn_mask=attn.padding(valid), or a model's attention_mask"
        )


def inputs(module: Any, query: Tensor, key: Tensor, value: Tensor) -> None:
    """Require query, key and value of the module's sizes and one batch."""
    given = [("query", query, module.embed_dim)]
    is_self = key is query and value is query
    if not (is_self and module.embed_dim == module.kdim == module.vdim):
        given += [("key", key, module.kdim), ("value", value, module.vdim)]
    weight = getattr(module.out_proj, "weight", None)
    for name, x, size in given:
        if x.dim() not in (2, 3) or x.dim() != query.dim():
            raise ValueError(
                f"{name} must have shape (B, L, E), or all three (L, E); got "
                f"{tuple(x.shape)}"
            )
        features(name, x, size, weight)
        if x.shape[:-2] != query.shape[:-2]:
            raise ValueError(
                f"{name} must have the batch size of query, {len(query)}; "
                f"got {len(x)}"
            )


def cache(query: Tensor, is_self: bool, **others: Any) -> None:
    """Require a call that a cache supports."""
    if not is_self or query.dim() != 3 or query.is_nested:
        raise ValueError(
            "with a cache, the call must be self-attention of a dense query "
            "(B, L, E)"
        )
    arguments.absent("with a cache, which provides it", **others)


def caches(caches: Any, num_blocks: int) -> None:
    """Require a cache of its own for each block, all of the same tokens."""
    need = "a sequence with one entry for each block"
    arguments.instance("caches", caches, Sequence, need)
    if len(caches) != num_blocks:
        raise ValueError(
            f"caches must have one entry for each block, {num_blocks}; got "
            f"{len(caches)}"
        )
    if any(a is b for a, b in combinations(caches, 2)):
        raise ValueError(
            "caches must be different objects, because a block does not read "
            "the keys of another; got one several times: make each in turn, "
            f"[… for _ in range({num_blocks})]"
        )
    if torch.compiler.is_compiling():
        return
    read = {x.seq_len for x in caches if isinstance(x.seq_len, int)}
    if len(read) > 1:
        raise ValueError(
            "caches must have read the same tokens; got "
            f"{' and '.join(map(str, sorted(read)))} of them"
        )


def lengths(lengths: Any, x: Tensor, **others: Any) -> Tensor | None:
    """Return the number of real tokens in each row of ``(B, L, E)``."""
    if lengths is None:
        return None
    for name, other in others.items():
        if other is not None:
            arguments.absent(f"with {name}, which says more", lengths=lengths)
    cache_validation.lengths(lengths, x.shape[0], x.shape[1])
    return lengths.to(x.device, torch.long)


def cached_lengths(
    given: Any, x: Tensor, cache: Any, key_padding_mask: Any
) -> Tensor | None:
    """Return the number of real tokens in each row, which a cache stores."""
    if cache is None:
        why = "without a cache: pass a key_padding_mask"
        arguments.absent(why, lengths=given)
    return lengths(given, x, key_padding_mask=key_padding_mask)


def cached_padding(mask: Tensor | None, cache: Cache, length: int) -> None:
    """Require padding of all tokens: those in a cache and the new ones."""
    lengths = cache.mask_lengths(length)
    if mask is not None and mask.shape[-1] not in lengths:
        raise ValueError(
            "key_padding_mask must cover all tokens with a cache, "
            f"{' or '.join(map(str, lengths))}; got {mask.shape[-1]}"
        )
    if isinstance(cache, SlidingCache) and isinstance(cache.seq_len, Tensor):
        why = "with a SlidingCache whose rows have different lengths"
        arguments.absent(why, key_padding_mask=mask)


def positions(name: str, x: Tensor, tokens: Tensor) -> Tensor:
    """Return ``x``: ``(L,)``, ``(1, L)`` or ``(B, L)``, as the tokens."""
    arguments.tensor(name, x)
    batch, length = tokens.shape[0], tokens.shape[-2]
    if x.shape not in ((length,), (1, length), (batch, length)):
        raise ValueError(
            f"{name} must have shape (L,) or (B, L) with B = {batch} and "
            f"L = {length}; got {tuple(x.shape)}"
        )
    return x
