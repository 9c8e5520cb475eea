"""Backend selection: which implementation computes a call."""

from __future__ import annotations

from collections.abc import Collection

import torch

from attn.backends.registry import Implementation, Registry
from attn.functional.inputs import AttentionInputs

__all__ = ["choose", "deprioritized"]


def choose(
    registry: Registry,
    inputs: AttentionInputs,
    impl: str | None = None,
    return_lse: bool = False,
    extra: Collection[str] = (),
) -> tuple[str, Implementation]:
    """Select the implementation that computes a call, and return its name too.

    Arguments and errors are those of ``attn.attention``.
    """
    name = impl or "auto"
    name = registry.default if name == "auto" else name
    if name != "auto":
        one = registry[name]
        if unknown := [key for key in extra if not one.declares(key)]:
            raise TypeError(
                f"{name} got an unexpected keyword argument: "
                f"{', '.join(unknown)}"
            )
        if reasons := one.reasons(inputs, return_lse):
            raise ValueError(f"{name} cannot: {'; '.join(reasons)}")
        return name, one
    for name in () if extra else _measured(registry, inputs, return_lse):
        if name in registry and not registry[name].reasons(inputs, return_lse):
            return name, registry[name]
    deferred: list[tuple[str, Implementation]] = []
    for name, one in registry.complete():
        if extra and not all(map(one.declares, extra)):
            continue
        # Unlike the reasons, this never imports PyTorch's compiler.
        if one.deprioritized(inputs) is not None:
            deferred.append((name, one))
        elif not one.reasons(inputs, return_lse):
            return name, one
    # With extra, a deprioritized one may have to be compiled: only by name.
    for name, one in () if extra else reversed(deferred):
        if not one.reasons(inputs, return_lse):
            return name, one
    raise TypeError(
        "attention got an unexpected keyword argument: "
        f"{', '.join(extra)}; no implementation that auto selects for "
        "this call declares it, name one with impl"
    )


def deprioritized(
    registry: Registry,
    name: str,
    inputs: AttentionInputs,
    return_lse: bool = False,
) -> str | None:
    """Return why a supported implementation is not preferred."""
    seconds = _measured(registry, inputs, return_lse)
    if name not in seconds:
        return registry[name].deprioritized(inputs)
    best = next(iter(seconds))
    if name == best:
        return None
    own, least = seconds[name], seconds[best]
    reason = f"{1e3 * own:.3g} ms here; {best} {1e3 * least:.3g} ms"
    return reason if own > least else f"{reason}: too close to change"


def _measured(
    registry: Registry, inputs: AttentionInputs, return_lse: bool
) -> dict[str, float]:
    """Return the seconds that ``autotune`` cached, the selected one first."""
    if not registry.seconds or torch.compiler.is_compiling():
        return {}
    return registry.seconds.get(inputs.tuning_key(return_lse), {})
