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
