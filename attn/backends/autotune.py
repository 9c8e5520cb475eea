"""Measure the backends on a call and cache their order, by tuning key."""

from __future__ import annotations

import functools
import math
import statistics
import warnings
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Unpack

import torch
from torch import Tensor

from attn import arguments
from attn.backends.explain import Explanation, explain
from attn.backends.registry import (
    Implementation,
    Registry,
    check_registry,
    registry,
)
from attn.backends.results import check_result
from attn.functional.inputs import (
    AttentionInputs,
    AttentionOptions,
    OptionsWithoutMask,
    validate,
)
from attn.functional.tiled import tiled
from attn.functional.validation import needs_grad
from attn.masks import Mask
from attn.profiling import benchmark_interleaved

__all__ = ["autotune"]

ROUNDS = 7  # of which the median counts
PRUNE_RATIO = 4.0  # times the best: one round is enough
SWITCH_MARGIN = 1.1  # times the best: no reason to change
TENSORS = ("query", "key", "value", "attn_mask", "sinks")
TILE = 2**24  # scores at a time of the reference: 128 MiB in float64


@arguments.named(*OptionsWithoutMask.__annotations__)
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
    where autograd records the inputs; the current choice stays unless another
    is clearly faster. A backend that fails is skipped with a warning, and so
    is one whose result or gradients, without dropout, differ from those of
    float64 by more than half of the dtype's digits, in any row.

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
    undropped = replace(inputs, dropout_p=0.0)
    exact = _reference(_widened(undropped), return_lse)
    digits = torch.finfo(query.dtype).eps ** 0.5
    rounding = _differences(_reference(undropped, return_lse), exact)
    limits = {part: max(digits, 4 * x) for part, x in rounding.items()}
    plain: dict[str, Any] = {**options, "dropout_p": 0.0}
    seconds: dict[str, float] = {}
    measure = functools.partial(
        benchmark_interleaved, device=inputs.query.device
    )
    for name in _with_progress(list(able)):
        try:
            found = _once(registry[name], undropped, plain, return_lse)
            far = _differences(found, exact)
            if wrong := [x for x in far if not far[x] <= limits[x]]:
                warnings.warn(
                    f"{name} is not selected: its {wrong[0]} differs by "
                    f"{far[wrong[0]]:.2g} from the reference, relative to a "
                    f"row's size, and at most {limits[wrong[0]]:.2g} is "
                    "rounding",
                    stacklevel=3,
                )
                continue
            (seconds[name],) = measure({name: able[name]}, 1)[name]
        except Exception as error:  # its own, a compiler's, or out of memory
            warnings.warn(f"{name} failed: {error}", stacklevel=3)
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
) -> dict[str, Tensor]:
    """Return the result of a call by its parts, with gradients if recorded."""
    with torch.random.fork_rng(enabled=inputs.dropout_p > 0):
        result = implementation.run(inputs, options, return_lse, {})
    check_result(implementation.name, result, inputs, return_lse)
    return _parts(inputs, result)


def _parts(inputs: AttentionInputs, result: Any) -> dict[str, Tensor]:
    out, lse = result if isinstance(result, tuple) else (result, None)
    parts = (
        {"out": out} if lse is None else {"out": out, "lse": lse[..., None]}
    )
    if inputs.requires_grad:
        leaves = {n: x for n in TENSORS if needs_grad(x := getattr(inputs, n))}
        ones = torch.ones_like(out)
        grads = torch.autograd.grad(out, list(leaves.values()), ones)
        names = (f"gradient of {name}" for name in leaves)
        parts |= zip(names, grads, strict=True)
    return {name: x.detach() for name, x in parts.items()}


def _reference(inputs: AttentionInputs, return_lse: bool) -> dict[str, Tensor]:
    """Compute the parts in tiles: the scores of a long text fill no memory."""
    row = math.prod(inputs.scores_shape) // max(1, inputs.q_len)
    blocks = (max(1, TILE // max(1, row)), max(1, inputs.kv_len))
    return _parts(inputs, tiled(inputs, return_lse, *blocks))


def _widened(inputs: AttentionInputs) -> AttentionInputs:
    """Return inputs in float64; in float32 on a device that has none."""
    is_mps = inputs.query.device.type == "mps"
    dtype = torch.float32 if is_mps else torch.float64
    wide = {
        name: x.detach().to(dtype).requires_grad_(x.requires_grad)
        for name in TENSORS
        if (x := getattr(inputs, name)) is not None and x.is_floating_point()
    }
    return replace(inputs, **wide)


def _differences(
    found: dict[str, Tensor], exact: dict[str, Tensor]
) -> dict[str, float]:
    """Return the greatest difference of a row, by part.

    It is relative to the row and to a mean row, so that neither large rows
    hide it nor those whose terms cancel raise it.
    """
    worst = {}
    for part, y in exact.items():
        x = found[part].to(y.dtype)
        error = (x - y).masked_fill(x == y, 0.0).norm(dim=-1)
        size = y.masked_fill(y == -torch.inf, 0.0).norm(dim=-1)
        error = error / (size + size.mean()).clamp(min=1e-30)
        worst[part] = float(error.max()) if error.numel() else 0.0
    return worst
