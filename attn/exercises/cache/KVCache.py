"""Cases and properties of ``cache-KVCache``."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from attn.cache import DynamicCache
from attn.exercises.draw import Draw, entries
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.symmetry import is_view


class KVCache(nn.Module):
    """Wrap ``attn``'s cache: the reference."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = DynamicCache()

    def forward(self, key: Tensor, value: Tensor) -> tuple[Any, ...]:
        return tuple(self.cache.update(key, value))


LENGTHS = {  # the number of tokens of each call
    # The engine calls these again, in one cache: their shapes must agree.
    "the cache is empty": [(4,), (1,)],
    "one token follows another": [(1, 1)],
    "tokens follow, one by one": [(1, 1, 1, 1)],
    "one token follows a prompt": [(5, 1), (6, 1, 1)],
    "several tokens follow a prompt": [(4, 3)],
    "all chunks have one length": [(3, 3)],
    "a chunk has no token": [(3, 0)],
}
OTHERS = {  # B, Hkv, D, Dv, and these numbers
    "tokens follow, one by one": [(3, 1, 2, 6, 1, 1, 1)],
    "several tokens follow a prompt": [(1, 4, 6, 3, 2, 5, 3)],
    "axes have the same length": [(2, 2, 2, 2, 2, 2, 2)],
    "there are one sequence and one head": [(1, 1, 4, 5, 3, 1)],
    "a text is long, of 5,002 tokens": [(1, 1, 1, 2, 4999, 3)],
    "a long chunk follows a token": [(1, 1, 1, 2, 1, 70)],
}


def _cases(g: Draw) -> Iterator[Case]:
    def case(
        when: str,
        B: int,
        Hkv: int,
        D: int,
        Dv: int,
        *lengths: int,
        like: torch.dtype | None = None,
        train: bool = False,
    ) -> Case:
        calls = [
            (g.randn(B, Hkv, L, D).to(like), g.randn(B, Hkv, L, Dv).to(like))
            for L in lengths
        ]
        made: dict[str, Any] = {"init": {}, "train": train}
        before = tuple(Case("", args, **made) for args in calls[:-1])
        return Case(when, calls[-1], before=before, **made)

    for when, lengths in entries(LENGTHS):
        yield case(when, 2, 3, 5, 4, *lengths)
    for when, sizes in entries(OTHERS):
        yield case(when, *sizes)
    yield case(
        "all calls are in training mode", 2, 3, 5, 4, 3, 1, 2, train=True
    )
    for dtype in (torch.float16, torch.float64):
        when = f"keys and values are {str(dtype).removeprefix('torch.')}"
        yield case(when, 2, 3, 5, 4, 3, 2, like=dtype)

    when = "keys and values are views of other tensors"
    key, value = g.randn(2, 2, 4, 3, 6).transpose(-2, -3)
    halves = [(key[:, :, i], value[:, :, i]) for i in (slice(3), slice(3, 4))]
    first = Case("", halves[0], init={})
    yield Case(when, halves[1], init={}, before=(first,))


def _lengths(case: Case) -> list[int]:
    calls = [c for c in (*case.before, case) if not c.another]
    return [c.args[0].shape[2] for c in calls]


def _three(_case: Case, out: Any) -> bool:
    return isinstance(out, (tuple, list)) and len(out) == 3


def _whole(case: Case, out: Any) -> bool:
    if not _three(case, out):
        return True
    total = sum(_lengths(case))
    return all(isinstance(x, Tensor) for x in out[:2]) and all(
        x.dim() == 4 and x.shape[2] == total for x in out[:2]
    )


def _offset(case: Case, out: Any) -> bool:
    if not _three(case, out) or isinstance(out[2], Tensor):
        return True
    return out[2] == sum(_lengths(case)[:-1])


exercise = Exercise(
    id="cache-KVCache",
    points=2,
    reference=KVCache,
    cases=_cases,
    returns=("key", "value", "q_offset"),
    properties=(
        Property(
            "A call returns three things: all keys, all values, and the "
            "number of tokens that were there before.",
            _three,
        ),
        Property(
            "After a call, keys and values have one row on axis 2 for each "
            "token read so far, the new ones included. Here they do not: "
            "how many tokens were read in all calls together?",
            _whole,
        ),
        Property(
            "q_offset is the number of tokens read before this call. Here "
            "it is another one: what is it for the first call, and what for "
            "a call with three tokens after five?",
            _offset,
        ),
    ),
    breaks={
        "position 0": lambda c: c.before,
        "H = 1": lambda c: c.args[0].shape[1] > 1,
        "contiguous strides": is_view,
    },
)
