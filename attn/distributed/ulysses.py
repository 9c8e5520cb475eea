"""All-to-all: from a part of the sequence to a part of the heads, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from attn import arguments
from attn.cost.attention import check_heads
from attn.distributed.blocks import split
from attn.distributed.exchange import Place, all_to_all
from attn.distributed.sharding import check_rank
from attn.functional import tiled_attention
from attn.functional.attention import Result
from attn.functional.validation import Window
from attn.masks import Mask


class HeadShard(NamedTuple):
    """The heads of one rank: see ``shard_heads``.

    Example:
        >>> mine = attn.distributed.shard_heads(8, 2, rank=3, world_size=4)
        >>> [*mine.query], [*mine.kv]
        ([6, 7], [1])
    """

    query: range
    kv: range


def shard_heads(
    num_heads: int, num_kv_heads: int, rank: int, world_size: int
) -> HeadShard:
    """Return the query heads of a rank, and the key heads that they read.

    The rule of tensor parallelism: query heads are split evenly. So are the
    key heads where there are enough; where there are fewer than ranks,
    several ranks hold a copy of one, and the gradients of its projections
    have to be summed over them.

    Args:
        num_heads: query heads, ``H``, a multiple of ``world_size``.
        num_kv_heads: key/value heads, ``Hkv``, a multiple or a divisor of
            ``world_size``.
        rank, world_size: of the process group.

    Returns:
        ``query`` and ``kv``, ranges of heads.

    Raises:
        ValueError: the heads cannot be split so; the message has the numbers
            of ranks that fit.

    Example:
        >>> for rank in range(4):  # 8 query heads on 2 key heads
        ...     print(attn.distributed.shard_heads(8, 2, rank, 4))
        HeadShard(query=range(0, 2), kv=range(0, 1))
        HeadShard(query=range(2, 4), kv=range(0, 1))
        HeadShard(query=range(4, 6), kv=range(1, 2))
        HeadShard(query=range(6, 8), kv=range(1, 2))

    Source: Shoeybi et al. 2019, "Megatron-LM", section 3; for fewer key
    heads than ranks, vLLM's ``QKVParallelLinear``.
    """
    arguments.counts(num_heads=num_heads, num_kv_heads=num_kv_heads)
    check_heads(num_heads, num_kv_heads)
    check_rank(rank, world_size)
    if not _fits(num_heads, num_kv_heads, world_size):
        fitting = [
            str(n)
            for n in range(1, num_heads + 1)
            if _fits(num_heads, num_kv_heads, n)
        ]
        raise ValueError(
            f"{num_heads} query and {num_kv_heads} key heads must be split "
            f"evenly; got {world_size} ranks: use one of {', '.join(fitting)}"
            ", or ring_attention, which splits no heads"
        )
    own = num_heads // world_size
    query = range(rank * own, (rank + 1) * own)
    group = num_heads // num_kv_heads
    return HeadShard(query, range(query[0] // group, query[-1] // group + 1))


@arguments.named()
def ulysses_attention(
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
    attn: Callable[..., Any] = tiled_attention,
) -> Result:
    """Attend to a sequence that is split over ranks, by splitting heads.

    An all-to-all exchange gives every rank the whole sequence for some of
    the heads; any attention of one process does the rest; another exchange
    gives each rank its tokens back. There are as many ranks as heads can be
    split over, at most: see ``shard_heads``, the rule for key heads too.

    Args:
        query, key, value: those of ``ring_attention``, as is all that is
            not named here.
        layout: that of ``ring_attention``; given as positions, these must
            be all tokens from 0 on.
        attn: computes the whole sequence: a function with the arguments of
            ``attn.scaled_dot_product_attention``, of which it is given those
            that are not None. PyTorch's fits.

    Returns:
        This rank's rows, as ``ring_attention`` does.

    Raises:
        TypeError, ValueError, RuntimeError: as ``ring_attention``; and for
            heads that cannot be split.

    Example:
        >>> from attn.distributed import launch, shard, ulysses_attention
        >>> def work(rank, *whole):
        ...     q, k, v = (shard(x, -2) for x in whole)
        ...     return ulysses_attention(q, k, v, is_causal=True)
        >>> query, key, value = torch.randn(3, 1, 4, 12, 8)
        >>> out = torch.cat(launch(work, 2, query, key, value), -2)
        >>> whole = attn.attention(query, key, value, is_causal=True)
        >>> torch.allclose(out, whole, atol=1e-5)
        True

    Source: Jacobs et al. 2023, "DeepSpeed Ulysses", section 3.
    """
    inputs, parts = split(
        "ulysses_attention", query, key, value, attn_mask, dropout_p,
        is_causal, scale, enable_gqa, softcap, sinks, window, layout, group,
    )  # fmt: skip
    place = parts.place
    heads = [
        shard_heads(inputs.num_heads, inputs.num_kv_heads, r, place.size)
        for r in range(place.size)
    ]
    own = heads[place.rank]
    orders = _order(parts.q_positions), _order(parts.kv_positions)
    q, k, v = (inputs.to_4d(x) for x in (query, key, value))
    q = _to_heads(q, [x.query for x in heads], orders[0], place)
    k, v = (
        _to_heads(x, [y.kv for y in heads], orders[1], place) for x in (k, v)
    )
    mask = attn_mask
    if mask is not None and any(t.kind == "opaque" for t in mask.terms):
        mask = _of_heads(mask, own.query.start)
    options = {
        "softcap": softcap,
        "sinks": None
        if sinks is None
        else sinks[own.query.start : own.query.stop],
        "window": window,
        "q_offset": None if inputs.q_len == inputs.kv_len else 0,
        "return_lse": return_lse or None,
    }
    given = {name: x for name, x in options.items() if x is not None}
    done = attn(
        q, k, v, attn_mask=mask, is_causal=is_causal, scale=parts.scale,
        enable_gqa=enable_gqa, **given,
    )  # fmt: skip
    if not return_lse:
        return inputs.from_4d(_to_tokens(done, orders[0], place))
    out, lse = done
    out = _to_tokens(out, orders[0], place)
    lse = _to_tokens(lse[..., None], orders[0], place)[..., 0]
    return inputs.from_4d(out), inputs.from_4d(lse)


def _fits(num_heads: int, num_kv_heads: int, world_size: int) -> bool:
    even = num_kv_heads % world_size == 0 or world_size % num_kv_heads == 0
    return num_heads % world_size == 0 and even


def _to_heads(
    x: Tensor, heads: list[range], order: Tensor, place: Place
) -> Tensor:
    """Return this rank's heads of all tokens, in the order of the text."""
    parts = _Swap.apply(_Pick.apply(x, heads), place)  # (W, B, H / W, L, D)
    whole = parts.movedim(0, -3).flatten(-3, -2)  # (B, H / W, W * L, D)
    return whole.index_select(-2, order.to(x.device))


def _to_tokens(x: Tensor, order: Tensor, place: Place) -> Tensor:
    """Return all heads of this rank's tokens, ``(B, H, L, Dv)``."""
    x = x.index_select(-2, order.argsort().to(x.device))
    parts = x.unflatten(-2, (place.size, -1)).movedim(-3, 0)
    return _Swap.apply(parts, place).movedim(0, 1).flatten(1, 2)


class _Swap(torch.autograd.Function):
    """Exchange part ``i`` with rank ``i``: its own inverse, and gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, place: Place) -> Tensor:
        ctx.place = place
        return all_to_all(x, place).view_as(x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return all_to_all(grads[0], ctx.place), None


class _Pick(torch.autograd.Function):
    """Pick the heads of each rank, of which several may hold the same.

    The gradients of copies are summed in float32.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, heads: list[range]) -> Tensor:
        ctx.heads, ctx.shape = heads, x.shape
        return torch.stack([x[:, h.start : h.stop] for h in heads])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        (grad,) = grads
        dtype = torch.promote_types(grad.dtype, torch.float32)
        total = grad.new_zeros(ctx.shape, dtype=dtype)
        for part, h in zip(grad, ctx.heads, strict=True):
            total[:, h.start : h.stop] += part
        return total.to(grad.dtype), None


def _order(positions: Tensor) -> Tensor:
    """Return the places of the tokens, in the order of the text."""
    order = positions.flatten().argsort()
    count = torch.arange(order.numel(), device=order.device)
    if not torch.equal(positions.flatten()[order], count):
        raise ValueError(
            "positions as layout must be those of all tokens, each once, "
            f"from 0 to {len(order) - 1}; got other ones: use ring_attention"
        )
    return order


def _of_heads(mask: Mask, first: int) -> Mask:
    """Return a mask of which head 0 is another head of the whole."""
    return Mask(
        lambda b, h, q_idx, kv_idx: mask(b, h + first, q_idx, kv_idx),
        f"({mask}) from head {first}",
        extent=mask.extent,
    )
