"""Cases and properties of ``linear-short_convolution``."""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from attn.exercises.conditions import gradients, ones, views
from attn.exercises.draw import Draw, entries
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.symmetry import is_view


def short_convolution(x, weight, state=None):
    """Call PyTorch's convolution with a group for each feature."""
    B, _, E = x.shape
    W = weight.shape[-1]
    past = x.new_zeros(B, W - 1, E) if state is None else state
    seen = torch.cat([past, x], 1)  # (B, W - 1 + L, E)
    y = F.conv1d(seen.mT, weight[:, None], groups=E).mT  # (B, L, E)
    return F.silu(y), seen[:, seen.shape[1] - (W - 1) :].clone()


SIZES = {  # B, L, E, W
    "there is one token": [(1, 1, 2, 3), (2, 1, 3, 4)],
    "there is one feature": [(2, 6, 1, 3)],
    "the text is longer than W": [(2, 7, 3, 4), (1, 9, 5, 2)],
    "the text is shorter than W": [(2, 2, 3, 4), (1, 3, 5, 6)],
    "axes have the same length": [(3, 3, 3, 3)],
}


def _cases(g: Draw) -> Iterator[Case]:
    when = "only the last column of weight is not zero"
    x, weight = g.randn(2, 5, 3), torch.zeros(3, 4)
    weight[:, -1] = 1.0
    yield Case(when, (x, weight))
    when = "only the first column of weight is not zero"
    yield Case(when, (x.clone(), weight.flip(-1)))

    for when, (B, L, E, W) in entries(SIZES):
        yield Case(when, (g.randn(B, L, E), g.randn(E, W)))
        when = f"{when}, and goes on from a state"
        kept = g.randn(B, W - 1, E)
        yield Case(when, (g.randn(B, L, E), g.randn(E, W), kept))

    when = "a text comes in pieces of 1, 1 and 2 tokens"
    weight, kept = g.randn(3, 4), g.randn(2, 3, 3)
    for n in (1, 1, 2):
        piece = g.randn(2, n, 3)
        yield Case(when, (piece, weight, kept))
        kept = torch.cat([kept, piece], 1)[:, n:].clone()
    when = "gradients flow back through a piece shorter than W"
    args = g.randn(2, 2, 3), g.randn(3, 5), g.randn(2, 4, 3)
    yield Case(when, args, grad=True)


def _state_is_the_last_inputs(case: Case, output: object) -> bool:
    """Claim that the new state ends in the last input."""
    x, weight = case.args[:2]
    if not isinstance(output, tuple) or not isinstance(output[1], Tensor):
        return True
    shape = (x.shape[0], weight.shape[-1] - 1, x.shape[-1])
    state = output[1]
    return state.shape != shape or torch.equal(state[:, -1], x[:, -1])


def _does_not_look_ahead(case: Case, output: object) -> bool:
    """Claim that token 0 of a new text depends on itself alone."""
    x, weight = case.args[:2]
    if len(case.args) > 2 or not isinstance(output, tuple):
        return True
    y = output[0]
    if not isinstance(y, Tensor) or y.shape != x.shape:
        return True
    right = F.silu(x[:, 0] * weight[:, -1])
    return torch.allclose(y[:, 0], right, rtol=1e-2, atol=1e-3)


exercise = Exercise(
    id="linear-short_convolution",
    points=2,
    reference=short_convolution,
    cases=_cases,
    returns=("y", "the state"),
    also=(views(), gradients(), ones("B L", "L E", "B L E")),
    properties=(
        Property(
            "Before token 0 there are zeros, so it is silu of itself times "
            "the last column of weight. Here it is not.",
            _does_not_look_ahead,
        ),
        Property(
            "The state ends in the last input as it came, neither weighed "
            "nor activated. Here it does not.",
            _state_is_the_last_inputs,
        ),
    ),
    breaks={
        "position 0": lambda c: c.args[0].shape[1] > 1,
        "H = 1": lambda c: c.args[0].shape[0] > 1,
        "zeroed memory": lambda c: len(c.args) > 2,
        "contiguous strides": is_view,
    },
)
