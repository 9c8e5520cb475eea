"""Cases and properties of ``linear-gated_delta_step``."""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from attn.exercises.conditions import gradients, views
from attn.exercises.draw import Draw, entries
from attn.exercises.linear.texts import betas, decays, lengthened
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.symmetry import is_view


def gated_delta_step(state, query, key, value, g, beta):
    """Multiply the state by ``exp(g) (I - beta k kᵀ)``, then write.

    Another way than the solution's, which reads the state at the key.
    """
    D = query.shape[-1]
    k, q = F.normalize(key, dim=-1), F.normalize(query, dim=-1) * D**-0.5
    b = beta[..., None, None]
    keeps = torch.eye(D).to(k) - b * k[..., :, None] * k[..., None, :]
    state = g.exp()[..., None, None] * (keeps @ state)
    state = state + b * k[..., :, None] * value[..., None, :]  # (..., D, Dv)
    return torch.einsum("...d,...de->...e", q, state), state


SIZES = {  # D, Dv, the axes in front
    "there is one token of one head": [(4, 3, ()), (2, 5, ())],
    "D is 1": [(1, 3, (2,))],
    "every axis is 1": [(1, 1, (1,))],
    "there are batch and heads": [(4, 5, (2, 3))],
    "axes have the same length": [(3, 3, (3,)), (3, 3, (3, 3))],
}


def _cases(g: Draw) -> Iterator[Case]:
    def token(
        D: int = 4,
        Dv: int = 3,
        lead: tuple[int, ...] = (),
        *,
        most: float = 1.0,
        strength: float = 0.5,
    ) -> list[Tensor]:
        shapes = (D, Dv), (D,), (D,), (Dv,)
        tensors = [g.randn(*lead, *shape) for shape in shapes]
        tensors[1:3] = map(lengthened, tensors[1:3])
        logs = decays(g, *lead, strength=strength)
        return [*tensors, logs, betas(g, *lead, most=most)]

    def changed(given: list[Tensor], **new: float) -> tuple[Tensor, ...]:
        names = "state", "query", "key", "value", "g", "beta"
        for name, x in new.items():
            given[names.index(name)] = torch.full_like(
                given[names.index(name)], x
            )
        return tuple(given)

    when = "nothing is written and nothing fades, so the query reads"
    yield Case(when, changed(token(), g=0, beta=0))
    when = "nothing is written, and the state fades"
    yield Case(when, changed(token(lead=(3,)), beta=0))
    when = "the state is zero, and the value is written whole"
    yield Case(when, changed(token(), state=0, g=0, beta=1))
    when = "the state is zero, and the value is written in part"
    yield Case(when, changed(token(lead=(3,)), state=0, g=0))
    when = "g is 0 and beta is 1: the value at the key is replaced"
    yield Case(when, changed(token(lead=(3,)), g=0, beta=1))
    when = "g is 0 and beta is not 1: it is replaced in part"
    yield Case(when, changed(token(lead=(3,)), g=0))
    when = "the state fades, and beta is 1: the value is replaced"
    yield Case(when, changed(token(lead=(3,)), beta=1))

    for when, (D, Dv, lead) in entries(SIZES):
        yield Case(when, tuple(token(D, Dv, lead)))

    when = "the key is in the state already"
    again = token(lead=(2, 3))
    key = F.normalize(again[2], dim=-1)
    again[0] = key[..., :, None] * g.randn(2, 3, 1, 3)
    yield Case(when, tuple(again))
    when = "the query is the key"
    same = token(lead=(2,))
    same[1] = same[2].clone()
    yield Case(when, tuple(same))

    when = "the state fades fast"
    yield Case(when, tuple(token(lead=(3,), strength=4.0)))
    when = "the state is wiped"
    yield Case(when, changed(token(lead=(2,)), g=-200))
    when = "beta is up to 2"
    yield Case(when, tuple(token(lead=(4,), most=2.0)))
    yield Case(when, changed(token(lead=(2,)), beta=2))
    for length in (30.0, 0.4):
        when = f"query and key are {length} times as long"
        scaled = token(lead=(2,))
        scaled[1:3] = [length * x for x in scaled[1:3]]
        yield Case(when, tuple(scaled))
    when = "the key is zero"
    yield Case(when, changed(token(lead=(2,)), key=0))
    when = "the key of one head is zero"
    one = token(lead=(3,))
    one[2][1] = 0.0
    yield Case(when, tuple(one))


def _gives_the_value(case: Case, output: object) -> bool:
    """Claim that with beta 1 the key then reads the value."""
    _, _, key, value, _, beta = case.args
    if not isinstance(output, tuple) or not bool((beta == 1).all()):
        return True
    state = output[1]
    if not isinstance(state, Tensor) or state.shape != case.args[0].shape:
        return True
    k = F.normalize(key, dim=-1)[..., None, :]  # (..., 1, D)
    read = (k @ state)[..., 0, :]
    return torch.allclose(read, value, rtol=1e-2, atol=1e-3)


exercise = Exercise(
    id="linear-gated_delta_step",
    points=2,
    reference=gated_delta_step,
    cases=_cases,
    returns=("out", "the new state"),
    also=(views(), gradients()),
    forbids=("scaled_dot_product_attention",),
    properties=(
        Property(
            "beta is 1, so the new state, read at the key, gives exactly "
            "the value. Here it does not: what was there before?",
            _gives_the_value,
        ),
    ),
    breaks={
        "H = 1": lambda c: c.args[1].dim() > 1 and c.args[1].shape[0] > 1,
        "weight = 1": lambda c: bool(
            ((c.args[5] > 0) & (c.args[5] < 1)).any()
        ),
        "zeroed memory": lambda c: bool((c.args[0] != 0).any()),
        "contiguous strides": is_view,
    },
)
