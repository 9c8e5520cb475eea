"""Calls that were seen: validated once, and their backend selected once.

A model makes the same call in each layer, and a loop in each step. Validation
and selection read the shapes, dtypes, devices and options of a call, never
its numbers: they are the key, and equal keys share the outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attn.backends import cpu_gqa, sdpa
from attn.backends.registry import Implementation, Registry, registry
from attn.functional.attention import grouped
from attn.functional.inputs import AttentionInputs
from attn.masks import Mask
from attn.tracing import in_graph, in_transform

__all__ = ["call_key", "recall", "remember"]

MOST = 1024  # calls
_SCALARS = frozenset((bool, int, float, type(None)))


class _Outcome(NamedTuple):
    """The fields of ``AttentionInputs`` but the tensors, and the backend."""

    fields: dict[str, Any]
    implementation: Implementation
    repeated: sdpa.Repeated | None  # where torch's function is all of it


#: What makes the function of calls like one, for some backends.
_REPEATED: dict[Any, Callable[[AttentionInputs], sdpa.Repeated | None]] = {
    sdpa.run: sdpa.repeated,
    cpu_gqa.run: cpu_gqa.repeated,
}


_outcomes: dict[Hashable, _Outcome] = {}


def call_key(
    own: Registry,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    options: dict[str, Any],
    return_lse: bool,
) -> Hashable | None:
    """Return all that decides on a call; None where more may decide.

    That is so for other implementations than the built-in ones, whose
    conditions may read anything; for measured ones; for sinks, and for a
    ``Mask`` or a ``q_offset`` that holds tensors; in a transform of
    ``torch.func``; and in a graph that is being traced.
    """
    if in_graph() or in_transform() or not _is_plain(own):
        return None
    for x in (query, key, value):
        if type(x) is not Tensor or x.is_nested or x.layout != torch.strided:
            return None
    mask, dropout_p, is_causal, scale, gqa, softcap, sinks, window, start = (
        options.values()
    )
    scalars: tuple[Any, ...] = (
        dropout_p, is_causal, scale, gqa, softcap, start, return_lse,
    )  # fmt: skip
    if window is not None:
        scalars += window if type(window) is tuple else (window,)
    kinds = tuple(map(type, scalars))  # True equals 1, and is no q_offset
    if sinks is not None or not _SCALARS.issuperset(kinds):
        return None
    traits: Hashable = None
    if type(mask) is Tensor:
        traits = (mask.shape, mask.dtype, mask.device, mask.requires_grad)
    elif isinstance(mask, Mask) and mask.is_relative:
        traits = (mask.terms, mask.extent)  # numbers say all of it
    elif mask is not None:
        return None
    needs_grad = torch.is_grad_enabled() and (
        query.requires_grad or key.requires_grad or value.requires_grad
    )
    # Flat: a tuple of tuples takes twice as long to make and to compare.
    return (
        own.changes,
        query.shape,
        query.dtype,
        query.device,
        query.stride(-1),
        key.shape,
        key.dtype,
        key.device,
        key.stride(),
        value.shape,
        value.dtype,
        value.device,
        value.stride(-1),
        needs_grad,
        scalars,
        kinds,
        traits,
    )


def _is_plain(own: Registry) -> bool:
    """Return whether auto selects one of the built-in backends, in order.

    It stops at ``grouped``, which computes every call, before it gets to
    what was added.
    """
    if own is not registry or own.default != "auto" or own.seconds:
        return False
    return _has_its_last(own.changes)


@lru_cache(maxsize=1)
def _has_its_last(_changes: int) -> bool:
    last = registry.get("grouped")
    return last is not None and last.function is grouped


def recall(
    call: Hashable,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    options: dict[str, Any],
    return_lse: bool,
) -> Any:
    """Compute a call that was seen; return None for another."""
    outcome = _outcomes.get(call)
    if outcome is None:
        return None
    mask = options["attn_mask"]
    mask = mask if isinstance(mask, Tensor) else None
    if outcome.repeated is not None:
        return outcome.repeated(query, key, value, mask)
    inputs = object.__new__(AttentionInputs)
    vars(inputs).update(
        outcome.fields, query=query, key=key, value=value, attn_mask=mask
    )
    return outcome.implementation.run(inputs, options, return_lse, {})


def remember(
    call: Hashable,
    inputs: AttentionInputs,
    implementation: Implementation,
) -> None:
    """Keep the outcome of a call, without its tensors."""
    if len(_outcomes) >= MOST:
        _outcomes.clear()
    tensors = ("query", "key", "value", "attn_mask")
    fields = {n: x for n, x in vars(inputs).items() if n not in tensors}
    repeat = _REPEATED.get(implementation.function)
    repeated = repeat and repeat(inputs)
    _outcomes[call] = _Outcome(fields, implementation, repeated)
