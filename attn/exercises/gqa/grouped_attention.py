"""Cases and properties of ``gqa-grouped_attention``."""

from collections.abc import Iterator

import torch
from torch import Generator, Tensor

from attn import functional
from attn.exercises.conditions import gradients, ones, views
from attn.exercises.draw import Draw, entries
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.symmetry import OF_ATTENTION, kv_heads

SIZES = {  # B, Hkv, G, L, S, D, Dv
    "there is one sequence and one key head": [
        (1, 1, 1, 3, 5, 8, 8),
        (1, 1, 2, 4, 7, 6, 6),
    ],
    "B, Hkv and G are equal, so that misaligned axes fit all the same": [
        (2, 2, 2, 3, 1, 4, 4),
        (2, 2, 2, 3, 5, 8, 8),
        (3, 3, 3, 2, 4, 8, 8),
    ],
    "every query head has its own key head (H = Hkv)": [
        (2, 4, 1, 3, 5, 8, 8),
        (3, 3, 1, 2, 5, 8, 8),
        (1, 3, 1, 1, 5, 8, 8),
    ],
    "there is one head in all (H = 1)": [
        (1, 1, 1, 1, 5, 8, 8),
        (3, 1, 1, 2, 5, 8, 8),
    ],
    "Hkv is larger than G": [
        (2, 3, 2, 3, 1, 4, 4),
        (3, 4, 2, 5, 5, 6, 6),
        (1, 4, 3, 1, 4, 8, 8),
    ],
    "all query heads share one key head (Hkv = 1)": [
        (2, 1, 4, 3, 5, 8, 8),
        (3, 1, 2, 1, 5, 6, 6),
    ],
    "G is larger than Hkv": [
        (2, 2, 3, 3, 7, 8, 8),
        (1, 2, 5, 1, 4, 8, 8),
        (2, 4, 6, 2, 3, 4, 4),
    ],
    "values are wider or narrower than keys": [
        (2, 2, 3, 3, 7, 8, 5),
        (2, 3, 2, 2, 4, 4, 9),
    ],
    "axes have the same length": [
        (2, 2, 2, 2, 2, 2, 2),
        (3, 3, 3, 3, 3, 3, 3),
        (2, 2, 2, 4, 4, 4, 4),
    ],
}
MASKED = {  # the shape of the mask, then B, Hkv, G, L, S
    "all heads share one mask, (L, S)": [((3, 5), 2, 2, 3, 3, 5)],
    "each sequence has its own mask, and B = Hkv": [
        ((2, 1, 1, 5), 2, 2, 3, 3, 5),
        ((2, 1, 3, 5), 2, 2, 3, 3, 5),
        ((3, 1, 2, 4), 3, 3, 2, 2, 4),
    ],
    "each sequence has its own mask": [
        ((3, 1, 3, 5), 3, 2, 2, 3, 5),
        ((4, 1, 1, 5), 4, 1, 3, 2, 5),
        ((3, 1, 2, 5), 3, 4, 1, 2, 5),
        ((2, 1, 1, 4), 2, 1, 1, 1, 4),
    ],
    "each query head has its own mask": [
        ((2, 6, 3, 5), 2, 2, 3, 3, 5),
        ((1, 6, 1, 5), 2, 3, 2, 3, 5),
        ((2, 4, 2, 4), 2, 2, 2, 2, 4),
    ],
    "each query head has its own mask, (H, L, S)": [
        ((6, 3, 5), 2, 2, 3, 3, 5),
    ],
}


def _cases(g: Draw) -> Iterator[Case]:
    def qkv(
        B: int, Hkv: int, G: int, L: int, S: int, D: int = 8, Dv: int = 8
    ) -> tuple[Tensor, ...]:
        q = g.randn(B, Hkv * G, L, D)
        return q, g.randn(B, Hkv, S, D), g.randn(B, Hkv, S, Dv)

    for when, sizes in entries(SIZES):
        yield Case(when, qkv(*sizes))
    for when, (of_mask, *sizes) in entries(MASKED):
        yield Case(when, (*qkv(*sizes), g.mask(*of_mask)))

    when = "all heads share one mask, (L, S)"
    causal = torch.ones(4, 4).bool().tril()
    yield Case(when, (*qkv(2, 2, 2, 4, 4), causal))
    yield Case(when, (*qkv(2, 2, 3, 3, 5), torch.ones(3, 5).bool()))

    when = "every score is 0, and there is a mask"
    q, k, v = qkv(2, 2, 2, 3, 5)
    yield Case(when, (0 * q, k, v, g.mask(3, 5)))

    when = "the scores are large"
    q, k, v = qkv(2, 2, 2, 3, 5)
    whole = torch.randint(1, 5, q.shape, generator=g).float()
    yield Case(when, (16 * whole, _ladder(g, k), v))

    when = "the scores are far below 0, and a mask hides some keys"
    q, k, v = qkv(2, 2, 2, 3, 6)
    whole = torch.randint(1, 5, q.shape, generator=g).float()
    inputs = -64 * whole, _ladder(g, k), v, g.mask(2, 1, 3, 6)
    yield Case(when, inputs)

    # Twice the keys is more than enough; a copy for each query head is not.
    when = "a token is generated: one query, and a long cache"
    yield Case(when, qkv(1, 2, 4, 1, 64, 16, 16), max_live=4 * 64 * 16)
    yield Case(when, qkv(2, 2, 3, 1, 64, 16, 16), max_live=8 * 64 * 16)
    yield Case(when, qkv(2, 1, 4, 1, 64, 16, 16), max_live=4 * 64 * 16)
    padding = (*qkv(2, 3, 2, 2, 48, 16, 16), g.mask(2, 1, 1, 48))
    yield Case(when, padding, max_live=12 * 48 * 16)
    when = "there are several queries, and a long cache"
    yield Case(when, qkv(1, 2, 4, 4, 64, 32, 32), max_live=6 * 64 * 32)


def _ladder(g: Generator, k: Tensor) -> Tensor:
    """Draw keys whose scores never tie: each exceeds the one below it."""
    order = torch.randperm(k.shape[-2], generator=g)[:, None]
    start = torch.randint(1, 5, (*k.shape[:2], 1, k.shape[-1]), generator=g)
    return 16.0 * (start + order)


def _right_shape(case: Case, out: Tensor) -> bool:
    q, _, v = case.args[:3]
    return out.shape == (*q.shape[:-1], v.shape[-1])


def _in_the_hull(case: Case, out: Tensor) -> bool:
    q, _, v = case.args[:3]
    v = v.repeat_interleave(q.shape[1] // v.shape[1], 1)
    low, high = v.amin(-2, keepdim=True), v.amax(-2, keepdim=True)
    slack = 0.01 * v.abs().max()  # rounding may leave the range
    return bool((out <= high + slack).all() and (out >= low - slack).all())


exercise = Exercise(
    id="gqa-grouped_attention",
    points=3,
    reference=functional.grouped_attention,
    cases=_cases,
    also=(
        views(),
        gradients(),
        ones("B Hkv", "B H Hkv", "H Hkv L", "B L", "L S", "D Dv"),
    ),
    forbids=("scaled_dot_product_attention",),
    properties=(
        Property(
            "The result must have as many elements as there are query heads, "
            "queries and features of value: (B, H, L, Dv).",
            _right_shape,
        ),
        Property(
            "Query head h reads value head h // G, so no element of its "
            "result can leave the range of that head's values, and here one "
            "does. Is another head read, do the heads come back in another "
            "order, or do the weights of a query not sum to 1?",
            _in_the_hull,
        ),
        Property(
            "What copies? repeat_interleave, repeat, and reshape of an "
            "expanded tensor; also a product whose leading axes differ: "
            "next to (B, Hkv, G, L, D), key.unsqueeze(2) is expanded and "
            "then copied inside the product, and so is key[:, h : h + 1] "
            "next to G heads. Can the G heads of a group be G * L rows of "
            "one matrix?",
            lambda case, out: case.max_live is None,
        ),
    ),
    breaks={**OF_ATTENTION, "H = 1": kv_heads},
)
