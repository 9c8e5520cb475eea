"""Cases and properties of ``cache-StaticCache``."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from attn import functional
from attn.exercises.conditions import views
from attn.exercises.draw import Draw
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.symmetry import is_view


class StaticCache(nn.Module):
    """Mask the scores of all places: the reference, which compiles too."""

    def __init__(
        self, batch: int, num_kv_heads: int, capacity: int, head_dim: int
    ) -> None:
        super().__init__()
        memory = torch.zeros(2, batch, num_kv_heads, capacity, head_dim)
        self.register_buffer("memory", memory)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, position: Tensor
    ) -> Tensor:
        if self.memory.dtype != key.dtype:  # the oracle's is float64
            self.memory = self.memory.to(key.dtype)
        index = position + torch.arange(key.shape[2])
        self.memory.index_copy_(3, index, torch.stack([key, value]))
        k, v = self.memory  # (B, Hkv, capacity, D)
        seen = torch.arange(k.shape[2]) <= index[:, None]
        return functional.grouped_attention(query, k, v, seen)


def _cases(g: Draw) -> Iterator[Case]:
    def call(
        at: int, L: int, sizes: tuple[int, ...], apart: float
    ) -> tuple[Tensor, ...]:
        """Draw inputs; queries and keys are ``apart``, and point away."""
        B, H, Hkv, _, D = sizes
        query = 1.5 * g.randn(B, H, L, D) + apart
        inputs = query, g.randn(B, Hkv, L, D) - apart, g.randn(B, Hkv, L, D)
        return (*inputs, torch.tensor(at))

    def case(
        when: str,
        *calls: tuple[int, int],  # position and number of new tokens
        sizes: tuple[int, ...] = (2, 3, 3, 9, 5),  # B, H, Hkv, capacity, D
        apart: float = 0.0,
        max_live: int | None = None,
        max_kept: int | None = None,
    ) -> Case:
        B, _, Hkv, capacity, D = sizes
        names = ("batch", "num_kv_heads", "capacity", "head_dim")
        init = dict(zip(names, (B, Hkv, capacity, D), strict=True))
        *before, last = (call(*x, sizes, apart) for x in calls)
        earlier = tuple(Case(when, args, init=init) for args in before)
        most = {"max_live": max_live, "max_kept": max_kept}
        return Case(when, last, init=init, before=earlier, **most)

    when = "one token is written at 0, so only its value counts"
    yield case(when, (0, 1))
    yield case(when, (0, 1), sizes=(1, 1, 1, 1, 4))

    when = "a prompt is written at 0, and fills the memory"
    yield case(when, (0, 5), sizes=(2, 3, 3, 5, 4))

    when = "a prompt is written at 0, and there is room behind it"
    yield case(when, (0, 4))
    yield case(when, (0, 3), sizes=(3, 2, 2, 7, 6))

    when = "one token follows a prompt"
    yield case(when, (0, 4), (4, 1))
    yield case(when, (0, 2), (2, 1), (3, 1))

    when = "tokens come one by one"
    yield case(when, (0, 1), (1, 1), (2, 1))

    when = "several tokens follow a prompt"
    yield case(when, (0, 4), (4, 3))
    yield case(when, (0, 2), (2, 3), (5, 4))

    when = "query heads share key heads"
    sizes = (2, 6, 2, 8, 4)
    yield case(when, (0, 3), (3, 1), sizes=sizes)
    yield case(when, (0, 2), (2, 3), sizes=(1, 4, 1, 6, 3))

    when = "it goes back, and what was written behind is old"
    yield case(when, (0, 7), (3, 1))
    yield case(when, (0, 8), (2, 3))
    yield case(when, (0, 5), (5, 1), (6, 1), (2, 1))

    when = "the scores are far below 0, and those of empty places are not"
    yield case(when, (0, 2), (2, 2), apart=4.0)

    when = "axes have the same length"
    yield case(when, (0, 2), (2, 2), sizes=(4, 4, 4, 4, 4))
    yield case(when, (0, 1), (1, 1), sizes=(2, 2, 2, 2, 2))

    # The memory has 2 * 2 * 512 * 64 elements: it may be repeated for the
    # query heads to be read, as in gpt-fast; a mask of all places is twice it.
    when = "memory is measured: 512 places, of which one is written"
    large = (1, 2, 2, 512, 64)
    yield case(when, (0, 400), (400, 1), sizes=large, max_live=160_000)

    # Two times 2 * 2 * 40 * 32 elements, and room for a mask of them all.
    when = "memory between calls is measured, and stays where it is"
    sizes = (2, 6, 2, 40, 32)
    yield case(when, (0, 3), (3, 1), sizes=sizes, max_kept=14_000)


def _shape_of_query(case: Case, out: Any) -> bool:
    return isinstance(out, Tensor) and out.shape == case.args[0].shape


def _first_row(case: Case, out: Any) -> bool:
    """Compare the first token of a text with its value."""
    if int(case.args[3]) or not _shape_of_query(case, out):
        return True
    value = case.args[2][:, :, :1]
    G = out.shape[1] // value.shape[1]
    right = value.repeat_interleave(G, 1)
    return torch.allclose(out[:, :, :1], right, atol=1e-4)


exercise = Exercise(
    id="cache-StaticCache",
    points=3,
    reference=StaticCache,
    cases=_cases,
    also=(views(),),
    forbids=("item",),
    properties=(
        Property(
            "Each query gets an output of its own: the result has the shape "
            "of query.",
            _shape_of_query,
        ),
        Property(
            "The token at position 0 sees itself alone, so its output is "
            "its value. Here it is not: what else does it see, empty places "
            "behind it?",
            _first_row,
        ),
    ),
    breaks={
        "position 0": lambda c: int(c.args[3]) > 0,
        "S = 1": lambda c: c.before,
        "H = 1": lambda c: 1 < c.args[1].shape[1] < c.args[0].shape[1],
        "L = S": lambda c: c.before and c.args[1].shape[2] > 1,
        "zeroed memory": lambda c: any(
            int(x.args[3]) + x.args[1].shape[2]
            > int(c.args[3]) + c.args[1].shape[2]
            for x in c.before
        ),
        "contiguous strides": is_view,
    },
)
