"""``F.scaled_dot_product_attention``, given what it can be told.

Rules about positions become torch's flag where it has one, nothing where
they hide nothing, and a matrix of booleans else.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attn.functional.inputs import Call
from attn.masks import Term

__all__ = ["run_sdpa", "why_not_sdpa"]


def why_not_sdpa(call: Call) -> list[str]:
    """What torch's function cannot be told."""
    lacks = []
    for name, x in (("softcap", call.softcap), ("sinks", call.sinks)):
        if x is not None:
            lacks.append(f"{name} is given: torch has no such argument")
    mask, dtype = call.attn_mask, call.query.dtype
    mixed = mask is not None and mask.dtype not in (dtype, torch.bool)
    if mixed and call.dropout_p > 0 and mask is not None:
        lacks.append(
            f"attn_mask is {mask.dtype} and query {dtype}: with dropout "
            "torch needs the same"
        )
    if 0 in (*call.query.shape, *call.key.shape, *call.value.shape):
        lacks.append("a tensor is empty: torch's answer is not always 0")
    return lacks


def why_not_sdpa_on_cpu(call: Call) -> list[str]:
    """The same for those who call it in pieces, as only a CPU gains by."""
    lacks = why_not_sdpa(call)
    if not call.query.is_cpu:
        lacks.append(f"query is on {call.query.device}: it is for CPUs")
    return lacks


def run_sdpa(call: Call) -> Tensor:
    """The call, by torch."""
    return F.scaled_dot_product_attention(
        call.query,
        call.key,
        call.value,
        dropout_p=call.dropout_p,
        scale=call.scale,
        enable_gqa=call.num_heads != call.num_kv_heads,
        **torch_mask(call),
    )


def torch_mask(call: Call) -> dict[str, Any]:
    """``is_causal`` or ``attn_mask`` for a call's rules and its tensor."""
    given = call.attn_mask
    if given is not None and call.query.dtype == torch.float64:
        # torch 2.13 adds a float32 mask to half of the float64 scores, as
        # soon as the keys fill a register: 8 with AVX2, 16 with AVX-512.
        given = given if given.dtype == torch.bool else given.double()
    if call.mask is None or hides_nothing(call):
        return {"attn_mask": given}
    if given is None and is_top_left(call):
        return {"is_causal": True}
    allowed = call.allowed()
    assert allowed is not None
    if given is None:
        return {"attn_mask": allowed}
    if given.dtype == torch.bool:
        return {"attn_mask": given & allowed}
    return {"attn_mask": given.masked_fill(~allowed, -torch.inf)}


def is_top_left(call: Call) -> bool:
    """Whether the rule is torch's ``is_causal``, and no more."""
    mask, start = call.mask, call.q_offset
    only = mask is not None and mask.terms == (Term("causal"),)
    return only and isinstance(start, int) and start == 0


def hides_nothing(call: Call) -> bool:
    """Whether every query sees every key, by what its terms say."""
    if call.mask is None:
        return True
    if not isinstance(call.q_offset, int) or not call.mask.is_relative:
        return False
    left, right = call.mask.bounds
    first = call.q_offset
    last = first + call.q_len - 1
    if right is not None and first + right < call.kv_len - 1:
        return False
    return left is None or last - left <= 0
