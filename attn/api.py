"""One function for every attention, and the reasons behind its choice.

``attention`` takes the contract's arguments and selects the backend that is
fastest for such a call. ``explain`` says which one and why, PyTorch's own
backends included. ``autotune`` measures on the machine at hand.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

import attn.backends.builtin  # noqa: F401 registers the built-in backends
from attn.backends.autotune import autotune
from attn.backends.explain import Explanation, explain
from attn.backends.forms import run
from attn.backends.registry import Registry, registry
from attn.backends.selection import choose
from attn.functional.inputs import AttentionOptions, validate
from attn.functional.validation import Window
from attn.masks import Mask

__all__ = [
    "AttentionOptions",
    "Explanation",
    "Registry",
    "attention",
    "autotune",
    "explain",
    "implementations",
    "register",
    "register_mask",
    "registry",
    "use_impl",
]

register = registry.register
"""``Registry.register``, for the default registry."""
register_mask = registry.register_mask
"""``Registry.register_mask``, for the default registry."""
use_impl = registry.use_impl
"""``Registry.use_impl``, for the default registry."""


def implementations() -> tuple[str, ...]:
    """Return the names of all implementations, in auto's order."""
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
    and:

    Args:
        impl: one of ``implementations()``, which runs or raises with its
            reasons. ``"auto"`` selects the fastest in ``autotune``, else the
            first that supports the call and is not deprioritized.
        registry: of the implementations. One of your own, with another as
            its parent, overrides some for one model alone.
        extra: keywords outside the contract, for a function that declares
            them.

    Raises:
        TypeError, ValueError: an argument is wrong, the named implementation
            does not support the call (with its reasons), or no
            implementation declares an extra keyword.
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
    inputs = validate(query, key, value, **options)
    _, chosen = choose(registry, inputs, impl, return_lse, extra)
    function, form = chosen.function, chosen.mask
    assert form is not None
    return run(function, form, inputs, options, return_lse, extra)
