"""Cases and properties of ``linear-gated_delta_chunked``."""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from attn import linear
from attn.exercises.conditions import gradients, ones, views
from attn.exercises.draw import Draw, entries
from attn.exercises.linear.texts import (
    STRONG,
    betas,
    decays,
    heads_in_front,
    lengthened,
    tokens,
)
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.symmetry import is_view


def gated_delta_chunked(query, key, value, g, beta, chunk_size, state=None):
    """Call the library with all tokens at once."""
    query, key = F.normalize(query, dim=-1), F.normalize(key, dim=-1)
    inputs = heads_in_front(query, key, value, g, beta, state)
    *tokens, state = inputs
    out, state = linear.gated_delta_rule(
        *tokens,
        qk_l2norm=False,
        initial_state=state,
        output_final_state=True,
        mode="parallel",
    )
    shape = *key.shape[:-2], *state.shape[-2:]
    return out.view(value.shape), state.view(shape).to(value.dtype)


SIZES = {  # L, D, Dv, chunk_size, the axes in front
    "there is one token": [(1, 4, 3, 4, ()), (1, 3, 5, 1, (2,))],
    "two tokens are one chunk": [(2, 4, 3, 2, ())],
    "a chunk has room for the whole text": [
        (5, 4, 3, 5, ()),
        (5, 4, 3, 9, ()),
    ],
    "chunks are one token long": [(4, 4, 3, 1, ())],
    "there are several chunks": [(6, 4, 3, 3, ()), (10, 3, 5, 5, ())],
    "the last chunk is shorter": [(7, 4, 3, 3, ()), (13, 3, 4, 6, ())],
    "there are batch and heads": [(7, 4, 5, 3, (2, 3))],
    "L, D and Dv are 1": [(1, 1, 1, 3, ()), (1, 1, 1, 1, (2,))],
    "D and Dv are 1": [(5, 1, 1, 3, (2,))],
    "axes have the same length": [(4, 4, 4, 4, ()), (3, 3, 3, 2, (3,))],
}


def _cases(g: Draw) -> Iterator[Case]:
    def text(
        L: int,
        D: int,
        Dv: int,
        size: int,
        lead: tuple[int, ...] = (),
        *,
        strength: float = 0.5,
        most: float = 1.0,
    ) -> list[Tensor | int]:
        query, key, value = tokens(g, L, D, Dv, lead)
        query, key = lengthened(query), lengthened(key)
        logs = decays(g, *lead, L, strength=strength)
        return [query, key, value, logs, betas(g, *lead, L, most=most), size]

    when = "keys are orthogonal, and nothing fades"
    apart = text(4, 4, 3, 4, strength=0.0)
    apart[1] = torch.linalg.qr(g.randn(4, 4))[0].contiguous()
    yield Case(when, tuple(apart))
    when = "nothing fades, and all is written whole"
    whole = text(5, 4, 3, 5, strength=0.0)
    whole[4] = torch.ones(5)
    yield Case(when, tuple(whole))
    when = "nothing fades: g is 0"
    yield Case(when, tuple(text(7, 4, 3, 3, strength=0.0)))
    for when, sizes in entries(SIZES):
        yield Case(when, tuple(text(*sizes)))

    when = "a key comes again in the same chunk"
    again = text(8, 4, 3, 4)
    again[1][5] = again[1][7] = again[1][4]  # type: ignore[index]
    yield Case(when, tuple(again))
    when = "all keys are equal"
    again = text(7, 4, 3, 4)
    again[1] = again[1][:1].repeat(7, 1)  # type: ignore[index]
    yield Case(when, tuple(again))

    when = "a text goes on from a state"
    yield Case(when, (*text(1, 4, 3, 4), g.randn(4, 3)))
    yield Case(when, (*text(7, 4, 3, 3), g.randn(4, 3)))
    yield Case(when, (*text(5, 4, 6, 2, (2, 3)), g.randn(2, 3, 4, 6)))
    when = "a text goes on from a state, and axes have the same length"
    yield Case(when, (*text(3, 3, 3, 3), g.randn(3, 3)))

    when = "beta is up to 2"
    yield Case(when, tuple(text(9, 4, 3, 4, most=2.0)))
    when = "query and key are long"
    long = text(7, 4, 3, 3)
    long[:2] = [20 * x for x in long[:2]]
    yield Case(when, tuple(long))
    when = "some keys are zero"
    zero = text(7, 4, 3, 3)
    zero[1][[1, 5]] = 0.0  # type: ignore[index]
    yield Case(when, tuple(zero))

    when = "the decays are strong"
    for sizes in ((20, 4, 3, 20), (23, 4, 3, 10)):
        strong = text(*sizes, strength=STRONG)
        yield Case(when, tuple(strong))
        yield Case(when, (*strong, g.randn(4, 3)))
    when = "the decays are strong, and gradients flow back"
    strong = text(20, 4, 3, 20, strength=STRONG)
    yield Case(when, tuple(strong), grad=True)

    when = "there are many tokens, and memory for chunks until backward"
    many = tuple(text(256, 32, 32, 16))
    yield Case(when, many, max_live=260_000, grad=True)


def _last_gives_its_value(case: Case, output: object) -> bool:
    """Claim that the state gives the last value, when it is written whole."""
    key, value, beta = case.args[1], case.args[2], case.args[4]
    if not isinstance(output, tuple) or not bool((beta[..., -1] == 1).all()):
        return True
    state = output[1]
    shape = (*key.shape[:-2], key.shape[-1], value.shape[-1])
    if not isinstance(state, Tensor) or state.shape != shape:
        return True
    k = F.normalize(key, dim=-1)[..., -1:, :]  # (..., 1, D)
    return torch.allclose(k @ state, value[..., -1:, :], rtol=1e-2, atol=1e-3)


exercise = Exercise(
    id="linear-gated_delta_chunked",
    points=3,
    reference=gated_delta_chunked,
    cases=_cases,
    returns=("out", "the state"),
    also=(views(), gradients(), ones("... L", "L Dv")),
    forbids=("scaled_dot_product_attention",),
    properties=(
        Property(
            "The last beta is 1, so the state, read at the last key, gives "
            "the last value. Here it does not: does a token's change take "
            "off what the tokens before it in its chunk have written?",
            _last_gives_its_value,
        ),
    ),
    breaks={
        "position 0": lambda c: 1 < c.args[5] < c.args[0].shape[-2],
        "zeroed memory": lambda c: len(c.args) > 6,
        "contiguous strides": is_view,
    },
)
