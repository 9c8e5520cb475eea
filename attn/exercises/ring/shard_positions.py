"""Cases and properties of ``ring-shard_positions``."""

from collections.abc import Callable, Iterator
from typing import Any

import torch

from attn.exercises.draw import Draw, entries
from attn.exercises.spec import Case, Exercise, Property


def shard_positions(length, rank, world_size, layout="contiguous"):
    """Number the pieces by their owners: the reference."""
    owners = list(range(world_size))
    if layout == "zigzag":
        owners += owners[::-1]
    if length % len(owners):
        raise ValueError(
            f"length must be a multiple of {len(owners)}; got {length}"
        )
    owner = torch.tensor(owners).repeat_interleave(length // len(owners))
    return (owner == rank).nonzero()[:, 0]


def _use(
    answer: Any, length: int, world_size: int, layout: str | None = None
) -> dict[str, Any]:
    """Return the positions of each rank, or that they are refused."""
    options = () if layout is None else (layout,)
    found: dict[str, Any] = {}
    for rank in range(world_size):
        name = f"the positions of rank {rank}"
        try:
            result = answer(length, rank, world_size, *options)
            returned = isinstance(result, Exception)
            found[name] = "an error as a result" if returned else result
        except ValueError:
            pieces = world_size * (2 if layout == "zigzag" else 1)
            if length % pieces == 0:
                raise
            found[name] = "a ValueError"
    return found


SIZES = {  # length, world_size, layout
    "there is one rank": [(4, 1, "contiguous"), (6, 1, "zigzag")],
    "the text is cut into one piece a rank": [
        (6, 2, "contiguous"),
        (12, 3, "contiguous"),
        (20, 5, "contiguous"),
    ],
    "the text is folded, for two ranks": [(4, 2, "zigzag"), (12, 2, "zigzag")],
    "the text is folded, for more ranks": [
        (12, 3, "zigzag"),
        (24, 4, "zigzag"),
        (30, 5, "zigzag"),
        (36, 6, "zigzag"),
    ],
    "no layout is named": [(12, 3)],
    "the pieces would not be equal": [
        (7, 2, "contiguous"),
        (14, 3, "contiguous"),
        (11, 2, "zigzag"),
    ],
    "there are pieces enough for contiguous, and not for zigzag": [
        (6, 2, "contiguous"),
        (6, 2, "zigzag"),
        (9, 3, "zigzag"),
    ],
    "there are fewer tokens than pieces": [
        (2, 3, "contiguous"),
        (3, 2, "zigzag"),
    ],
}


def _cases(g: Draw) -> Iterator[Case]:
    for when, args in entries(SIZES):
        yield Case(when, args)
    for when, layout in (
        ("the text is cut into one piece a rank", "contiguous"),
        ("the text is folded, for more ranks", "zigzag"),
    ):
        ranks = g.between(3, 7)
        yield Case(when, (2 * ranks * g.between(2, 5), ranks, layout))


def _once(case: Case, out: Any) -> bool:
    """Claim that the ranks together have every token once."""
    parts = list(out.values())
    if not all(isinstance(x, torch.Tensor) and x.dim() == 1 for x in parts):
        return True
    tokens = torch.cat(parts).sort().values
    return torch.equal(tokens, torch.arange(case.args[0]))


exercise = Exercise(
    id="ring-shard_positions",
    points=1,
    reference=shard_positions,
    cases=_cases,
    use=_use,
    given={"Callable": Callable},
    properties=(
        Property("Each token is one rank's, and no token is left.", _once),
    ),
)
