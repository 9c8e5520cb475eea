"""Cases and properties of ``sdp-logit_variance``."""

import math
from collections.abc import Iterator

from torch import Tensor

from attn import functional
from attn.exercises.conditions import views
from attn.exercises.draw import Draw, entries
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.symmetry import is_view


def logit_variance(query: Tensor, key: Tensor) -> tuple[float, float]:
    """Take each pair of rows as a sequence of one token."""
    q, k = query[:, None], key[:, None]  # (N, 1, D)
    raw = functional.attention_weights(q, k, scale=1.0).scores
    scaled = functional.attention_weights(q, k).scores  # (N, 1, 1)
    return raw.var().item(), scaled.var().item()


SIZES = {  # N, D
    "D is 1, so both variances are that of N plain products": [(40, 1)],
    "each dot product adds D products": [(50, 16), (200, 7)],
    "N and D are the same": [(9, 9)],
    "there are few rows": [(2, 12)],
}


def _cases(g: Draw) -> Iterator[Case]:
    for when, (N, D) in entries(SIZES):
        yield Case(when, (g.randn(N, D), g.randn(N, D)))

    when = "the inputs have a mean and a spread of their own"
    yield Case(when, (g.randn(60, 5) * 3 + 1, g.randn(60, 5) / 2 - 1))
    yield Case(when, (g.randn(3, 1) + 1, g.randn(3, 1) + 1))
    yield Case(when, (g.randn(60, 5) + 40, g.randn(60, 5) + 40))


exercise = Exercise(
    id="sdp-logit_variance",
    points=1,
    reference=logit_variance,
    cases=_cases,
    returns=("before", "after"),
    also=(views(),),
    properties=(
        Property(
            "The second variance must be the first divided by D, because "
            "dividing numbers by c divides their variance by c * c.",
            lambda case, out: math.isclose(
                float(out[0]),
                float(out[1]) * case.args[0].shape[-1],
                rel_tol=1e-3,
            ),
        ),
    ),
    breaks={
        "S = 1": lambda c: c.args[0].shape[1] > 1,
        "L = S": lambda c: c.args[0].shape[0] != c.args[0].shape[1],
        "contiguous strides": is_view,
    },
)
