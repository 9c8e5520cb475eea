"""Cases and properties of ``flash-tiled_backward``."""

from collections.abc import Iterator

import torch
from torch import Tensor

from attn import functional
from attn.exercises.conditions import ones, views
from attn.exercises.draw import Draw
from attn.exercises.flash.tiles import blocks, cases, tile_scores
from attn.exercises.spec import Case, Exercise
from attn.exercises.symmetry import OF_ATTENTION


def tiled_backward(
    query, key, value, out, lse, d_out, block_q, block_k, is_causal=False
):
    """Compute the gradients tile by tile, the weights from ``lse``.

    A test compares it with autograd, through all scores at once.
    """
    scale = query.shape[-1] ** -0.5
    dq, dk, dv = (torch.zeros_like(x) for x in (query, key, value))
    delta = (out * d_out).sum(-1, keepdim=True)
    for r in blocks(query.shape[-2], block_q):
        for c in blocks(key.shape[-2], block_k):
            s = tile_scores(query, key, r, c, is_causal)
            p = (s - lse[..., r, None]).exp()
            dp = d_out[..., r, :] @ value[..., c, :].mT
            ds = p * (dp - delta[..., r, :])
            dv[..., c, :] += p.mT @ d_out[..., r, :]
            dq[..., r, :] += ds @ key[..., c, :] * scale
            dk[..., c, :] += ds.mT @ query[..., r, :] * scale
    return dq, dk, dv


def _cases(g: Draw) -> Iterator[Case]:
    def inputs(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> tuple:
        out, lse = functional.scaled_dot_product_attention(
            q, k, v, is_causal=causal, return_lse=True
        )
        d_out = torch.randn(out.shape, generator=g)
        return q, k, v, out, lse, d_out

    def result(q: Tensor, k: Tensor, v: Tensor) -> int:
        return q.numel() + k.numel() + v.numel()

    # Larger scores leave nothing of the gradients but rounding.
    yield from cases(g, inputs, result, spread=4.0, apart=20.0)


exercise = Exercise(
    id="flash-tiled_backward",
    points=3,
    reference=tiled_backward,
    cases=_cases,
    returns=(
        "the gradient of query",
        "the gradient of key",
        "the gradient of value",
    ),
    also=(
        views(),
        ones("... L", "L Dv"),
    ),
    forbids=("scaled_dot_product_attention", "grad", "backward"),
    breaks=OF_ATTENTION,
)
