"""Cases and properties of ``flash-tiled_forward``."""

from collections.abc import Iterator

from torch import Tensor

from attn import functional
from attn.exercises.conditions import ones, views
from attn.exercises.draw import Draw
from attn.exercises.flash.tiles import cases
from attn.exercises.spec import Case, Exercise
from attn.exercises.symmetry import OF_ATTENTION


def tiled_forward(query, key, value, block_q, block_k, is_causal=False):
    """Call the reference with the task's own signature."""
    return functional.tiled_attention(
        query,
        key,
        value,
        is_causal=is_causal,
        return_lse=True,
        block_q=block_q,
        block_k=block_k,
    )


def _cases(g: Draw) -> Iterator[Case]:
    def result(q: Tensor, k: Tensor, v: Tensor) -> int:
        return q[..., 0].numel() * (v.shape[-1] + 1)  # out and lse

    yield from cases(g, lambda q, k, v, causal: (q, k, v), result)


exercise = Exercise(
    id="flash-tiled_forward",
    points=3,
    reference=tiled_forward,
    cases=_cases,
    returns=("out", "lse"),
    also=(
        views(),
        ones("... L", "L S", "L Dv"),
    ),
    forbids=("scaled_dot_product_attention",),
    breaks=OF_ATTENTION,
)
