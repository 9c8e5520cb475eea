"""Masks in the form that an attention function wants.

``"rules"``     the contract's own arguments: ``attn_mask``, ``is_causal``,
                ``window``, ``q_offset`` as they were given
``"call"``      the checked ``Call``, in the place of all arguments
``"bool"``      one tensor of booleans, True = may attend, or None
``"additive"``  one tensor of numbers to be added to the scores, or None
``"block"``     a ``BlockMask`` of FlexAttention, or None
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from attn.functional.inputs import Call
from attn.masks import Mask

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask

__all__ = ["FORMS", "MaskForm", "block_mask", "run", "why_not_in_form"]

FORMS = ("rules", "call", "bool", "additive", "block")
MaskForm = Callable[[Call], Any]

#: What a function is told only where it is not the default.
_OPTIONS: dict[str, Callable[[Call], Any]] = {
    "dropout_p": lambda call: call.dropout_p or None,
    "softcap": lambda call: call.softcap,
    "sinks": lambda call: call.sinks,
    "enable_gqa": lambda call: call.group_size > 1 or None,
}


def why_not_in_form(
    form: str, takes: Callable[[str], bool], call: Call
) -> list[str]:
    """What a function that wants its masks so cannot be told of a call."""
    if form in ("rules", "call"):
        return []
    lacks = []
    given = call.attn_mask
    if given is not None and form == "block":
        lacks.append("attn_mask is a tensor: it needs a Mask, or rules")
    if given is not None and form == "bool" and given.dtype != torch.bool:
        lacks.append("attn_mask adds numbers: it takes booleans")
    if form == "block" and not isinstance(call.q_offset, int):
        lacks.append("q_offset is a tensor: it needs one for all rows")
    for name, value in _OPTIONS.items():
        if value(call) is not None and not takes(name):
            lacks.append(f"{name} is given: its function declares none")
    return lacks


def run(
    function: Callable[..., Any],
    form: str | MaskForm,
    call: Call,
    arguments: dict[str, Any],
    return_lse: bool,
    extra: dict[str, Any],
) -> Any:
    """Call a function with its masks in its form.

    Args:
        function: of an implementation.
        form: one of ``FORMS``, or what makes the mask of a call.
        call: checked.
        arguments: the contract's, as they were given.
        return_lse: ask for the lse too.
        extra: what else the caller said.
    """
    wanted = {**extra, **({"return_lse": True} if return_lse else {})}
    tensors = (call.query, call.key, call.value)
    if form == "call":
        return function(call, **wanted)
    if form == "rules":
        return function(*tensors, **arguments, **wanted)
    told = {name: value(call) for name, value in _OPTIONS.items()}
    told = {name: value for name, value in told.items() if value is not None}
    mask = form(call) if callable(form) else _MAKERS[form](call)
    return function(*tensors, mask, scale=call.scale, **told, **wanted)


def _booleans(call: Call) -> Tensor | None:
    given, allowed = call.attn_mask, call.allowed()
    if given is None or allowed is None:
        return allowed if given is None else given
    return given & allowed


def _numbers(call: Call) -> Tensor | None:
    given, allowed = call.attn_mask, call.allowed()
    if given is not None and given.dtype == torch.bool:
        allowed = given if allowed is None else given & allowed
        given = None
    if allowed is None:
        return given
    zero = torch.zeros((), dtype=call.query.dtype, device=call.query.device)
    bias = zero if given is None else given
    return torch.where(allowed, bias, -torch.inf)


# --- BlockMask: made once for all layers -------------------------------------


def block_mask(call: Call) -> BlockMask | None:
    """The rules of a call for FlexAttention; None when there are none."""
    mask = call.mask
    if mask is None:
        return None
    same = _Same(mask)
    batch = call.batch_shape.numel()
    # Of rules that are known, only padding and documents look at the row.
    rows = batch if same.opaque or mask.data.batch is not None else None
    heads = call.num_heads if same.opaque else None
    sizes = (call.q_len, call.kv_len, rows, heads, call.q_offset)
    return _cached(same, *sizes, call.query.device)


class _Same:
    """A mask as a key: the same rules over the same tensors."""

    def __init__(self, mask: Mask) -> None:
        self.mask = mask
        self.opaque = any(term.kind == "opaque" for term in mask.terms)
        self.key: tuple[Any, ...] = (id(mask),)
        if not self.opaque:
            self.key = tuple(map(_key, mask.terms))

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.key == other.key


def _key(term: Any) -> tuple[Any, ...]:
    values = (
        (id(x), x._version) if isinstance(x, Tensor) else x
        for x in term.values
    )
    return (term.kind, *values)


@functools.lru_cache(maxsize=16)
def _cached(
    same: _Same,
    q_len: int,
    kv_len: int,
    batch: int | None,
    heads: int | None,
    q_offset: int,
    device: torch.device,
) -> BlockMask:
    """The entry keeps the mask's tensors alive, so an id stays theirs."""
    return same.mask.block_mask(
        q_len,
        kv_len,
        batch=batch,
        heads=heads,
        q_offset=q_offset,
        device=device,
    )


_MAKERS: dict[str, MaskForm] = {
    "bool": _booleans,
    "additive": _numbers,
    "block": block_mask,
}
