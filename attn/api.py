"""One function for every attention, and the reasons behind its choice.

``attention`` takes the contract's arguments and finds the implementation that
was measured to be the fastest for such a call. ``explain`` says which one
that is, and why not the others; torch's own backends included. ``warmup``
measures, on the machine at hand.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from torch import Tensor

import attn.backends.builtin  # noqa: F401 registers what comes with the book
from attn.backends import Explanation, Registry
from attn.backends.forms import run
from attn.backends.registry import registry
from attn.backends.selection import explain, warmup
from attn.functional.inputs import Call, read
from attn.functional.validation import Window
from attn.masks import Mask

__all__ = [
    "Explanation",
    "Registry",
    "attention",
    "explain",
    "implementations",
    "register",
    "register_mask",
    "registry",
    "using",
    "warmup",
]


def register(
    name: str,
    *,
    mask: str | Callable[[Call], Any] | None = "rules",
    why_not: Callable[[Call], list[str]] | None = None,
    slower: Callable[[Call], str | None] | None = None,
    has_lse: bool | Callable[[Call], bool] = True,
    measured: bool | Callable[[Call], bool] = True,
    before: str | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add an implementation, as a decorator: a function, and its masks.

    Args:
        name: what ``attention(impl=...)`` calls it.
        mask: the form in which it wants its masks. ``"rules"``: it takes the
            arguments of ``attn.scaled_dot_product_attention``, as they were
            given; ``"call"``: a checked ``attn.functional.inputs.Call``, and
            nothing else. Or it takes ``(query, key, value, mask, scale=…)``,
            and, where they are not the default, ``dropout_p``, ``softcap``,
            ``sinks`` and ``enable_gqa`` if it declares them: ``"bool"``, one
            tensor of booleans; ``"additive"``, of numbers; ``"block"``, a
            ``BlockMask``; or a function of the call that makes the mask.
            None: ``register_mask`` gives that function.
        why_not: gives the reasons why it cannot take a call, in sentences;
            none when it can. It takes every call when this is None.
        slower: says why it can take a call and another is faster; None
            when it should be tried. Only ``impl="auto"`` asks.
        has_lse: whether it takes ``return_lse``, or says so of a call.
        measured: whether ``warmup`` tries it, or says so of a call.
        before: the implementation that auto asks after it; the last place
            when None.

    Returns:
        The decorator, which gives the function back.

    Raises:
        ValueError: the name is taken, or ``mask`` or ``before`` unknown.
    """
    return registry.register(
        name,
        mask=mask,
        why_not=why_not,
        slower=slower,
        has_lse=has_lse,
        measured=measured,
        before=before,
    )


def register_mask(
    name: str,
) -> Callable[[Callable[[Call], Any]], Callable[[Call], Any]]:
    """Add the function that makes an implementation's masks, as a decorator.

    Args:
        name: of the implementation, which may be registered later; its
            function takes a checked ``attn.functional.inputs.Call``.
    """
    return registry.register_mask(name)


def implementations() -> tuple[str, ...]:
    """The names of all implementations, in the order in which auto asks."""
    return tuple(registry)


def using(name: str) -> AbstractContextManager[None]:
    """A context in which ``impl="auto"`` means this implementation.

    Models need not be built or loaded again: what they call is switched.

    Args:
        name: one of ``implementations()``, or ``"auto"``.

    Raises:
        ValueError: there is no such implementation.
    """
    return registry.using(name)


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
    """The whole contract, computed by whoever is best at such a call.

    Args:
        query, key, value, attn_mask: as in
            ``attn.scaled_dot_product_attention``.
        dropout_p, is_causal, scale, enable_gqa: as there.
        softcap, sinks, window, q_offset, return_lse: as there.
        impl: one of ``implementations()``, which then runs or says why it
            cannot; ``"auto"`` takes who was the fastest in ``warmup``, else
            the first that can and is not known to be slower than a later
            one.
        registry: where the names are looked up; one of your own, with
            another as its parent, overrides some for one model alone.
        extra: keywords that the contract does not have, for a function that
            declares them.

    Returns:
        As ``attn.scaled_dot_product_attention``.

    Raises:
        TypeError, ValueError: an argument is wrong, the implementation named
            cannot take the call (with its reasons), or nobody declares an
            extra keyword.
    """
    arguments: dict[str, Any] = {
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
    call = read(query, key, value, **arguments)
    chosen = registry.choose(call, impl, return_lse, extra)
    assert chosen.mask is not None
    return run(
        chosen.function, chosen.mask, call, arguments, return_lse, extra
    )
