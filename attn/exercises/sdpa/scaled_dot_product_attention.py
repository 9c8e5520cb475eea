"""The exercise ``sdpa-scaled_dot_product_attention`` and its claims."""

import torch
from torch import Tensor

from attn import functional
from attn.exercises.conditions import dtypes, gradients, ones, views
from attn.exercises.sdpa.contract import cases
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.symmetry import OF_ATTENTION, heads


def _right_shape(case: Case, out: object) -> bool:
    query, _, value = case.args[:3]
    shape = (*query.shape[:-1], value.shape[-1])
    return isinstance(out, Tensor) and tuple(out.shape) == shape


exercise = Exercise(
    id="sdpa-scaled_dot_product_attention",
    points=3,
    reference=functional.scaled_dot_product_attention,
    cases=cases,
    also=(
        dtypes(torch.bfloat16, torch.half),
        views(),
        gradients(),
        ones("... H Hkv", "... L", "... Dv", "H Hkv L", "L S", "D Dv"),
    ),
    forbids=("scaled_dot_product_attention",),
    properties=(
        Property(
            "The result should have the query's shape with the value's "
            "last axis, (..., H, L, Dv).",
            _right_shape,
        ),
        Property(
            "There is a NaN in the result. A softmax over minus infinities "
            "is 0 / 0, and infinity minus infinity has no value either.",
            lambda _case, out: not bool(out.isnan().any()),
        ),
    ),
    breaks={
        **OF_ATTENTION,
        "H = 1": heads,
        "p = 0.5": lambda c: c.kwargs.get("dropout_p", 0.5) not in (0.5, 1.0),
    },
)
