"""One function for every attention, and the reasons behind its choice.

``attention`` takes the contract's arguments and finds the implementation that
was measured to be the fastest for such a call. ``explain`` says which one
that is, and why not the others; torch's own backends included.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

import attn.backends.shipped  # noqa: F401 registers what comes with the book
from attn.backends import flex
from attn.backends.torch_choice import TorchExplanation, explain_torch
from attn.checks import Window
from attn.contract import Call, read
from attn.forms import run
from attn.predicate import Mask
from attn.registry import Registry, registry

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
    before: str | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add an implementation, as a decorator: a function, and its masks.

    Args:
        name: what ``attention(impl=...)`` calls it.
        mask: the form in which it wants its masks. ``"rules"``: it takes the
            arguments of ``attn.scaled_dot_product_attention``, as they were
            given; ``"call"``: a checked ``attn.contract.Call``, and nothing
            else. Or it takes ``(query, key, value, mask, scale=…)``, and,
            where they are not the default, ``dropout_p``, ``softcap``,
            ``sinks`` and ``enable_gqa`` if it declares them: ``"bool"``, one
            tensor of booleans; ``"additive"``, of numbers; ``"block"``, a
            ``BlockMask``; or a function of the call that makes the mask.
            None: ``register_mask`` gives that function.
        why_not: gives the reasons why it cannot take a call, in sentences;
            none when it can. It takes every call when this is None.
        slower: says why it can take a call and another is faster; None
            when it should be tried. Only ``impl="auto"`` asks.
        has_lse: whether it takes ``return_lse``, or says so of a call.
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
        before=before,
    )


def register_mask(
    name: str,
) -> Callable[[Callable[[Call], Any]], Callable[[Call], Any]]:
    """Add the function that makes an implementation's masks, as a decorator.

    Args:
        name: of the implementation, which may be registered later; its
            function takes a checked ``attn.contract.Call``.
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
            cannot; ``"auto"`` takes the first that can and is not known to
            be slower than a later one.
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


@dataclass(frozen=True)
class Explanation:
    """For each implementation, why it does not take the call.

    ``reasons`` has sentences for what cannot be done, ``slower`` for what
    can, and is not worth it; ``taken`` is who computes the call. ``torch``
    says the same of torch's own backends.
    """

    reasons: dict[str, list[str]]
    slower: dict[str, str]
    taken: str
    torch: TorchExplanation = field(repr=False)

    def __getitem__(self, name: str) -> list[str]:
        """Reasons, by the name of an implementation or torch's backend."""
        return self.reasons[name] if name in self.reasons else self.torch[name]

    def __str__(self) -> str:
        width = max(map(len, self.reasons)) + 2
        lines = ["attn"]
        for name, reasons in self.reasons.items():
            said = [f"no: {reason}" for reason in reasons]
            if name == self.taken:
                said = ["taken"]
            elif not said and name in self.slower:
                said = [f"slower: {self.slower[name]}"]
            for i, text in enumerate(said or ["could take it"]):
                lines.append(f"  {'' if i else name:{width}}{text}")
        lines.append("torch's F.scaled_dot_product_attention")
        lines += [f"  {line}" for line in str(self.torch).splitlines()]
        return "\n".join(lines)


def explain(
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
    registry: Registry = registry,
) -> Explanation:
    """Say who takes this call, and why not the others. Nothing is computed.

    Args:
        query, key, value: as in ``attn.scaled_dot_product_attention``, or
            jagged nested tensors, which only torch takes.
        attn_mask, dropout_p, is_causal, scale, enable_gqa: as there.
        softcap, sinks, window, q_offset, return_lse: as there.
        registry: as in ``attention``.

    Returns:
        The reasons of each implementation and of each of torch's backends.

    Raises:
        TypeError, ValueError: an argument is wrong, whoever computes it.
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
    of_torch = explain_torch(
        query, key, value, **arguments, return_lse=return_lse
    )
    if query.is_nested:
        nested = ["the tensors are nested: it needs dense ones (pad them)"]
        return Explanation(
            {name: list(nested) for name in registry},
            {},
            "none",
            of_torch,
        )
    call = read(query, key, value, **arguments)
    chosen = registry.choose(call, return_lse=return_lse)
    reasons, slower = {}, {}
    for name, one in registry.items():
        reasons[name] = registry.reasons(name, call, return_lse)
        why = None if reasons[name] else one.slower(call)
        if why:
            slower[name] = why
    taken = next(name for name, one in registry.items() if one is chosen)
    return Explanation(reasons, slower, taken, of_torch)


def warmup(
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
) -> Explanation:
    """Compile FlexAttention for calls like this one, and time it.

    Compiling takes seconds, so ``attention`` never does it by itself. After
    this, calls of the same shapes, dtype, mask and options are computed by
    FlexAttention if it was faster here than what would take them else.

    Args:
        query, key, value: as in ``attn.scaled_dot_product_attention``.
        attn_mask, dropout_p, is_causal, scale, enable_gqa: as there.
        softcap, sinks, window, q_offset, return_lse: as there.

    Returns:
        Who takes such calls now, and why.

    Raises:
        TypeError, ValueError: an argument is wrong, or FlexAttention cannot
            take the call: with its reasons.
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
    if reasons := registry.reasons("flex", call, return_lse):
        raise ValueError(f"flex cannot: {'; '.join(reasons)}")
    flex.forget(call)
    rival = registry.choose(call, return_lse=return_lse)
    assert rival.mask is not None
    asked: Any = (rival.function, rival.mask, call, arguments, return_lse, {})
    flex.measure(call, lambda: run(*asked))
    return explain(query, key, value, **arguments, return_lse=return_lse)
