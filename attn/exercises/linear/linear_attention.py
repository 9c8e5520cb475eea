"""Cases and properties of ``linear-linear_attention``."""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from attn.exercises.conditions import gradients, ones, views
from attn.exercises.draw import Draw, entries
from attn.exercises.linear.texts import tokens
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.symmetry import is_view

State = tuple[Tensor, Tensor]


def linear_attention(query, key, value, state=None):
    """Weigh all tokens before at once, a matrix of weights and a state.

    Another way than the solution's, which goes from token to token.
    """
    q, k = F.elu(query) + 1, F.elu(key) + 1
    weights = (q @ k.mT).tril()  # (..., L, L)
    out = weights @ value  # (..., L, Dv)
    total = weights.sum(-1, keepdim=True)
    S, z = k.mT @ value, k.sum(-2)
    if state is not None:
        out = out + q @ state[0]
        total = total + q @ state[1][..., None]
        S, z = S + state[0], z + state[1]
    return out / total, (S, z)


SIZES = {  # L, D, Dv, the axes in front
    "there is one token, so the result is its value": [
        (1, 4, 3, ()),
        (1, 2, 5, (3,)),
    ],
    "there are several tokens": [(5, 4, 3, ()), (7, 3, 6, ())],
    "D is 1": [(4, 1, 3, ())],
    "there are batch and heads": [(6, 4, 5, (2, 3))],
    "axes have the same length": [(4, 4, 4, ()), (3, 3, 3, (3,))],
}


def _cases(g: Draw) -> Iterator[Case]:
    def state(D: int, Dv: int, lead: tuple[int, ...], n: int = 3) -> State:
        """Return the state after n other tokens."""
        return linear_attention(*tokens(g, n, D, Dv, lead))[1]

    for when, (L, D, Dv, lead) in entries(SIZES):
        yield Case(when, tokens(g, L, D, Dv, lead))

    when = "all keys are equal, so the result is the mean of the values"
    q, k, v = tokens(g, 6, 4, 3)
    yield Case(when, (q, k[:1].repeat(6, 1), v))

    when = "queries and keys are far below 0"
    q, k, v = tokens(g, 5, 4, 3)
    yield Case(when, (q - 5, k - 5, v))
    when = "queries and keys are far above 0"
    yield Case(when, (q + 9, 3 * k + 9, v))

    for L, lead in ((1, ()), (5, ()), (4, (2, 3))):
        when = "a text goes on from a state"
        yield Case(when, (*tokens(g, L, 4, 3, lead), state(4, 3, lead)))
    when = "a text goes on from a state of many tokens"
    yield Case(when, (*tokens(g, 4, 3, 5), state(3, 5, (), 200)))
    when = "a text goes on from a state, and axes have the same length"
    yield Case(when, (*tokens(g, 3, 3, 3), state(3, 3, ())))

    when = "there are many tokens, and memory for a state"
    yield Case(when, tokens(g, 256, 8, 8), max_live=14_000)
    many = *tokens(g, 256, 8, 8), state(8, 8, ())
    yield Case(when, many, max_live=14_000)


def _is_a_mean(case: Case, output: object) -> bool:
    """Claim that each element is between the smallest and the largest."""
    if len(case.args) > 3 or not isinstance(output, tuple):
        return True
    out, value = output[0], case.args[2]
    if not isinstance(out, Tensor) or out.shape != value.shape:
        return True
    low, high = value.amin(-2, keepdim=True), value.amax(-2, keepdim=True)
    return bool(((out >= low - 1e-3) & (out <= high + 1e-3)).all())


def _first_is_its_value(case: Case, output: object) -> bool:
    """Claim that token 0 of a text without a past reads its own value."""
    if len(case.args) > 3 or not isinstance(output, tuple):
        return True
    out, value = output[0], case.args[2]
    if not isinstance(out, Tensor) or out.shape != value.shape:
        return True
    return torch.allclose(out[..., 0, :], value[..., 0, :], atol=1e-3)


exercise = Exercise(
    id="linear-linear_attention",
    points=2,
    reference=linear_attention,
    cases=_cases,
    returns=("out", "the state"),
    also=(views(), gradients(), ones("... L", "L Dv", "D Dv")),
    forbids=("scaled_dot_product_attention",),
    properties=(
        Property(
            "Token 0 sees only itself, so its result is its own value. "
            "Here it is not: which keys does it read?",
            _first_is_its_value,
        ),
        Property(
            "The weights of a row are positive and sum to 1, so the result "
            "is between the smallest and the largest value. Here it is not: "
            "by what are the values divided?",
            _is_a_mean,
        ),
    ),
    breaks={
        "position 0": lambda c: c.args[0].shape[-2] > 1,
        "zeroed memory": lambda c: len(c.args) > 3,
        "contiguous strides": is_view,
    },
)
