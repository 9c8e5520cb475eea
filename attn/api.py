"""One function for every attention, and the reasons behind its choice.

``attention`` takes the contract's arguments and selects the backend that is
fastest for such a call. ``explain`` says which one and why, PyTorch's own
backends included. ``autotune`` measures on the machine at hand.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import torch
from torch import Tensor

from attn import tracing
from attn.backends import cpu_gqa, cpu_half, cpu_window, flex, sdpa, triton
from attn.backends.autotune import autotune
from attn.backends.explain import Explanation, explain
from attn.backends.registry import (
    RECORDING,
    TRACING,
    Registry,
    check_registry,
    registry,
)
from attn.backends.seen_calls import call_key, recall, remember
from attn.functional.attention import grouped, reference
from attn.functional.inputs import AttentionInputs, AttentionOptions, validate
from attn.functional.tiled import tiled
from attn.functional.validation import Window
from attn.masks import Mask

__all__ = [
    "attention",
    "explain",
    "Explanation",
    "autotune",
    "implementations",
    "use_impl",
    "register",
    "Registry",
    "registry",
    "AttentionOptions",
]

register = registry.register
"""``Registry.register``, for the default registry."""
use_impl = registry.use_impl
"""``Registry.use_impl``, for the default registry."""


def implementations() -> tuple[str, ...]:
    """Return the names of all implementations, in auto's order.

    Example:
        >>> names = attn.api.implementations()
        >>> names[-3:]
        ('tiled', 'grouped', 'reference')
    """
    return tuple(registry)


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | Mask | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    softcap: float | None = None,
    sinks: Tensor | None = None,
    window: Window | None = None,
    q_offset: int | Tensor | None = None,
    return_lse: bool = False,
    impl: str = "auto",
    registry: Registry = registry,
    **extra: Any,
) -> Tensor | tuple[Tensor, Tensor]:
    """Compute attention with the backend that suits the call best.

    Arguments and result are those of ``attn.scaled_dot_product_attention``,
    and those below. Under autocast, too, ``query``, ``key`` and ``value``
    must have one dtype. Transforms of ``torch.func``, nested too, get a
    backend that has their derivatives. PyTorch's fused kernels have no second
    derivative, and ``create_graph=True`` is not known before the backward
    pass: there, use ``impl="grouped"``, or for a whole model
    ``attn.api.use_impl("grouped")``. NaN or infinity in a masked key or value
    may reach the output, as in PyTorch: 0 times NaN is NaN. Fill padding
    before.

    Args:
        impl: one of ``implementations()``, which runs or raises with its
            reasons. ``"auto"`` selects the fastest in ``autotune``, else the
            first that supports the call and is not deprioritized, in the order
            of ``implementations()``; see ``Registry``.
        registry: of the implementations. One of your own, with another as
            its parent, overrides some for one model alone.
        extra: keywords outside the contract, for a function that declares
            them.

    Raises:
        TypeError, ValueError: an argument is wrong, the named implementation
            does not support the call (with its reasons), or no
            implementation declares an extra keyword.

    Example:
        >>> query = torch.randn(1, 8, 10, 64)
        >>> key, value = torch.randn(2, 1, 2, 10, 64)  # (B, Hkv, S, D) each
        >>> options = {"is_causal": True, "enable_gqa": True}
        >>> out = attn.attention(query, key, value, **options)
        >>> options["impl"] = "reference"
        >>> exact = attn.attention(query, key, value, **options)
        >>> torch.allclose(out, exact, atol=1e-5)
        True
    """
    options: dict[str, Any] = {
        "attn_mask": attn_mask,
        "dropout_p": dropout_p,
        "is_causal": is_causal,
        "scale": scale,
        "enable_gqa": enable_gqa,
        "softcap": softcap,
        "sinks": sinks,
        "window": window,
        "q_offset": q_offset,
    }
    tensors = (query, key, value)
    call = None
    if impl == "auto" and not extra:
        call = call_key(registry, *tensors, options, return_lse)
        # In a graph there is no key, and nothing that changes is read.
        if call is not None:
            out = recall(call, *tensors, options, return_lse)
            if out is not None:
                return out
    check_registry(registry)
    inputs = validate(*tensors, **options)
    _, implementation = registry.select(inputs, impl, return_lse, extra)
    if call is not None:
        remember(call, inputs, implementation)
    return implementation.run(inputs, options, return_lse, extra)


# --- the built-in backends, in the order in which auto considers them --------

# The order is measured by ``tests/attn/test_cpu_speed.py`` and ``attn.bench``.
# Where speed depends on the call, ``deprioritized`` says so.

MANY_SCORES = 2**28  # a GiB in float32


def _untiled(inputs: AttentionInputs) -> list[str]:
    """Return why a call cannot be computed in tiles."""
    reasons = []
    if p := inputs.dropout_p:
        reasons.append(f"dropout_p is {p}: it has no dropout")
    if inputs.is_forward_mode:
        reasons.append("a forward-mode gradient: it has none")
    elif tracing.in_functorch():
        reasons.append("a transform of torch.func: it takes none")
    if torch.jit.is_tracing():  # type: ignore[attr-defined]
        reasons.append(RECORDING)
    return reasons


def _few_scores(inputs: AttentionInputs) -> str | None:
    if torch.compiler.is_compiling():
        return TRACING
    count = math.prod(inputs.scores_shape)
    if count < MANY_SCORES:
        return f"the {count:,} scores fit into memory: one product is faster"
    return None


_register = functools.partial(registry.register, mask="inputs")
for _name, _backend in {
    "cpu_window": cpu_window,
    "cpu_half": cpu_half,
    "pack_gqa": cpu_gqa,
}.items():
    _register(
        _name,
        unsupported_reasons=_backend.unsupported_reasons,
        deprioritized=_backend.deprioritized,
        supports_lse=False,
    )(_backend.run)
_register(
    "flex",
    unsupported_reasons=flex.unsupported_reasons,
    deprioritized=flex.deprioritized,
    supports_lse=flex.supports_lse,
)(flex.run)
_register(
    "sdpa",
    unsupported_reasons=sdpa.unsupported_reasons,
    supports_lse=False,
)(sdpa.run)
for _name, (_kernel, _reasons, _later) in triton.KERNELS.items():
    _register(
        _name,
        unsupported_reasons=_reasons,
        deprioritized=_later,
        tunable=triton.tunable,
    )(_kernel)
_register(
    "tiled",
    unsupported_reasons=_untiled,
    deprioritized=_few_scores,
)(tiled)
_register(
    "grouped",
    tunable=lambda inputs: _few_scores(inputs) is not None,
)(grouped)
_register(
    "reference",
    deprioritized=lambda inputs: "it is written to be read; see grouped",
    tunable=False,
)(reference)
