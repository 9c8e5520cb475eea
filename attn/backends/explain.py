"""Explain a selection: the reasons for and against every backend."""

from __future__ import annotations

from dataclasses import dataclass, field
from textwrap import indent
from typing import Unpack

from torch import Tensor

from attn import arguments
from attn.backends.registry import Registry, check_registry, registry
from attn.backends.sdpa_backends import TorchExplanation, explain_torch, table
from attn.functional.inputs import OptionsWithoutMask, validate
from attn.masks import Mask

__all__ = ["Explanation", "explain"]


@dataclass(frozen=True)
class Explanation:
    """The selected backend, and the reasons against each of the others.

    ``reasons`` lists what a backend does not support; ``deprioritized`` says
    why a backend that supports the call is not preferred; ``selected``
    computes it. ``torch`` explains PyTorch's own backends.

    Example:
        >>> x = torch.randn(1, 2, 10, 64)
        >>> found = attn.api.explain(x, x, x, softcap=30.0)
        >>> found.selected
        'grouped'
        >>> found["sdpa"]
        ['softcap is given: torch has no such argument']
    """

    reasons: dict[str, list[str]]
    deprioritized: dict[str, str]
    selected: str
    torch: TorchExplanation = field(repr=False)

    def __getitem__(self, name: str) -> list[str]:
        """Return the reasons of a backend of ours or of PyTorch."""
        return self.reasons[name] if name in self.reasons else self.torch[name]

    def __str__(self) -> str:
        ours = table(self.reasons, self.selected, self.deprioritized)
        return (
            f"attn\n{indent(ours, '  ')}\n"
            "PyTorch's F.scaled_dot_product_attention\n"
            f"{indent(str(self.torch), '  ')}"
        )


@arguments.named(*OptionsWithoutMask.__annotations__)
def explain(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | Mask | None = None,
    *,
    return_lse: bool = False,
    registry: Registry = registry,
    **options: Unpack[OptionsWithoutMask],
) -> Explanation:
    """Explain which backend is selected for a call; nothing is computed.

    Arguments are those of ``attn.attention``; the tensors may be jagged
    nested tensors, too, which only PyTorch's function takes. Returned are the
    reasons of each backend, PyTorch's own included.

    Raises:
        TypeError, ValueError: an argument is wrong for every backend.

    Example:
        >>> x = torch.randn(1, 2, 10, 64)
        >>> found = attn.api.explain(x, x, x, is_causal=True)
        >>> found.selected
        'sdpa'
        >>> found["pack_gqa"]
        ['every query head has its own keys: nothing to pack']
    """
    of_torch = explain_torch(
        query, key, value, attn_mask, return_lse=return_lse, **options
    )
    if query.is_nested:
        reason = "the tensors are nested: pad them"
        reasons = {name: [reason] for name in registry}
        return Explanation(reasons, {}, "none", of_torch)
    check_registry(registry)
    inputs = validate(query, key, value, attn_mask, **options)
    selected, _ = registry.select(inputs, return_lse=return_lse)
    seconds = registry.measured(inputs, return_lse)
    reasons, deprioritized = {}, {}
    for name, implementation in registry.items():
        reasons[name] = implementation.reasons(inputs, return_lse)
        later = implementation.why_later(inputs)
        why = _slower(name, seconds) if name in seconds else later
        if why is not None and not reasons[name]:
            deprioritized[name] = why
    return Explanation(reasons, deprioritized, selected, of_torch)


def _slower(name: str, seconds: dict[str, float]) -> str | None:
    """Return why ``autotune`` selected the first, and not this one."""
    best = next(iter(seconds))
    if name == best:
        return None
    own, least = seconds[name], seconds[best]
    reason = f"{1e3 * own:.3g} ms here; {best} {1e3 * least:.3g} ms"
    return reason if own > least else f"{reason}: too close to change"
