"""One call that is spread over ranks: validated, with the part of each."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from attn.distributed.exchange import Place, agree, all_gather, find_place
from attn.distributed.sharding import every_position
from attn.functional.inputs import AttentionInputs, validate
from attn.masks import Mask
from attn.masks.combine import combine_masks

_TILE = 256  # at most, along the queries and along the keys


@dataclass(frozen=True, eq=False)
class Split:
    """One call, spread over ranks, and the positions of each."""

    place: Place
    mask: Mask | None  # of absolute positions
    q_positions: Tensor  # (W, L)
    kv_positions: Tensor  # (W, S)
    scale: float
    softcap: float | None
    tile: tuple[int, int]  # neighbouring queries and keys

    def block(
        self, query: Tensor, key: Tensor, value: Tensor, origin: int
    ) -> AttentionInputs:
        """Return the call of this rank's queries and another one's keys."""
        mask = self.mask
        if mask is not None:
            q_positions = self.q_positions[self.place.rank]
            mask = at_positions(mask, q_positions, self.kv_positions[origin])
        dtype = torch.promote_types(query.dtype, torch.float32)
        q, k, v = (x.to(dtype) for x in (query, key, value))
        return validate(
            q, k, v, mask, scale=self.scale, enable_gqa=True,
            softcap=self.softcap, q_offset=0,
        )  # fmt: skip


def split(
    caller: str,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Mask | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
    softcap: float | None,
    sinks: Tensor | None,
    window: Any,
    layout: str | Tensor,
    group: dist.ProcessGroup | None,
) -> tuple[AttentionInputs, Split]:
    """Validate a call on every rank; return its inputs and its parts."""
    place = find_place(group, caller)
    if attn_mask is not None and not isinstance(attn_mask, Mask):
        raise TypeError(
            f"attn_mask must be an attn Mask in {caller}, a rule for absolute "
            f"positions; got {type(attn_mask).__name__}: attn.documents, "
            "attn.padding and attn.Mask make one of data"
        )
    if dropout_p != 0.0:
        raise ValueError(
            f"dropout_p must be 0.0 in {caller}; got {dropout_p}: drop "
            "elements of the result instead"
        )
    inputs = validate(
        query, key, value, is_causal=is_causal, scale=scale,
        enable_gqa=enable_gqa, softcap=softcap, sinks=sinks, window=window,
    )  # fmt: skip
    agree(
        place,
        caller,
        query.device,
        query=(tuple(query.shape), query.dtype),
        key=(tuple(key.shape), key.dtype),
        value=(tuple(value.shape), value.dtype),
        is_causal=is_causal,
        attn_mask=repr(attn_mask),
        scale=inputs.scale,
        softcap=softcap,
        sinks=sinks is not None,
        window=window,
        layout=layout if isinstance(layout, str) else "positions",
        requires_grad=inputs.requires_grad,
    )
    q_positions, kv_positions = _positions(inputs, layout, place)
    mask = combine_masks(inputs.mask, attn_mask)
    if mask is not None:
        assert isinstance(mask, Mask)
        q_len, kv_len = (
            int(x.max()) + 1 if x.numel() else 0
            for x in (q_positions, kv_positions)
        )
        batch = math.prod(inputs.batch_shape)
        mask.extent.check(mask, q_len, kv_len, batch, 0)
    runs = 2 if layout == "zigzag" else 1  # of neighbours, on each rank
    q_tile, kv_tile = (
        max(1, min(_TILE, math.ceil(n / runs)))
        for n in (inputs.q_len, inputs.kv_len)
    )
    return inputs, Split(
        place, mask, q_positions, kv_positions,
        inputs.scale, inputs.softcap, (q_tile, kv_tile),
    )  # fmt: skip


def at_positions(
    mask: Mask, q_positions: Tensor, kv_positions: Tensor
) -> Mask:
    """Return a mask of local indices from one of absolute positions."""
    predicate = partial(_at, mask, q_positions, kv_positions)
    return Mask(predicate, f"({mask}) of some positions")


def _at(
    mask: Mask, q: Tensor, kv: Tensor, b: Any, h: Any, q_idx: Any, kv_idx: Any
) -> Any:
    return mask(b, h, q.to(q_idx.device)[q_idx], kv.to(kv_idx.device)[kv_idx])


def _positions(
    inputs: AttentionInputs, layout: str | Tensor, place: Place
) -> tuple[Tensor, Tensor]:
    """Return the positions of every rank's queries and keys."""
    lengths = inputs.q_len, inputs.kv_len
    if isinstance(layout, str):
        q, kv = (
            every_position(n * place.size, place.size, layout) for n in lengths
        )
        return q, kv
    if not isinstance(layout, Tensor):
        raise TypeError(
            "layout must be 'contiguous', 'zigzag' or a tensor of positions; "
            f"got {layout!r}"
        )
    if layout.dtype != torch.int64 or layout.shape != (inputs.q_len,):
        raise ValueError(
            "positions as layout must be int64, one for each token, "
            f"({inputs.q_len},); got {layout.dtype} {tuple(layout.shape)}"
        )
    if inputs.q_len != inputs.kv_len:
        raise ValueError(
            "positions as layout must be those of queries and keys, of equal "
            f"number; got {inputs.q_len} queries and {inputs.kv_len} keys"
        )
    every = all_gather(layout, place)
    return every, every
