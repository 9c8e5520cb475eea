"""Cases and properties of ``latent-absorb``."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from attn import functional
from attn.exercises.conditions import dial, gradients, ones, views
from attn.exercises.draw import Draw, entries
from attn.exercises.latent.draw import SIZES
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.symmetry import is_view

# All widths differ: the largest tensor tells which of them was expanded.
LONG = [(1, 6, 1, 400, 28, 4, 20, 32), (1, 8, 2, 300, 40, 2, 16, 36)]


def absorb(
    query: Tensor,
    latent: Tensor,
    rope_key: Tensor,
    up: Tensor,
    attn_mask: Tensor | None = None,
    scale: float | None = None,
) -> Tensor:
    """Attend with one key head, of latent and rope key side by side."""
    Dn = query.shape[-1] - rope_key.shape[-1]
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    folded = query[..., :Dn] @ up[:, :Dn]  # (B, H, L, R)
    mixed = functional.scaled_dot_product_attention(
        torch.cat([folded, query[..., Dn:]], -1),
        torch.cat([latent, rope_key], -1)[:, None],
        latent[:, None],
        attn_mask,
        scale=scale,
        enable_gqa=True,
    )
    return mixed @ up[:, Dn:].mT


def _cases(g: Draw) -> Iterator[Case]:
    def case(
        when: str,
        B: int,
        H: int,
        L: int,
        S: int,
        Dn: int,
        Dr: int,
        R: int,
        Dv: int,
        *,
        large: float = 1.0,
        tight: bool = False,
        mask: tuple[int, ...] = (),
        scale: float | None = None,
    ) -> Case:
        query = g.randn(B, H, L, Dn + Dr) * large
        latent, rope_key = g.randn(B, S, R), g.randn(B, S, Dr)
        up = g.randn(H, Dn + Dv, R) / R**0.5 * 1.5
        kwargs = {"attn_mask": g.mask(*mask)} if mask else {}
        if scale is not None:
            kwargs["scale"] = scale
        # Six times the scores, the cache twice, and little more.
        room = 6 * B * H * L * S + 2 * B * S * (R + Dr) + 2 * up.numel()
        room += 4 * B * H * L * (Dn + Dv + R + Dr)
        limit = room if tight else None
        args = (query, latent, rope_key, up)
        return Case(when, args, kwargs, max_live=limit)

    when = "there is one key, so only its value counts"
    yield case(when, 2, 3, 2, 1, 6, 4, 5, 7)
    when = "the latents have no part in the scores"
    flat = case(when, 1, 2, 3, 5, 6, 4, 5, 7)
    flat.args[3][:, :6] = 0
    yield flat
    when = "the rope keys are zero"
    bare = case(when, 1, 2, 3, 5, 6, 4, 5, 7)
    bare.args[2].zero_()
    yield bare
    for when, sizes in entries(SIZES):
        yield case(when, *sizes)
    when = "there is one query, as in decoding"
    yield case(when, 2, 3, 1, 9, 6, 4, 10, 5)
    when = "all sequences share one mask, (L, S)"
    yield case(when, 2, 3, 4, 6, 6, 4, 10, 5, mask=(4, 6))
    when = "each sequence has its own mask"
    yield case(when, 2, 2, 4, 6, 6, 4, 5, 7, mask=(2, 1, 4, 6))
    yield case(when, 3, 2, 2, 5, 6, 2, 5, 3, mask=(3, 1, 1, 5))
    when = "a scale is given, as YaRN needs one"
    for scale in (0.05, 0.33, 1.7):
        yield case(when, 2, 3, 4, 6, 6, 4, 10, 5, scale=scale)
    when = "the scale is 0, so all keys count alike"
    yield case(when, 2, 3, 4, 6, 6, 4, 10, 5, scale=0.0)
    when = "the scores are large"
    yield case(when, 2, 3, 4, 6, 6, 4, 10, 5, large=8.0)
    when = "the cache is long, and there is memory for it and the scores"
    for sizes in LONG:
        yield case(when, *sizes, tight=True)


def _shape(case: Case, out: Tensor) -> bool:
    query, _, rope_key, up = case.args
    Dn = query.shape[-1] - rope_key.shape[-1]
    return out.shape == (*query.shape[:-1], up.shape[1] - Dn)


exercise = Exercise(
    id="latent-absorb",
    points=3,
    reference=absorb,
    cases=_cases,
    also=(views(), gradients(), ones("B H", "B L"), dial("scale", 0.6)),
    properties=(
        Property(
            "Each head's R mixed elements become Dv by its value part of "
            "up: the result has the shape (B, H, L, Dv).",
            _shape,
        ),
    ),
    breaks={
        "S = 1": lambda c: c.args[1].shape[1] > 1,
        "H = 1": lambda c: c.args[0].shape[1] > 1,
        "L = S": lambda c: c.args[0].shape[2] != c.args[1].shape[1],
        "contiguous strides": is_view,
    },
)
