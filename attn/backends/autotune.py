"""Measure the backends on a call and cache their order, by tuning key."""

from __future__ import annotations

import functools
import statistics
import warnings
from collections.abc import Iterable
from typing import Any, Unpack

import torch
from torch import Tensor

from attn.backends.explain import Explanation, explain
from attn.backends.registry import (
    Implementation,
    Registry,
    check_registry,
    registry,
)
from attn.functional.inputs import (
    AttentionInputs,
    AttentionOptions,
    OptionsWithoutMask,
    validate,
)
from attn.masks import Mask
from attn.profiling import benchmark_interleaved

__all__ = ["autotune"]

ROUNDS = 7  # of which the median counts
PRUNE_RATIO = 4.0  # times the best: one round is enough
SWITCH_MARGIN = 1.1  # times the best: no reason to change


def autotune(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | Mask | None = None,
    *,
    return_lse: bool = False,
    registry: Registry = registry,
    **others: Unpack[OptionsWithoutMask],
) -> Explanation:
    """Benchmark every supported backend on this call and cache the fastest.

    FlexAttention is compiled for it, which takes seconds and never happens
    inside a call. From then on, calls with the same shapes, dtype, mask and
    options use the backend that was fastest here, the backward pass included
    where autograd records the inputs. A backend that fails is skipped with a
    warning; the current choice stays unless another is clearly faster.

    Arguments and errors are those of ``explain``, without nested tensors;
    ``registry`` caches the result. Returned is ``explain``'s answer to such
    calls from now on.

    Example:
        >>> own = attn.api.Registry()  # two candidates, and no compiler
        >>> grouped = own.register("grouped")(attn.grouped_attention)
        >>> tiled = own.register("tiled")(attn.tiled_attention)
        >>> x = torch.randn(1, 2, 64, 16)
        >>> found = attn.api.autotune(x, x, x, registry=own)
        >>> found.selected in own  # the faster one, here
        True
    """
    check_registry(registry)
    options: AttentionOptions = {"attn_mask": attn_mask, **others}
    inputs = validate(query, key, value, **options)
    tuning_key = inputs.tuning_key(return_lse)
    registry.seconds.pop(tuning_key, None)
    current, _ = registry.select(inputs, return_lse=return_lse)
    able = {
        name: functools.partial(_once, x, inputs, {**options}, return_lse)
        for name, x in registry.items()
        if x.tunable(inputs) and not x.reasons(inputs, return_lse)
    }
    seconds: dict[str, float] = {}
    measure = functools.partial(
        benchmark_interleaved, device=inputs.query.device
    )
    for name in _with_progress(list(able)):
        try:
            (seconds[name],) = measure({name: able[name]}, 1)[name]
        except RuntimeError as error:  # a compiler's, or out of memory
            warnings.warn(f"{name} failed: {error}", stacklevel=2)
    if seconds:
        limit = PRUNE_RATIO * min(seconds.values())
        close = {name: able[name] for name, s in seconds.items() if s <= limit}
        for name, spent in measure(close, ROUNDS).items():
            seconds[name] = statistics.median(spent)
        order = sorted(seconds, key=lambda name: seconds[name])
        limit = SWITCH_MARGIN * seconds[order[0]]
        if seconds.get(current, torch.inf) <= limit:
            order.sort(key=lambda name: name != current)
        registry.seconds[tuning_key] = {name: seconds[name] for name in order}
    return explain(
        query, key, value, return_lse=return_lse, registry=registry, **options
    )


def _with_progress(names: list[str]) -> Iterable[str]:
    try:
        from tqdm import tqdm
    except ImportError:  # the package itself needs torch alone
        return names
    return tqdm(names, desc="measuring", leave=False)


def _once(
    implementation: Implementation,
    inputs: AttentionInputs,
    options: dict[str, Any],
    return_lse: bool,
) -> None:
    with torch.random.fork_rng(enabled=inputs.dropout_p > 0):
        out = implementation.run(inputs, options, return_lse, {})
    if inputs.requires_grad:
        out = out[0] if return_lse else out
        tensors = (inputs.query, inputs.key, inputs.value)
        leaves = [x for x in tensors if x.requires_grad]
        torch.autograd.grad(out, leaves, torch.ones_like(out))
