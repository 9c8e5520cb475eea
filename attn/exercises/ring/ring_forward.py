"""Cases and properties of ``ring-ring_forward``."""

from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor

from attn.exercises.conditions import views
from attn.exercises.draw import Draw
from attn.exercises.ring.blocks import GIVEN, attend, merge_states
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


def ring_forward(
    query,
    key,
    value,
    rank,
    world_size,
    shift,
    layout="contiguous",
    is_causal=False,
):
    """Let the positions travel with the keys: the reference."""
    length = query.shape[2] * world_size
    rows = columns = shard_positions(length, rank, world_size, layout)
    state = None
    for turn in range(world_size):
        if turn:
            key, value, columns = shift(key, value, columns)()
        allowed = columns <= rows[:, None] if is_causal else None
        block = attend(query, key, value, allowed)
        state = block if state is None else merge_states(block, state)
    return state


def _use(
    answer: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    world_size: int,
    layout: str | None = None,
    is_causal: bool | None = None,
    messages: str = OWN,
) -> dict[str, Any]:
    """Run the answer as every rank, each with its part of the text."""
    options = () if layout is None else (layout, is_causal)
    whole = (query, key, value)
    parts = [shards(x, world_size, layout or "contiguous") for x in whole]

    def work(rank: int, link: Link, factor: float = 1.0) -> Any:
        own = link.lend(*(factor * x[rank] for x in parts))
        return answer(*own, rank, world_size, link.shift, *options)

    run = run_crossed if messages == CROSSED else run_ranks
    results, links = run(work, world_size)
    counts = [_rounds(len(link.started), world_size) for link in links]
    return {
        **named(results, "out", "lse"),
        "shifts of each rank": ", ".join(map(str, counts)),
        CHANGED: sum(link.changed for link in links),
        SPOILED: sum(link.spoiled for link in links),
    }


def _rounds(calls: int, world_size: int) -> int:
    """Return how often blocks are sent: key and value may go in two calls."""
    return calls // 2 if calls == 2 * (world_size - 1) else calls


def _cases(g: Draw) -> Iterator[Case]:
    yield from cases(g, lambda query, key, value, _: (query, key, value))


exercise = Exercise(
    id="ring-ring_forward",
    points=3,
    reference=ring_forward,
    cases=_cases,
    also=(views(),),
    use=_use,
    given={"Callable": Callable, **GIVEN},
    breaks=BREAKS,
)
