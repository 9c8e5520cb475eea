"""Ring attention: every rank keeps its queries, and keys go round.

A rank attends to one block of keys and values at a time, its own first, while
the next block is on its way. Blocks are merged as ``merge_states`` does, and
positions are absolute, so that any layout of the sequence is the same code.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable

from attn import arguments
from attn.distributed.blocks import Split, split
from attn.distributed.exchange import circulate, pass_on
from attn.functional import merge_states
from attn.functional.attention import Result
from attn.functional.tiled import State, tile_gradients, tiled
from attn.functional.validation import Window
from attn.masks import Mask


@arguments.named()
def ring_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Mask | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    softcap: float | None = None,
    sinks: Tensor | None = None,
    window: Window | None = None,
    layout: str | Tensor = "contiguous",
    group: dist.ProcessGroup | None = None,
    return_lse: bool = False,
) -> Result:
    """Attend to a sequence that is split over ranks, exactly.

    The result is that of ``attn.scaled_dot_product_attention`` on the whole
    sequence, of which each rank has its own rows. Keys and values pass
    through all ranks, ``W - 1`` steps forward; backward, they do so again
    while their gradients collect, and go home in ``W - 1`` steps. States are
    merged, and gradients sent, in float32 (float64 for float64); tiles that
    the mask hides are skipped.

    Args:
        query: this rank's part, ``(..., H, L, D)``.
        key: ``(..., Hkv, S, D)``, of the same dtype.
        value: ``(..., Hkv, S, Dv)``, of the same dtype. All shapes are the
            same on every rank.
        attn_mask: a ``Mask``; it sees absolute positions.
        dropout_p: must be 0.0.
        is_causal, scale, enable_gqa, softcap, sinks, window, return_lse:
            those of ``attn.scaled_dot_product_attention``. The gradient of
            ``sinks`` is that of this rank's queries.
        layout: that of ``shard``; or the absolute positions of this rank's
            tokens, int64 ``(L,)``, with ``S = L``.
        group: the ranks that share the sequence; all ranks when None.

    Returns:
        This rank's rows, ``(..., H, L, Dv)``, in the dtype of ``query``; with
        ``return_lse`` also ``(..., H, L)``, float32 or float64.

    Raises:
        TypeError, ValueError: an argument is wrong, or differs between
            ranks; the message names them.
        RuntimeError: there is no process group, or a rank was lost.

    Example:
        >>> from attn.distributed import launch, ring_attention, shard
        >>> def work(rank, *whole):
        ...     parts = (shard(x, -2, layout="zigzag") for x in whole)
        ...     return ring_attention(*parts, is_causal=True, layout="zigzag")
        >>> query, key, value = torch.randn(3, 1, 2, 16, 8)
        >>> out = launch(work, 2, query, key, value)
        >>> whole = attn.attention(query, key, value, is_causal=True)
        >>> torch.allclose(out[1], whole[..., 4:12, :], atol=1e-5)
        True

    Source: Liu et al. 2023, "Ring Attention with Blockwise Transformers".
    """
    inputs, parts = split(
        "ring_attention", query, key, value, attn_mask, dropout_p, is_causal,
        scale, enable_gqa, softcap, sinks, window, layout, group,
    )  # fmt: skip
    q, k, v = (inputs.to_4d(x) for x in (query, key, value))
    out, lse = _Ring.apply(q, k, v, parts)
    if sinks is not None:
        out = (
            out * torch.sigmoid(lse - sinks[:, None].to(lse.dtype))[..., None]
        )
    out = inputs.from_4d(out).to(query.dtype)
    return (out, inputs.from_4d(lse)) if return_lse else out


class _Ring(torch.autograd.Function):
    """Keys go round forward; keys and their gradients go round backward."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, parts: Split
    ) -> State:
        state = None
        for origin, (k, v) in circulate((key, value), parts.place):
            block = tiled(parts.block(query, k, v, origin), True, *parts.tile)
            assert isinstance(block, tuple)
            state = block if state is None else merge_states(state, block)
        assert state is not None
        ctx.save_for_backward(query, key, value, *state)
        ctx.parts = parts
        return state

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Tensor, d_lse: Tensor) -> Any:
        query, key, value, out, lse = ctx.saved_tensors
        parts: Split = ctx.parts
        # The final lse makes every block's weights those of the whole row:
        # there is nothing to merge.
        delta = (d_out * out).sum(-1) - d_lse  # (B, H, L)
        dq = torch.zeros_like(query, dtype=out.dtype)
        own: list[Tensor] = []
        guest: list[Tensor] = []
        for origin, (k, v) in circulate((key, value), parts.place):
            block = parts.block(query, k, v, origin)
            part, *dkv = tile_gradients(block, parts.tile, d_out, delta, lse)
            dq += part
            if origin == parts.place.rank:
                own = dkv
                continue
            if guest:  # the ranks before have added theirs
                dkv = [x + y for x, y in zip(dkv, guest, strict=True)]
            guest = pass_on(dkv, parts.place)()
        if guest:  # the last step brings this rank's own gradients home
            own = [x + y for x, y in zip(own, guest, strict=True)]
        dk, dv = own
        return dq.to(query.dtype), dk.to(key.dtype), dv.to(value.dtype), None
