"""Cases and properties of ``linear-chunked``."""

from collections.abc import Iterator

import torch
from torch import Tensor

from attn import linear
from attn.exercises.conditions import gradients, ones, views
from attn.exercises.draw import Draw, entries
from attn.exercises.linear.texts import (
    STRONG,
    decays,
    heads_in_front,
    tokens,
)
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.symmetry import is_view


def chunked(query, key, value, g, chunk_size, state=None):
    """Call the library with all tokens at once."""
    *tokens, state = heads_in_front(query, key, value, g, state)
    out, state = linear.linear_attention(
        *tokens,
        scale=1.0,
        initial_state=state,
        output_final_state=True,
        mode="parallel",
    )
    shape = *key.shape[:-2], *state.shape[-2:]
    return out.view(value.shape), state.view(shape).to(value.dtype)


SIZES = {  # L, D, Dv, chunk_size, the axes in front
    "there is one token": [(1, 4, 3, 4, ()), (1, 3, 5, 1, (2,))],
    "a chunk has room for the whole text": [
        (5, 4, 3, 5, ()),
        (5, 4, 3, 9, ()),
    ],
    "chunks are one token long": [(4, 4, 3, 1, ())],
    "there are several chunks": [(6, 4, 3, 3, ()), (10, 3, 5, 5, ())],
    "the last chunk is shorter": [(7, 4, 3, 3, ()), (13, 3, 4, 6, ())],
    "there are batch and heads": [(7, 4, 5, 3, (2, 3))],
    "axes have the same length": [(4, 4, 4, 4, ()), (3, 3, 3, 2, (3,))],
}


def _cases(g: Draw) -> Iterator[Case]:
    def text(
        L: int,
        D: int,
        Dv: int,
        size: int,
        lead: tuple[int, ...] = (),
        strength: float = 0.5,
    ) -> tuple[Tensor | int, ...]:
        query, key, value = tokens(g, L, D, Dv, lead)
        logs = decays(g, *lead, L, strength=strength)
        return query, key, value, logs, size

    when = "nothing fades: g is 0"
    yield Case(when, text(6, 4, 3, 6, strength=0.0))
    yield Case(when, text(7, 4, 3, 3, strength=0.0))
    for when, sizes in entries(SIZES):
        yield Case(when, text(*sizes))

    when = "a text goes on from a state"
    yield Case(when, (*text(1, 4, 3, 4), g.randn(4, 3)))
    yield Case(when, (*text(7, 4, 3, 3), g.randn(4, 3)))
    yield Case(when, (*text(5, 4, 6, 2, (2, 3)), g.randn(2, 3, 4, 6)))
    when = "a text goes on from a state, and axes have the same length"
    yield Case(when, (*text(3, 3, 3, 3), g.randn(3, 3)))

    when = "the decays are strong"
    for sizes in ((20, 4, 3, 20), (23, 4, 3, 10)):
        strong = text(*sizes, strength=STRONG)
        yield Case(when, strong)
        yield Case(when, (*strong, g.randn(4, 3)))
    when = "the decays are strong, and gradients flow back"
    later = text(20, 4, 3, 20, strength=STRONG)
    # Of strong decays alone the gradient is tiny, and rounding is most of it.
    later[3][:6] *= 0.02  # type: ignore[index]
    yield Case(when, later, grad=True)
    when = "one token wipes the state"
    wiped = text(9, 4, 3, 4)
    wiped[3][5] = -100.0  # type: ignore[index]
    yield Case(when, (*wiped, g.randn(4, 3)))

    when = "there are many tokens, and memory for chunks"
    yield Case(when, text(256, 32, 32, 16), max_live=160_000)
    when = "there are many tokens, and memory for chunks until backward"
    yield Case(when, text(256, 32, 32, 16), max_live=160_000, grad=True)


def _first_reads_itself(case: Case, output: object) -> bool:
    """Claim that token 0 without a past reads (q · k) v, not faded."""
    if len(case.args) > 5 or not isinstance(output, tuple):
        return True
    out, (query, key, value) = output[0], case.args[:3]
    if not isinstance(out, Tensor) or out.shape != value.shape:
        return True
    score = (query[..., 0, :] * key[..., 0, :]).sum(-1, keepdim=True)
    right = score * value[..., 0, :]
    return torch.allclose(out[..., 0, :], right, rtol=1e-2, atol=1e-3)


exercise = Exercise(
    id="linear-chunked",
    points=3,
    reference=chunked,
    cases=_cases,
    returns=("out", "the state"),
    also=(views(), gradients(), ones("... L", "L Dv", "D Dv")),
    forbids=("scaled_dot_product_attention",),
    properties=(
        Property(
            "Token 0 of a new text reads what it has just written, before "
            "anything fades: (q · k) v. Here it does not: which factors are "
            "between a token and itself?",
            _first_reads_itself,
        ),
    ),
    breaks={
        "position 0": lambda c: 1 < c.args[4] < c.args[0].shape[-2],
        "zeroed memory": lambda c: len(c.args) > 5,
        "contiguous strides": is_view,
    },
)
