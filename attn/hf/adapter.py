"""Check the calls of a function with transformers' own signature.

It gets masks in the format it was registered with, and each keyword that it
declares; a keyword that would be dropped is an error.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from attn.backends.mask_formats import convert, unsupported
from attn.backends.registry import declared_keywords
from attn.hf.attention_interface import is_captured
from attn.hf.call_checks import IGNORED, check_causality, refuse


def adapt(
    name: str,
    function: Callable[..., Any],
    mask_format: str | Callable[..., Any],
) -> Callable[..., Any]:
    """Return a function of transformers' signature with its calls checked."""
    try:
        inspect.signature(function).bind_partial(*range(5))
    except TypeError:
        raise TypeError(
            f"{name!r} must take (module, query, key, value, attention_mask, "
            f"**kwargs); got {inspect.signature(function)}"
        ) from None
    declared = declared_keywords(function)

    def forward(
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Any,
        **kwargs: Any,
    ) -> tuple[Tensor, Tensor | None]:
        if isinstance(mask_format, str):
            is_causal = kwargs.get("is_causal")
            check_causality(module, query, attention_mask, is_causal)
            if isinstance(attention_mask, Tensor):  # maybe the caller's own
                _check_mask(attention_mask, mask_format)
                attention_mask = convert(
                    attention_mask, mask_format, query.dtype
                )
        passed = {
            k: x
            for k, x in kwargs.items()
            if declared is None or k in declared
        }
        refuse(
            name,
            module,
            [
                k
                for k, x in kwargs.items()
                if k not in passed and not _is_neutral(k, x, query.shape[-1])
            ],
        )
        tensors = (query, key, value)
        result = function(module, *tensors, attention_mask, **passed)
        _check_result(name, result, query, value)
        is_requested = kwargs.get("output_attentions") or is_captured()
        if is_requested and result[1] is None:
            raise ValueError(
                f"output_attentions must be False for {name!r}, which "
                "returned no weights; got True"
            )
        return result

    return forward


def _is_neutral(keyword: str, value: Any, head_dim: int) -> bool:
    """Return whether a function may do without this keyword."""
    if value is None or keyword in IGNORED:
        return True
    if keyword == "scaling":
        return math.isclose(value, head_dim**-0.5)
    return keyword == "dropout" and value == 0.0


def _check_mask(mask: Tensor, mask_format: str) -> None:
    if unsupported(mask, mask_format):
        raise TypeError(
            "attention_mask must be (B, S), or booleans of four axes for a "
            f'function with mask="bool"; got {mask.dtype} of shape '
            f'{tuple(mask.shape)} for mask="{mask_format}"'
        )


def _check_result(
    name: str, result: Any, query: Tensor, value: Tensor
) -> None:
    B, H, L, _ = query.shape
    shape = (B, L, H, value.shape[-1])
    got = type(result).__name__
    out = result[0] if isinstance(result, tuple) and result else None
    if isinstance(out, Tensor) and len(result) == 2:
        got = f"output of shape {tuple(out.shape)}"
        if tuple(out.shape) == shape:
            return
    raise ValueError(
        f"{name!r} must return its output, (B, L, H, Dv) = {shape}, and the "
        f"weights or None; got {got}"
    )
