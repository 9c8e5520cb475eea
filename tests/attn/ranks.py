"""What ranks do in the tests of attn.distributed: functions of a module."""

import contextlib
import itertools
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

import attn
from attn.distributed import (
    all_gather_attention,
    count_sent,
    decode_attention,
    exchange,
    ring_attention,
    shard,
    ulysses_attention,
    unshard,
)

SCHEMES = {
    "ring": ring_attention,
    "all_gather": all_gather_attention,
    "ulysses": ulysses_attention,
}
LAYOUTS = ("contiguous", "zigzag")
B, L, D, DV = 2, 24, 6, 4
DOCUMENTS = torch.arange(L) // 7
MASKS: dict[str, dict[str, Any]] = {
    "full": {"scale": 0.3},
    "causal": {"is_causal": True},
    "window": {"window": (4, 1), "softcap": 2.0},
    "documents": {
        "is_causal": True,
        "attn_mask": attn.documents(DOCUMENTS) | attn.prefix(2),
    },
    "rows and heads": {
        "is_causal": True,  # some tokens have no key
        "attn_mask": attn.Mask(lambda b, h, q, kv: (b + h + kv) % 3 > 0),
    },
}


def inputs(heads: int, kv_heads: int, dtype: torch.dtype) -> list[Tensor]:
    """Return query, key, value, and the gradients of out and lse."""
    g = torch.Generator().manual_seed(heads * 10 + kv_heads)
    shapes = (
        (B, heads, L, D), (B, kv_heads, L, D), (B, kv_heads, L, DV),
        (B, heads, L, DV), (B, heads, L),
    )  # fmt: skip
    return [
        torch.randn(s, generator=g, dtype=torch.float64).to(dtype)
        for s in shapes
    ]


def whole(case: Any, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """Return what one process computes: out, gradients and lse."""
    _, heads, kv_heads, _, name = case
    tensors = [x.to(torch.float64) for x in inputs(heads, kv_heads, dtype)]
    q, k, v = (x.requires_grad_() for x in tensors[:3])
    sinks = sinks_of(heads)
    out, lse = attn.scaled_dot_product_attention(
        q, k, v, enable_gqa=heads != kv_heads, sinks=sinks,
        return_lse=True, **MASKS[name],
    )  # fmt: skip
    torch.autograd.backward([out, lse], tensors[3:])
    grads = [x.grad for x in (q, k, v, sinks)]
    return [out.detach(), *grads, lse.detach()]


def sinks_of(heads: int) -> Tensor:
    return torch.linspace(-1, 1, heads).double().requires_grad_()


def split(case: Any, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """Return the same, of which each rank computes a part."""
    scheme, heads, kv_heads, layout, name = case
    *qkv, d_out, d_lse = inputs(heads, kv_heads, dtype)
    q, k, v = (shard(x, -2, layout=layout).requires_grad_() for x in qkv)
    sinks = sinks_of(heads)
    out, lse = SCHEMES[scheme](
        q, k, v, enable_gqa=heads != kv_heads, sinks=sinks, layout=layout,
        return_lse=True, **MASKS[name],
    )  # fmt: skip
    parts = shard(d_out, -2, layout=layout), shard(d_lse, -1, layout=layout)
    torch.autograd.backward([out, lse], [parts[0], parts[1].to(lse.dtype)])
    assert (out.dtype, q.grad.dtype, k.grad.dtype) == (dtype,) * 3
    dist.all_reduce(sinks.grad)
    tensors = [out.detach(), q.grad, k.grad, v.grad]
    rows = [unshard(x, -2, layout=layout) for x in tensors]
    return [*rows, sinks.grad, unshard(lse.detach(), -1, layout=layout)]


def worst(got: list[Tensor], want: list[Tensor]) -> float:
    """Return the largest error, relative to each tensor's largest element."""
    largest = 0.0
    for x, y in zip(got, want, strict=True):
        error = (x - y).masked_fill(x == y, 0.0).abs().max()  # of -inf, too
        size = y.masked_fill(y == -torch.inf, 0.0).abs().max()
        largest = max(largest, (error / size).item())
    return largest


def errors(rank: int, cases: list[Any]) -> list[float]:
    """Return the errors of whole tensors, which all ranks have, on one."""
    found = [split(case) for case in cases]
    if rank > 0:
        return []
    return [worst(x, whole(c)) for x, c in zip(found, cases, strict=True)]


def half_errors(rank: int, cases: list[Any]) -> list[float]:
    """Return errors in bfloat16, by its own inputs in float64."""
    half = torch.bfloat16
    return [worst(split(case, half), whole(case, half)) for case in cases]


def counted(rank: int, sizes: dict[str, int]) -> dict[str, list[list[int]]]:
    """Return the bytes that leave, by ``count_sent`` and by wrapped calls."""
    heads, kv_heads, width = (
        sizes[x] for x in ("num_heads", "num_kv_heads", "head_dim")
    )
    found: dict[str, list[list[int]]] = {}
    for scheme, function in SCHEMES.items():
        q, k, v = (
            torch.zeros(
                sizes["batch"], h, sizes["seq_len"] // dist.get_world_size(),
                width, dtype=torch.bfloat16, requires_grad=True,
            )
            for h in (heads, kv_heads, kv_heads)
        )  # fmt: skip
        with leaving() as first, count_sent() as sent:
            out = function(q, k, v, enable_gqa=True)
        with leaving() as second, count_sent() as again:
            out.sum().backward()
        found[scheme] = [[sent.nbytes, *first], [again.nbytes, *second]]
    with torch.no_grad(), leaving() as first, count_sent() as sent:
        # The keys that a rank has do not matter.
        decode_attention(
            q[..., :1, :], k[..., rank:, :], v[..., rank:, :], enable_gqa=True
        )
    found["decode"] = [[sent.nbytes, *first]]
    with leaving() as first, count_sent() as sent:
        place = exchange.find_place(None, "a sum over ranks")
        outputs = torch.zeros(
            place.size, sizes["batch"], sizes["seq_len"] // place.size,
            heads * width, dtype=torch.bfloat16,
        )  # fmt: skip
        own = exchange.all_to_all(outputs, place).sum(0)
        exchange.all_gather(own, place)
    found["heads"] = [[sent.nbytes, *first]]
    return found


@contextlib.contextmanager
def leaving() -> Any:
    """Count elements that torch.distributed sends elsewhere, in bytes."""
    real = dist.P2POp, dist.all_gather, dist.all_to_all_single
    total, world = [0], dist.get_world_size()

    def operation(way: Any, x: Tensor, peer: int, group: Any) -> Any:
        assert peer != dist.get_rank() and x.is_contiguous()
        total[0] += x.nbytes if way is dist.isend else 0
        return real[0](way, x, peer, group)

    def gather(parts: list[Tensor], x: Tensor, group: Any) -> Any:
        if x.dtype != torch.uint8:  # the digest of a call
            total[0] += x.nbytes * (world - 1)
        return real[1](parts, x, group)

    def exchange(out: Tensor, x: Tensor, group: Any) -> Any:
        own = x.nbytes // world  # the part for oneself stays
        total[0] += x.nbytes - own
        return real[2](out, x, group=group)

    dist.P2POp, dist.all_gather = operation, gather  # type: ignore
    dist.all_to_all_single = exchange  # type: ignore
    try:
        yield total
    finally:
        dist.P2POp, dist.all_gather, dist.all_to_all_single = real  # type: ignore


def cases(heads: int, kv_heads: tuple[int, ...]) -> list[Any]:
    """Return every scheme, layout and mask, with each number of key heads."""
    return [
        (scheme, heads, kv, layout, name)
        for scheme, kv, layout, name in itertools.product(
            SCHEMES, kv_heads, LAYOUTS, MASKS
        )
    ]


def present(rank: int) -> tuple[int, int, int]:
    """Return the rank, the number of ranks, and that of threads."""
    x = torch.ones(())
    dist.all_reduce(x)
    return rank, int(x), torch.get_num_threads()
