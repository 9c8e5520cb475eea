"""One way to compute attention, and the checks of what it answers.

A function that a user registered may return anything: a wrong kind, shape or
dtype is named with the implementation, before a model computes on.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attn.functional.inputs import AttentionInputs

__all__ = ["Implementation", "check_result", "declared_keywords"]

Attention = Callable[..., Any]
Reasons = Callable[[AttentionInputs], list[str]]
Reason = Callable[[AttentionInputs], str | None]
Condition = Callable[[AttentionInputs], bool]


@dataclass(frozen=True)
class Implementation:
    """One way to compute attention; ``Registry.register`` has the fields."""

    name: str
    function: Attention
    takes_inputs: bool  # or the arguments of the contract
    unsupported_reasons: Reasons
    deprioritized: Reason
    supports_lse: Condition
    tunable: Condition
    keywords: frozenset[str]  # that it declares
    takes_any: bool  # keyword, also one that it does not declare
    is_tested: bool  # one of attn, whose results need no check

    def declares(self, keyword: str, is_named: bool) -> bool:
        """Return whether a keyword may be passed to the function.

        With ``**options`` any may, if the call names the implementation.
        """
        return keyword in self.keywords or (is_named and self.takes_any)

    def reasons(self, inputs: AttentionInputs, return_lse: bool) -> list[str]:
        """Return why it cannot compute a call; empty when it can."""
        found = _reasons(self.name, self.unsupported_reasons(inputs))
        if return_lse and not self.declares("return_lse", is_named=True):
            found.append("return_lse is given: its function declares none")
        elif return_lse and not self.supports_lse(inputs):
            found.append("return_lse is given: it computes no lse")
        return found

    def why_later(self, inputs: AttentionInputs) -> str | None:
        """Return why a call is faster elsewhere; None if it is not."""
        return _reason(self.name, self.deprioritized(inputs))

    def run(
        self,
        inputs: AttentionInputs,
        options: dict[str, Any],
        return_lse: bool,
        extra: dict[str, Any],
    ) -> Any:
        """Compute a call.

        ``options`` are the contract's optional arguments, as given; ``extra``
        are keywords outside the contract.
        """
        if return_lse:
            extra = {**extra, "return_lse": True}
        if self.takes_inputs:
            result = self.function(inputs, **extra)
        else:
            tensors = (inputs.query, inputs.key, inputs.value)
            result = self.function(*tensors, **options, **extra)
        if self.is_tested:
            return result
        return check_result(self.name, result, inputs, return_lse)


def declared_keywords(function: Attention) -> frozenset[str] | None:
    """Return the names of its parameters; None if it takes any keyword."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # a built-in one, such as PyTorch's
        raise TypeError(
            f"function must have a signature; got {function!r}: call it in a "
            "function of your own"
        ) from None
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    return frozenset(p.name for p in parameters)


_PARTS = (("out", ", Dv"), ("lse", ""))


def check_result(
    name: str, result: Any, inputs: AttentionInputs, return_lse: bool
) -> Any:
    """Return the result of an implementation: ``out``, or ``(out, lse)``.

    Raises:
        TypeError, ValueError: it is anything else.
    """
    parts = result if isinstance(result, tuple) else (result,)
    kinds = [type(x).__name__ for x in parts]
    if len(parts) != 1 + return_lse or not all(
        isinstance(x, Tensor) for x in parts
    ):
        need = "(out, lse) with return_lse" if return_lse else "a tensor"
        raise TypeError(f"{name} must return {need}; got {', '.join(kinds)}")
    shape = inputs.scores_shape[:-1]
    dtypes = (inputs.query.dtype, inputs.compute_dtype)
    shapes = ((*shape, inputs.value.shape[-1]), shape)
    for i, (part, axes) in enumerate(_PARTS[: len(parts)]):
        x, device = parts[i], inputs.query.device
        if x.dtype != dtypes[i] or x.device != device:
            raise TypeError(
                f"{name} must return {part} in {dtypes[i]} on {device}; got "
                f"{x.dtype} on {x.device}"
            )
        # In a graph, to compare sizes would fix them.
        if torch.compiler.is_compiling() or tuple(x.shape) == shapes[i]:
            continue
        swapped = x.dim() > 2 and x.transpose(-3, -2).shape == shapes[i]
        raise ValueError(
            f"{name} must return {part} of shape (..., H, L{axes}) = "
            f"{shapes[i]}; got {tuple(x.shape)}"
            f"{': the heads come before the tokens' if swapped else ''}"
        )
    return result


def _reasons(name: str, found: Any) -> list[str]:
    """Return what ``unsupported_reasons`` of an implementation returned."""
    if isinstance(found, list | tuple):
        return [*found]
    raise TypeError(
        f"unsupported_reasons of {name} must return a list of sentences, "
        f"empty where it supports the call; got {found!r}"
    )


def _reason(name: str, found: Any) -> str | None:
    """Return what ``deprioritized`` of an implementation returned."""
    if found is None or isinstance(found, str):
        return found
    raise TypeError(
        f"deprioritized of {name} must return a sentence, or None where it "
        f"is preferred; got {found!r}"
    )
