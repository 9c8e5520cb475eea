"""Check the result of a function that was registered.

It may return anything: a wrong kind, shape or dtype is named with the
implementation, before a model computes on.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attn.functional.inputs import AttentionInputs

__all__ = ["check_result"]


def check_result(
    name: str, result: Any, inputs: AttentionInputs, return_lse: bool
) -> Any:
    """Return the result of an implementation: ``out``, or ``(out, lse)``.

    Raises:
        TypeError, ValueError: it is anything else.
    """
    parts = result if isinstance(result, tuple) else (result,)
    wrong = any(not isinstance(x, Tensor) for x in parts)
    if wrong or len(parts) != 1 + return_lse:
        form = "(out, lse) with return_lse" if return_lse else "a tensor"
        got = ", ".join(type(x).__name__ for x in parts)
        raise TypeError(f"{name} must return {form}; got {got}")
    shape, device = inputs.scores_shape[:-1], inputs.query.device
    needs = (
        ("out", ", Dv", (*shape, inputs.value.shape[-1]), inputs.query.dtype),
        ("lse", "", shape, inputs.compute_dtype),
    )
    for x, (part, axis, need, dtype) in zip(parts, needs, strict=False):
        if x.dtype != dtype or x.device != device:
            raise TypeError(
                f"{name} must return {part} in {dtype} on {device}; got "
                f"{x.dtype} on {x.device}"
            )
        # In a graph, to compare sizes would fix them.
        if not torch.compiler.is_compiling() and x.shape != need:
            raise ValueError(
                f"{name} must return {part} of shape (..., H, L{axis}) = "
                f"{need}; got {tuple(x.shape)}"
            )
    return result
