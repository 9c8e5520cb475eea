"""One function for every attention, and the reasons behind its choice.

``attention`` takes the contract's arguments and finds the implementation that
was measured to be the fastest for such a call. ``explain`` says which one
that is, and why not the others; torch's own backends included.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

import attn.backends.shipped  # noqa: F401 registers what comes with the book
from attn.backends import flex
from attn.backends.torch_choice import TorchExplanation, explain_torch
from attn.checks import Window
from attn.contract import read
from attn.predicate import Mask
from attn.registry import (
    IMPLEMENTATIONS,
    choose,
    find,
    implementations,
    reasons_of,
    register,
)

__all__ = [
    "Explanation",
    "attention",
    "explain",
    "implementations",
    "register",
    "warmup",
]


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

    Returns:
        As ``attn.scaled_dot_product_attention``.

    Raises:
        TypeError, ValueError: an argument is wrong, or the implementation
            named cannot take the call: with its reasons.
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
    if impl == "auto":
        chosen = choose(call, return_lse)
    else:
        chosen = find(impl)
        reasons = reasons_of(chosen, call, return_lse)
        if reasons:
            raise ValueError(f"{impl} cannot: {'; '.join(reasons)}")
    return chosen.run(call, return_lse, arguments)


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
) -> Explanation:
    """Say who takes this call, and why not the others. Nothing is computed.

    Args:
        query, key, value: as in ``attn.scaled_dot_product_attention``, or
            jagged nested tensors, which only torch takes.
        attn_mask, dropout_p, is_causal, scale, enable_gqa: as there.
        softcap, sinks, window, q_offset, return_lse: as there.

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
            {name: list(nested) for name in IMPLEMENTATIONS},
            {},
            "none",
            of_torch,
        )
    call = read(query, key, value, **arguments)
    chosen = choose(call, return_lse)
    reasons, slower = {}, {}
    for name, one in IMPLEMENTATIONS.items():
        reasons[name] = reasons_of(one, call, return_lse)
        why = None if reasons[name] else one.slower(call)
        if why:
            slower[name] = why
    names = {id(one): name for name, one in IMPLEMENTATIONS.items()}
    return Explanation(reasons, slower, names[id(chosen)], of_torch)


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
    reasons = reasons_of(find("flex"), call, return_lse)
    if reasons:
        raise ValueError(f"flex cannot: {'; '.join(reasons)}")
    flex.forget(call)
    rival = choose(call, return_lse)
    flex.measure(call, lambda: rival.run(call, return_lse, arguments))
    return explain(query, key, value, **arguments, return_lse=return_lse)
