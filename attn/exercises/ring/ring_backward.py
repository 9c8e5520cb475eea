"""Cases and properties of ``ring-ring_backward``."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from attn.exercises.conditions import views
from attn.exercises.draw import Draw
from attn.exercises.ring.blocks import GIVEN, attend, block_gradients
from attn.exercises.ring.lockstep import (
    CHANGED,
    SPOILED,
    Link,
    named,
    run_crossed,
    run_ranks,
    shards,
)
from attn.exercises.ring.shard_positions import shard_positions
from attn.exercises.ring.texts import BREAKS, CROSSED, OWN, cases
from attn.exercises.spec import Case, Exercise


def ring_backward(
    query,
    key,
    value,
    out,
    lse,
    d_out,
    rank,
    world_size,
    shift,
    layout="contiguous",
    is_causal=False,
):
    """Let positions and gradients travel with the keys: the reference.

    A test compares it with autograd, on one machine.
    """
    length = query.shape[2] * world_size
    rows = columns = shard_positions(length, rank, world_size, layout)
    dq, dk, dv = map(torch.zeros_like, (query, key, value))
    for _ in range(world_size):
        allowed = columns <= rows[:, None] if is_causal else None
        more = block_gradients(query, key, value, out, lse, d_out, allowed)
        dq, dk, dv = dq + more[0], dk + more[1], dv + more[2]
        key, value, columns, dk, dv = shift(key, value, columns, dk, dv)()
    return dq, dk, dv


def _use(
    answer: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    lse: Tensor,
    d_out: Tensor,
    world_size: int,
    layout: str | None = None,
    is_causal: bool | None = None,
    messages: str = OWN,
) -> dict[str, Any]:
    """Run the answer as every rank, each with its part of the text."""
    options = () if layout is None else (layout, is_causal)
    lse = lse[..., None]  # (B, H, L, 1)
    given = [query, key, value, out, lse, d_out]
    parts = [shards(x, world_size, layout or "contiguous") for x in given]

    def work(rank: int, link: Link, factor: float = 1.0) -> Any:
        own = [x[rank].clone() for x in parts]
        own[4], own[5] = own[4][..., 0], factor * own[5]
        own = link.lend(*own)
        return answer(*own, rank, world_size, link.shift, *options)

    run = run_crossed if messages == CROSSED else run_ranks
    results, links = run(work, world_size)
    return {
        **named(results, "dq", "dk", "dv"),
        CHANGED: sum(link.changed for link in links),
        SPOILED: sum(link.spoiled for link in links),
    }


def _cases(g: Draw) -> Iterator[Case]:
    def inputs(
        query: Tensor, key: Tensor, value: Tensor, is_causal: bool
    ) -> tuple[Tensor, ...]:
        at = torch.arange(query.shape[2])
        allowed = at[:, None] >= at if is_causal else None
        out, lse = attend(query, key, value, allowed)
        d_out = torch.randn(out.shape, generator=g)
        return query, key, value, out, lse, d_out

    yield from cases(g, inputs)


exercise = Exercise(
    id="ring-ring_backward",
    points=3,
    reference=ring_backward,
    cases=_cases,
    also=(views(),),
    use=_use,
    given={
        "Callable": Callable,
        **GIVEN,
        "block_gradients": block_gradients,
    },
    breaks=BREAKS,
)
