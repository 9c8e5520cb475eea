"""Masks in the form that an attention function takes.

``"contract"``  the contract's own arguments, as given
``"inputs"``    one ``AttentionInputs`` in the place of all arguments
``"bool"``      one tensor of booleans, True = may attend, or None
``"additive"``  one float tensor, added to the scores, or None
``"block"``     a ``BlockMask`` of FlexAttention, or None
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attn.backends.block_masks import block_mask
from attn.functional.inputs import AttentionInputs

__all__ = ["FORMS", "MaskForm", "run", "unsupported_in_form"]

FORMS = ("contract", "inputs", "bool", "additive", "block")
MaskForm = Callable[[AttentionInputs], Any]

#: Options passed only when they differ from the default.
_OPTIONS: dict[str, Callable[[AttentionInputs], Any]] = {
    "dropout_p": lambda inputs: inputs.dropout_p or None,
    "softcap": lambda inputs: inputs.softcap,
    "sinks": lambda inputs: inputs.sinks,
    "enable_gqa": lambda inputs: inputs.group_size > 1 or None,
}


def unsupported_in_form(
    form: str | MaskForm,
    declares: Callable[[str], bool],
    inputs: AttentionInputs,
) -> list[str]:
    """Return what a mask form cannot express of a call."""
    if form in ("contract", "inputs"):
        return []
    reasons = []
    mask = inputs.attn_mask
    if mask is not None and form == "block":
        reasons.append("attn_mask is a tensor: pass a Mask")
    is_bias = mask is not None and mask.dtype != torch.bool
    if is_bias and (form == "bool" or callable(form)):
        reasons.append(
            "attn_mask is a float bias: pass booleans, or register it with "
            'mask="additive"'
        )
    if form == "block" and not isinstance(inputs.q_offset, int):
        reasons.append("q_offset is a tensor: pass one int for all rows")
    for name, value in _OPTIONS.items():
        if value(inputs) is not None and not declares(name):
            reasons.append(f"{name} is given: its function declares none")
    return reasons


def run(
    function: Callable[..., Any],
    form: str | MaskForm,
    inputs: AttentionInputs,
    options: dict[str, Any],
    return_lse: bool,
    extra: dict[str, Any],
) -> Any:
    """Call a function with its masks in its form.

    ``options`` are the contract's optional arguments, as given; ``extra`` are
    keywords outside the contract.
    """
    keywords = {**extra, **({"return_lse": True} if return_lse else {})}
    if form == "inputs":
        return function(inputs, **keywords)
    tensors = (inputs.query, inputs.key, inputs.value)
    if form == "contract":
        return function(*tensors, **options, **keywords)
    given = {name: value(inputs) for name, value in _OPTIONS.items()}
    keywords |= {name: x for name, x in given.items() if x is not None}
    make = form if callable(form) else _MAKERS[form]
    mask = make(inputs.with_one_mask() if callable(form) else inputs)
    return function(*tensors, mask, scale=inputs.scale, **keywords)


def _additive(inputs: AttentionInputs) -> Tensor | None:
    mask = inputs.dense_mask()
    if mask is None or mask.dtype != torch.bool:
        return mask
    zero = torch.zeros((), dtype=inputs.query.dtype, device=mask.device)
    return torch.where(mask, zero, -torch.inf)


_MAKERS: dict[str, MaskForm] = {
    "bool": AttentionInputs.dense_mask,
    "additive": _additive,
    "block": block_mask,
}
