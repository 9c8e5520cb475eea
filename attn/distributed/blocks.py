"""Attention of one rank's queries to one rank's keys, forward and backward."""

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
from attn.functional import tiled_attention, validation
from attn.functional.heads import grouped_matmul, pack_groups
from attn.functional.inputs import AttentionInputs, validate
from attn.functional.tiled import State
from attn.masks import Mask, causal
from attn.masks import window as window_mask

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
    runs: int  # neighbouring tokens are in one of so many parts of a shard

    def mask_of(self, origin: int) -> Mask | None:
        """Return the mask of this rank's queries and another one's keys."""
        if self.mask is None:
            return None
        q, kv = self.q_positions[self.place.rank], self.kv_positions[origin]
        return at_positions(self.mask, q, kv)

    def tile(self, length: int) -> int:
        """Return the length of a tile, of neighbouring tokens."""
        return max(1, min(_TILE, math.ceil(length / self.runs)))


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
    bounds = validation.window(window)
    rules = [
        causal() if is_causal else None,
        None if bounds is None else window_mask(*bounds),
        attn_mask,
    ]
    mask = None
    for rule in rules:
        if rule is not None:
            mask = rule if mask is None else mask & rule
    if mask is not None:
        q_len, kv_len = (
            int(x.max()) + 1 if x.numel() else 0
            for x in (q_positions, kv_positions)
        )
        batch = math.prod(inputs.batch_shape)
        mask.extent.check(mask, q_len, kv_len, batch, 0)
    return inputs, Split(
        place, mask, q_positions, kv_positions,
        inputs.scale, inputs.softcap, 2 if layout == "zigzag" else 1,
    )  # fmt: skip


def block_state(
    query: Tensor, key: Tensor, value: Tensor, parts: Split, origin: int
) -> State:
    """Return ``out`` and ``lse`` over the keys of one rank, in float32."""
    dtype = torch.promote_types(query.dtype, torch.float32)
    q, k, v = (x.to(dtype) for x in (query, key, value))
    state = tiled_attention(
        q, k, v, parts.mask_of(origin), scale=parts.scale, enable_gqa=True,
        softcap=parts.softcap, q_offset=0, return_lse=True,
        block_q=parts.tile(q.shape[-2]), block_k=parts.tile(k.shape[-2]),
    )  # fmt: skip
    assert isinstance(state, tuple)
    return state


def block_backward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    d_out: Tensor,
    delta: Tensor,
    lse: Tensor,
    parts: Split,
    origin: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of one block of keys, in the dtype of ``lse``.

    ``lse`` is that of whole rows, ``delta`` the sum of ``d_out * out`` less
    the gradient of ``lse``: both ``(B, H, L)``.

    Source: Dao et al. 2022, "FlashAttention", appendix B.2.
    """
    q, k, v = (x.to(lse.dtype) for x in (query, key, value))
    dq, dk, dv = (torch.zeros_like(x) for x in (q, k, v))
    mask, heads = parts.mask_of(origin), k.shape[-3]
    # exp(-inf) is 0; a row without any key would give exp(-inf + inf).
    lse = lse.masked_fill(lse == -torch.inf, 0.0)
    rows, columns = (
        [slice(i, min(i + size, n)) for i in range(0, n, size)]
        for n in (q.shape[-2], k.shape[-2])
        for size in [parts.tile(n)]
    )
    whole = None
    if mask is not None:
        whole = mask.tile(
            q.shape[-2], k.shape[-2], q.shape[0], q.shape[1], 0, q.device
        )  # (B, H, L, S), expanded
    for r in rows:
        g = d_out[..., r, :]
        for c in columns:
            allowed = None if whole is None else whole[..., r, c]
            if allowed is not None and not allowed.any():
                continue
            scores = grouped_matmul(q[..., r, :], k[..., c, :].mT)
            scores = scores * parts.scale
            slope: Tensor | float = parts.scale
            if parts.softcap is not None:
                squashed = torch.tanh(scores / parts.softcap)
                scores = parts.softcap * squashed
                slope = slope * (1 - squashed.square())
            if allowed is not None:
                scores = scores.masked_fill(~allowed, -torch.inf)
            weights = torch.exp(scores - lse[..., r, None])  # (B, H, l, s)
            dp = grouped_matmul(g, v[..., c, :].mT)
            ds = weights * (dp - delta[..., r, None]) * slope
            dq[..., r, :] += grouped_matmul(ds, k[..., c, :])
            packed = pack_groups(q[..., r, :], heads)
            dk[..., c, :] += pack_groups(ds, heads).mT @ packed
            dv[..., c, :] += pack_groups(weights, heads).mT @ pack_groups(
                g, heads
            )
    return dq, dk, dv


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
