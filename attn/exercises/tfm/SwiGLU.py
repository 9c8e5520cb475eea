"""Cases and properties of ``tfm-SwiGLU``."""

from collections.abc import Iterator

import torch
from torch import Tensor

from attn.exercises.conditions import gradients, views
from attn.exercises.draw import Draw, entries
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.symmetry import is_view
from attn.nn import SwiGLU as Gated


class SwiGLU(Gated):
    """``attn``'s module, with the task's own signature: the reference."""

    def __init__(self, embed_dim: int, hidden_dim: int):
        super().__init__(embed_dim, hidden_dim)


SIZES = {  # the axes of x, and the features between the maps
    "there is one feature, and one between the maps": [(1, 1, 1), (5, 1, 1)],
    "there is one sequence: two axes": [(3, 6, 16), (7, 5, 3)],
    "there is a batch": [(2, 5, 4, 10), (2, 3, 2, 6, 9), (1, 1, 4, 5)],
    "axes have the same length": [(4, 4, 4), (3, 3, 3, 3)],
}


def _cases(g: Draw) -> Iterator[Case]:
    def case(when: str, x: Tensor, hidden: int, **given: Tensor) -> Case:
        init = {"embed_dim": x.shape[-1], "hidden_dim": hidden}
        state = {
            name: given.get(name.partition(".")[0], g.randn(*w.shape) * 0.7)
            for name, w in SwiGLU(**init).state_dict().items()
        }
        return Case(when, (x,), init=init, state=state)

    for when, (*shape, hidden) in entries(SIZES):
        yield case(when, g.randn(*shape), hidden)

    when = "gate_proj is zero, so that nothing gets through"
    yield case(when, g.randn(3, 4), 6, gate_proj=torch.zeros(6, 4))

    when = "gate_proj gives large numbers, so that up_proj gets through"
    x, gate = g.randn(4, 3).abs() + 0.5, torch.full((5, 3), 8.0)
    yield case(when, x, 5, gate_proj=gate)

    when = "the gate is far from 0, on both sides"
    yield case(when, 6 * g.randn(2, 4, 5), 7)

    when = "the gate is beyond what exp can take, on both sides"
    gate = 40 * torch.tensor([1.0, -1.0, 3.0]).repeat(2)[:, None]
    yield case(when, g.randn(4, 3).abs() + 1.5, 6, gate_proj=gate.expand(6, 3))


def _closed(case: Case, out: Tensor) -> bool:
    """With a gate of 0 nothing gets through."""
    gate = (case.state or {})["gate_proj.weight"]
    return bool(gate.any()) or not bool(out.any())


exercise = Exercise(
    id="tfm-SwiGLU",
    points=2,
    reference=SwiGLU,
    cases=_cases,
    also=(
        views(),
        gradients(when="gradients flow back, to x and the matrices"),
    ),
    properties=(
        Property(
            "Each token must get E elements back: the result has the shape "
            "of x.",
            lambda case, out: out.shape == case.args[0].shape,
        ),
        Property(
            "gate_proj is all zeros here, and silu(0) is 0: a product with "
            "it is 0 everywhere, and this is not.",
            _closed,
        ),
    ),
    breaks={
        "H = 1": lambda c: c.args[0].dim() >= 3 and len(c.args[0]) > 1,
        "L = S": lambda c: c.init["embed_dim"] != c.init["hidden_dim"],
        "weight = 1": lambda c: all(
            w.numel() == 1 or len(w.unique()) > 1 for w in c.state.values()
        ),
        "contiguous strides": is_view,
    },
)
