"""Who takes a call, and why not the others: said, and measured."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from attn.backends import autotune
from attn.backends.registry import Registry, registry
from attn.backends.sdpa_backends import TorchExplanation, explain_torch
from attn.functional.inputs import read
from attn.functional.validation import Window
from attn.masks import Mask

__all__ = ["Explanation", "explain", "warmup"]


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
    for name in registry:
        try:
            reasons[name] = registry.reasons(name, call, return_lse)
        except LookupError as half_a_pair:
            reasons[name] = [str(half_a_pair)]
        if reasons[name]:
            continue
        if why := registry.slower(name, call, return_lse):
            slower[name] = why
    return Explanation(reasons, slower, registry.name_of(chosen), of_torch)


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
    registry: Registry = registry,
) -> Explanation:
    """Let all who can compute a call like this one, and remember the fastest.

    FlexAttention is compiled for it, which takes seconds and never happens
    inside a call by itself. After this, calls of the same shapes, dtype,
    mask and options are computed by who was the fastest here; a gradient
    counts too where one will be asked for.

    Args:
        query, key, value: as in ``attn.scaled_dot_product_attention``.
        attn_mask, dropout_p, is_causal, scale, enable_gqa: as there.
        softcap, sinks, window, q_offset, return_lse: as there.
        registry: as in ``attention``; it remembers.

    Returns:
        Who takes such calls now, and why.

    Raises:
        TypeError, ValueError: an argument is wrong.
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
    autotune.measure(registry, call, arguments, return_lse)
    return explain(
        query,
        key,
        value,
        **arguments,
        return_lse=return_lse,
        registry=registry,
    )
