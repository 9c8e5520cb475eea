"""Cases and properties of ``ring-decode_attention``."""

from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any

from torch import Tensor

from attn.exercises.conditions import views
from attn.exercises.draw import Draw, entries
from attn.exercises.ring.blocks import GIVEN, attend, merge_states
from attn.exercises.ring.lockstep import (
    SPOILED,
    Link,
    named,
    run_crossed,
    run_ranks,
)
from attn.exercises.ring.texts import CROSSED, OWN, WHEN_CROSSED
from attn.exercises.spec import Case, Exercise


def decode_attention(query, key, value, gather):
    """Merge the states of all ranks: the reference."""
    return reduce(merge_states, gather(*attend(query, key, value)))[0]


def _use(
    answer: Any,
    query: Tensor,
    key: list[Tensor],
    value: list[Tensor],
    messages: str = OWN,
) -> dict[str, Any]:
    """Run the answer as every rank; rank r has entry r of the lists."""

    def work(rank: int, link: Link, factor: float = 1.0) -> Any:
        own = link.lend(
            query.clone(), factor * key[rank], factor * value[rank]
        )
        return answer(*own, link.gather)

    run = run_crossed if messages == CROSSED else run_ranks
    results, links = run(work, len(key))
    counts = [link.elements for link in links]
    return {
        **named(results, "out"),
        "elements that each rank sends": ", ".join(map(str, counts)),
        SPOILED: sum(link.spoiled for link in links),
    }


SIZES = {  # B, H, Hkv, D, Dv, and the keys of each rank
    "there is one rank": [(1, 2, 2, 4, 3, [5])],
    "there are two ranks": [(1, 2, 2, 4, 3, [3, 3]), (1, 1, 1, 3, 3, [2, 2])],
    "ranks have different numbers of keys": [
        (1, 2, 2, 4, 3, [6, 1]),
        (2, 3, 3, 6, 5, [2, 7, 1]),
    ],
    "query heads share key heads": [(2, 6, 3, 4, 5, [3, 5, 4])],
    "a rank has no key": [
        (1, 2, 2, 4, 3, [0, 4]),
        (2, 3, 3, 4, 5, [3, 0, 2]),
        (1, 2, 1, 4, 3, [2, 3, 0, 1]),
    ],
    "two ranks have no key": [(1, 2, 2, 4, 3, [0, 0, 5])],
    "there are five ranks": [(2, 4, 2, 6, 3, [5, 3, 7, 2, 4])],
}


def _cases(g: Draw) -> Iterator[Case]:
    def inputs(
        B: int, H: int, Hkv: int, D: int, Dv: int, sizes: list[int]
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        key = [g.randn(B, Hkv, S, D) for S in sizes]
        value = [g.randn(B, Hkv, S, Dv) for S in sizes]
        return g.randn(B, H, 1, D), key, value

    for when, (*lead, sizes) in entries(SIZES):
        yield Case(when, inputs(*lead, sizes))

    when = "the keys of one rank fit far better"
    for best in (0, 2):
        query, key, value = inputs(2, 3, 3, 4, 5, [3, 4, 2])
        key[best] = key[best] + 3 * query
        yield Case(when, (query, key, value))

    when = "the scores are around 200"
    query, key, value = inputs(1, 2, 2, 4, 3, [3, 4, 2])
    towards = 400 * query / (query * query).sum(-1, keepdim=True)
    key = [x / 2 + towards for x in key]
    yield Case(when, (query, key, value), rtol=1e-4)
    yield Case(WHEN_CROSSED, (*inputs(2, 4, 2, 4, 3, [3, 4, 2]), CROSSED))


exercise = Exercise(
    id="ring-decode_attention",
    points=2,
    reference=decode_attention,
    cases=_cases,
    also=(views(),),
    use=_use,
    given={"Callable": Callable, **GIVEN},
    breaks={
        "S = 1": lambda c: c.args[1][0].shape[2] > 1,
        "H = 1": lambda c: c.args[0].shape[1] > 1,
        "contiguous strides": lambda c: not c.args[0].is_contiguous(),
    },
)
