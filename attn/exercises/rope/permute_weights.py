"""Cases and properties of ``rope-permute_weights``."""

from collections.abc import Iterator

import torch
from torch import Tensor

from attn.exercises.conditions import gradients, ones, views
from attn.exercises.draw import Draw, entries
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.symmetry import is_view
from attn.positions import convert_pairing


def permute_weights(weight: Tensor, num_heads: int) -> Tensor:
    """Convert from interleaved to half: the reference."""
    head_dim = len(weight) // num_heads
    return convert_pairing(weight, "half", dim=0, head_dim=head_dim)


SIZES = {  # num_heads, and the shape of the weight
    "there is one head of one pair: nothing moves": [(1, 2, 5)],
    "there is one head": [(1, 8, 5), (1, 6, 6)],
    "there are several heads": [(3, 24, 7), (2, 20, 4), (4, 40, 3)],
    "axes have the same length": [(2, 16, 16), (6, 36, 6)],
    "it is a bias": [(3, 24), (1, 8)],
}


def _cases(g: Draw) -> Iterator[Case]:
    for when, (heads, *shape) in entries(SIZES):
        yield Case(when, (g.randn(*shape), heads))
    rows = torch.arange(12.0)[:, None].expand(12, 3)
    yield Case("each row has its number in it", (rows, 1))


def _same_rows(case: Case, out: object) -> bool:
    """Return whether each head has kept its rows, in any order."""
    weight, heads = case.args
    if not isinstance(out, Tensor) or out.shape != weight.shape:
        return False
    a, b = (
        x.reshape(heads, len(weight) // heads, -1).sum(-1).sort(-1).values
        for x in (weight, out)
    )
    return torch.allclose(a, b, atol=1e-4)


exercise = Exercise(
    id="rope-permute_weights",
    points=2,
    reference=permute_weights,
    cases=_cases,
    also=(
        views(),
        gradients(),
        ones("E"),
    ),
    properties=(
        Property(
            "Rows have left their head, or were changed: the rows of each "
            "head should be the same as before, in another order.",
            _same_rows,
        ),
    ),
    breaks={
        "H = 1": lambda c: c.args[1] > 1,
        "L = S": lambda c: len(c.args[0]) != c.args[0].shape[-1],
        "contiguous strides": is_view,
    },
)
