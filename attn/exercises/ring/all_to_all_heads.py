"""Cases and properties of ``ring-all_to_all_heads``."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from attn.exercises.conditions import views
from attn.exercises.draw import Draw, entries
from attn.exercises.ring.blocks import GIVEN, attend
from attn.exercises.ring.lockstep import (
    SPOILED,
    Link,
    named,
    run_crossed,
    run_ranks,
    shards,
)
from attn.exercises.ring.texts import CROSSED, OWN, WHEN_CROSSED
from attn.exercises.spec import Case, Exercise


def all_to_all_heads(
    query, key, value, world_size, all_to_all, is_causal=False
):
    """Give each rank the key heads that its query heads read."""
    heads = query.shape[1] // world_size
    group = query.shape[1] // key.shape[1]
    whole = []
    for x, each in ((query, 1), (key, group), (value, group)):
        firsts = [rank * heads // each for rank in range(world_size)]
        some = max(1, heads // each)
        parts = [x[:, at : at + some] for at in firsts]
        whole.append(torch.cat(all_to_all(parts), 2))
    at = torch.arange(whole[0].shape[2])
    allowed = at <= at[:, None] if is_causal else None
    out, _ = attend(*whole, allowed)
    parts = out.tensor_split(world_size, 2)
    return torch.cat(all_to_all(parts), 1)


def _use(
    answer: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    world_size: int,
    is_causal: bool | None = None,
    messages: str = OWN,
) -> dict[str, Any]:
    """Run the answer as every rank, each with its part of the text."""
    options = () if is_causal is None else (is_causal,)
    whole = (query, key, value)
    parts = [shards(x, world_size, "contiguous") for x in whole]

    def work(rank: int, link: Link, factor: float = 1.0) -> Any:
        own = link.lend(*(factor * x[rank] for x in parts))
        return answer(*own, world_size, link.all_to_all, *options)

    run = run_crossed if messages == CROSSED else run_ranks
    results, links = run(work, world_size)
    counts = [link.elements for link in links]
    return {
        **named(results, "out"),
        "elements that each rank sends": ", ".join(map(str, counts)),
        SPOILED: sum(link.spoiled for link in links),
    }


SIZES = {  # (B, H, Hkv, L, D, Dv), ranks, is_causal
    "there is one rank": [
        ((1, 2, 2, 4, 4, 3), 1, False),
        ((1, 4, 2, 4, 4, 3), 1, True),
    ],
    "there are two ranks of one head": [
        ((1, 2, 2, 4, 4, 3), 2, False),
        ((2, 2, 2, 6, 4, 5), 2, True),
    ],
    "a rank gets several heads": [
        ((1, 4, 4, 6, 4, 3), 2, False),
        ((2, 6, 6, 9, 4, 5), 3, True),
    ],
    "each rank has one token": [
        ((1, 3, 3, 3, 4, 5), 3, True),
        ((1, 2, 2, 2, 4, 3), 2, False),
    ],
    "query heads share key heads, of which each rank gets some": [
        ((1, 8, 4, 4, 4, 3), 2, False),
        ((2, 12, 6, 6, 4, 5), 3, True),
    ],
    "there are fewer key heads than ranks": [
        ((1, 4, 2, 8, 4, 3), 4, False),
        ((1, 8, 2, 8, 4, 5), 4, True),
    ],
    "there is one key head": [
        ((1, 6, 1, 6, 4, 3), 3, True),
        ((2, 2, 1, 4, 4, 5), 2, False),
    ],
    "there are as many heads as tokens": [((1, 6, 6, 6, 4, 4), 3, True)],
    "there are five ranks": [((1, 5, 5, 10, 3, 4), 5, True)],
}


def _cases(g: Draw) -> Iterator[Case]:
    for when, (shape, ranks, is_causal) in entries(SIZES):
        B, H, Hkv, L, D, Dv = shape
        key, value = g.randn(B, Hkv, L, D), g.randn(B, Hkv, L, Dv)
        yield Case(when, (g.randn(B, H, L, D), key, value, ranks, is_causal))

    when = "is_causal is not named"
    inputs = (g.randn(1, 2, 6, 4) for _ in range(3))
    yield Case(when, (*inputs, 2))
    inputs = (g.randn(1, 6, 9, 4) for _ in range(3))
    yield Case(WHEN_CROSSED, (*inputs, 3, True, CROSSED))


exercise = Exercise(
    id="ring-all_to_all_heads",
    points=3,
    reference=all_to_all_heads,
    cases=_cases,
    also=(views(),),
    use=_use,
    given={"Callable": Callable, **GIVEN},
    breaks={
        "H = 1": lambda c: c.args[1].shape[1] > 1,
        "S = 1": lambda c: c.args[1].shape[2] > c.args[3],
        "contiguous strides": lambda c: not c.args[0].is_contiguous(),
    },
)
