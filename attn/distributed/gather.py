"""Every rank gathers all keys, and attends once: simple, and large."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from attn import arguments
from attn.distributed.blocks import at_positions, split
from attn.distributed.exchange import Place, all_gather, all_to_all
from attn.functional import tiled_attention
from attn.functional.attention import Result
from attn.functional.validation import Window
from attn.masks import Mask


@arguments.named()
def all_gather_attention(
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
    """Attend to a sequence that is split over ranks, with all keys at once.

    Every rank gathers the keys and values of all, in one collective, and
    keeps them for the backward pass, which sums their gradients over the
    ranks in float32. Forward, a ring sends as much and holds two of the ``W``
    blocks, but has ``W - 1`` steps, each of which has to hide behind one
    block. With few key heads, gathering is cheap.

    Arguments, result and errors are those of ``ring_attention``.

    Example:
        >>> from attn.distributed import all_gather_attention, launch, shard
        >>> def work(rank, query, key, value):
        ...     query, key, value = (
        ...         shard(x, -2) for x in (query, key, value)
        ...     )
        ...     return all_gather_attention(query, key, value, window=(3, 3))
        >>> query, key, value = torch.randn(3, 1, 2, 12, 8)
        >>> out = torch.cat(launch(work, 3, query, key, value), -2)
        >>> whole = attn.attention(query, key, value, window=(3, 3))
        >>> torch.allclose(out, whole, atol=1e-5)
        True

    Source: Llama 3 (2024), "The Llama 3 Herd of Models", section 3.3.2.
    """
    inputs, parts = split(
        "all_gather_attention", query, key, value, attn_mask, dropout_p,
        is_causal, scale, enable_gqa, softcap, sinks, window, layout, group,
    )  # fmt: skip
    q, k, v = (inputs.to_4d(x) for x in (query, key, value))
    k, v = (_Gather.apply(x, parts.place) for x in (k, v))
    mask = parts.mask
    if mask is not None:
        own = parts.q_positions[parts.place.rank]
        mask = at_positions(mask, own, parts.kv_positions.flatten())
    done = tiled_attention(
        q.to(k.dtype), k, v, mask, scale=parts.scale, enable_gqa=True,
        softcap=softcap, sinks=sinks, q_offset=0, return_lse=True,
        block_q=parts.tile[0], block_k=parts.tile[1],
    )  # fmt: skip
    out, lse = (inputs.from_4d(x) for x in done)
    out = out.to(query.dtype)
    return (out, lse) if return_lse else out


class _Gather(torch.autograd.Function):
    """Gather along the sequence; scatter and sum the gradients.

    Both are float32 on the side of the whole, so that the sum is, too.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, place: Place) -> Tensor:
        ctx.place, ctx.dtype = place, x.dtype
        parts = all_gather(x, place)  # (W, B, Hkv, S, D)
        whole = parts.movedim(0, -3).flatten(-3, -2)  # (B, Hkv, W * S, D)
        return whole.to(torch.promote_types(x.dtype, torch.float32))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        parts = grads[0].unflatten(-2, (ctx.place.size, -1)).movedim(-3, 0)
        return all_to_all(parts, ctx.place).sum(0).to(ctx.dtype), None
