"""PyTorch's ``F.scaled_dot_product_attention`` as a backend.

A positional mask becomes ``is_causal`` if possible, nothing if it masks
nothing, and a boolean matrix otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attn import tracing
from attn.functional.inputs import AttentionInputs
from attn.masks import Term
from attn.masks.combine import combine_masks

__all__ = ["Repeated", "repeated", "run", "unsupported_reasons"]

#: Of query, key, value and mask, for calls that differ in nothing else.
Repeated = Callable[..., Tensor]


def unsupported_reasons(inputs: AttentionInputs) -> list[str]:
    """Return what PyTorch's function does not support."""
    reasons = []
    for name, x in (("softcap", inputs.softcap), ("sinks", inputs.sinks)):
        if x is not None:
            reasons.append(f"{name} is given: torch has no such argument")
    mask, dtype = inputs.attn_mask, inputs.query.dtype
    known = (dtype, torch.bool)
    if mask is not None and mask.dtype not in known and inputs.dropout_p:
        reasons.append(
            f"attn_mask is {mask.dtype} and query {dtype}: with dropout "
            "torch needs the same"
        )
    if inputs.is_forward_mode:
        reasons.append("a forward-mode gradient: PyTorch's kernels have none")
    if inputs.is_second_order:
        reasons.append("a gradient of a gradient: PyTorch's kernels have none")
    if any(tracing.has_zero(*x.shape) for x in inputs.qkv):
        reasons.append("a tensor is empty: torch's answer is not always 0")
    return reasons


def unsupported_on_cpu(inputs: AttentionInputs) -> list[str]:
    """Return the same for the backends that call it in pieces, on CPUs."""
    reasons = unsupported_reasons(inputs)
    if not inputs.query.is_cpu:
        reasons.append(f"query is on {inputs.query.device}: it is for CPUs")
    return reasons


def run(inputs: AttentionInputs) -> Tensor:
    """Compute a call with PyTorch's function."""
    return torchs_function(inputs)(*inputs.qkv, **torch_mask(inputs))


def torchs_function(inputs: AttentionInputs) -> Callable[..., Tensor]:
    """Return PyTorch's function, with all but the tensors and the mask."""
    options = _options(inputs)

    def attend(
        query: Tensor, key: Tensor, value: Tensor, *mask: Any, **others: Any
    ) -> Tensor:
        q, k, v = map(_by_token, (query, key, value))
        given = {**options, **others}
        return F.scaled_dot_product_attention(q, k, v, *mask, **given)

    return attend


def _options(inputs: AttentionInputs) -> dict[str, Any]:
    options: dict[str, Any] = {
        "dropout_p": inputs.dropout_p,
        "scale": inputs.scale,
    }
    # A branch, because in a graph a comparison of sizes is no bool.
    if inputs.num_heads != inputs.num_kv_heads:
        options["enable_gqa"] = True
    return options


def repeated(inputs: AttentionInputs) -> Repeated | None:
    """Return the function of each call like this one, if torch's is all of it.

    That holds for equal shapes, dtypes, options and last strides. None where
    a tensor is converted or copied, or a mask made.
    """
    if any(map(_is_apart, inputs.qkv)):
        return None
    mask = torch_mask(inputs)
    if mask.pop("attn_mask", None) is not inputs.attn_mask:
        return None
    return partial(F.scaled_dot_product_attention, **_options(inputs), **mask)


def _by_token(x: Tensor) -> Tensor:
    """Copy features that are apart in memory, as in a transposed cache.

    PyTorch's fused functions do not read them. It would compute all scores
    instead, from repeated keys: 14 times as long for one query on a CPU,
    where the copy takes a third of the time.
    """
    return x.contiguous() if _is_apart(x) else x


def _is_apart(x: Tensor) -> bool:
    return x.stride(-1) != 1 and x.shape[-1] > 1


def torch_mask(
    inputs: AttentionInputs, causal_flag: bool = True
) -> dict[str, Any]:
    """Return PyTorch's arguments for both masks of a call.

    ``causal_flag`` allows ``is_causal``, where it says the same.
    """
    mask = inputs.attn_mask
    if mask is not None and torch.compiler.is_exporting():
        # torch compares an axis of 1 with a batch that is known at run time.
        mask = mask.expand(inputs.scores_shape)
    if mask is not None and inputs.query.dtype == torch.float64:
        # torch 2.13 adds a float32 mask to half of the float64 scores, as
        # soon as the keys fill a register: 8 with AVX2, 16 with AVX-512.
        mask = mask if mask.dtype == torch.bool else mask.double()
    if masks_nothing(inputs):
        return {"attn_mask": mask}
    only = None if inputs.mask is None else inputs.mask.terms
    start = inputs.q_offset
    top_left = only == (Term("causal"),) and isinstance(start, int)
    # torch 2.13's CPU kernel masks before it scales: 0 times -inf is NaN.
    flag = causal_flag and mask is None and inputs.scale > 0
    if flag and top_left and start == 0:
        return {"is_causal": True}
    return {"attn_mask": combine_masks(mask, inputs.mask_tile())}


def masks_nothing(inputs: AttentionInputs) -> bool:
    """Return whether the positional mask's terms allow every pair."""
    mask, first = inputs.mask, inputs.q_offset
    if mask is None:
        return True
    if not isinstance(first, int) or not mask.is_relative:
        return False
    left, right = mask.bounds
    if torch.compiler.is_exporting() or torch.jit.is_tracing():  # type: ignore[attr-defined]
        return left is None and right is None  # whatever the lengths
    last = first + inputs.q_len - 1
    sees_last = right is None or first + right >= inputs.kv_len - 1
    return sees_last and (left is None or last - left <= 0)
