"""Cases and properties of ``latent-latent_attention``."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from attn import functional
from attn.exercises.conditions import gradients, ones, views
from attn.exercises.draw import Draw, entries
from attn.exercises.latent.draw import SIZES, tables
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.symmetry import is_view
from attn.positions import apply_rope


def latent_attention(
    query: Tensor,
    compressed: Tensor,
    gain: Tensor,
    up: Tensor,
    cos: Tensor,
    sin: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Make each head's keys and values, a head after another."""
    R, Dn = up.shape[-1], query.shape[-1] - cos.shape[-1]
    latent, rope_key = compressed[..., :R], compressed[..., R:]
    size = latent.pow(2).mean(-1, keepdim=True) + 1e-6
    latent = latent * size.rsqrt() * gain
    rope_key = apply_rope(rope_key, cos, sin, interleaved=True)
    rotated = apply_rope(query[..., Dn:], cos, sin, interleaved=True)
    query = torch.cat([query[..., :Dn], rotated], -1)
    outs = []
    for h, weight in enumerate(up):
        key = torch.cat([latent @ weight[:Dn].mT, rope_key], -1)
        value = latent @ weight[Dn:].mT
        outs.append(
            functional.scaled_dot_product_attention(
                query[:, h], key, value, is_causal=True
            )
        )
    return torch.stack(outs, 1), latent, rope_key


def _cases(g: Draw) -> Iterator[Case]:
    def case(
        when: str,
        B: int,
        H: int,
        L: int,
        Dn: int,
        Dr: int,
        R: int,
        Dv: int,
        *,
        still: bool = False,
        large: float = 1.0,
    ) -> Case:
        query = g.randn(B, H, L, Dn + Dr) * large
        compressed = g.randn(B, L, R + Dr) * 1.5 + 0.5
        gain = g.randn(R) * 0.5 + 1
        up = g.randn(H, Dn + Dv, R) / R**0.5 * 1.5
        cos, sin = tables(L, Dr, still=still)
        return Case(when, (query, compressed, gain, up, cos, sin))

    when = "there is one token, so only its value counts"
    yield case(when, 2, 3, 1, 6, 4, 5, 7)
    when = "nothing is rotated (cos 1, sin 0)"
    yield case(when, 1, 1, 5, 6, 4, 5, 7, still=True)
    yield case(when, 2, 3, 6, 6, 4, 10, 7, still=True)
    for when, (B, H, L, _, *sizes) in entries(SIZES):
        yield case(when, B, H, L, *sizes)
    when = "the queries are large"
    yield case(when, 2, 3, 6, 6, 4, 10, 5, large=6.0)
    when = "the latents are small, so eps counts"
    small = case(when, 1, 2, 4, 6, 4, 5, 3)
    small.args[1][..., :5] *= 3e-4
    yield small


def _parts(case: Case, out: Any) -> bool:
    """Claim three tensors of the documented shapes."""
    query, compressed, gain, up, cos, _ = case.args
    B, H, L, D = query.shape
    Dv = up.shape[1] - (D - cos.shape[-1])
    wanted = [(B, H, L, Dv), (B, L, len(gain)), (B, L, cos.shape[-1])]
    return isinstance(out, tuple) and [
        tuple(getattr(x, "shape", ())) for x in out
    ] == list(wanted)


def _cache(case: Case, out: Any) -> bool:
    """Compare what is kept, where the shapes are right."""
    if not _parts(case, out):
        return True
    _, *right = latent_attention(*case.args)
    return all(
        torch.allclose(x.float(), y, atol=1e-4)
        for x, y in zip(out[1:], right, strict=True)
    )


exercise = Exercise(
    id="latent-latent_attention",
    points=3,
    reference=latent_attention,
    cases=_cases,
    returns=("out", "latent", "rope_key"),
    also=(
        views(),
        gradients("query", "compressed", "gain", "up"),
        ones("B H", "B L"),
    ),
    given={"apply_rope": apply_rope},
    properties=(
        Property(
            "The result is out, (B, H, L, Dv), and what a cache keeps of "
            "each token, without a head axis: latent, (B, L, R), and "
            "rope_key, (B, L, Dr).",
            _parts,
        ),
        Property(
            "What is kept is wrong already: the latent is the first R "
            "elements after their norm, the key the other Dr after their "
            "rotation.",
            _cache,
        ),
    ),
    breaks={
        "position 0": lambda c: c.args[0].shape[2] > 1,
        "S = 1": lambda c: c.args[0].shape[2] > 1,
        "H = 1": lambda c: c.args[0].shape[1] > 1,
        "weight = 1": lambda c: len(c.args[2].unique()) > 1,
        "contiguous strides": is_view,
    },
)
