"""Cases and properties of ``sdp-SelfAttention``."""

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor, nn

from attn import functional
from attn.exercises.conditions import gradients, ones, views
from attn.exercises.draw import Draw, entries
from attn.exercises.sdp.draw import far_apart
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.symmetry import is_view


class SelfAttention(nn.Module):
    """One head of attention, from three linear maps and ``attn``."""

    def __init__(self, embed_dim: int, head_dim: int):
        super().__init__()
        self.q_proj = nn.Linear(embed_dim, head_dim, bias=False)
        self.k_proj = nn.Linear(embed_dim, head_dim, bias=False)
        self.v_proj = nn.Linear(embed_dim, head_dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        return functional.scaled_dot_product_attention(q, k, v)


SHAPES = {  # of x, and then D
    "there is one token, so only its value counts": [(1, 6, 8), (3, 1, 4, 8)],
    "there is one sequence: two axes": [(3, 6, 8), (7, 5, 9), (5, 12, 4)],
    "there is a batch: three axes": [(2, 5, 6, 8), (1, 4, 3, 16)],
    "there is a batch of batches: four axes": [(2, 3, 4, 5, 7)],
    "axes have the same length": [(4, 4, 4), (3, 3, 3, 3)],
}


def _cases(g: Draw) -> Iterator[Case]:
    def case(when: str, x: Tensor, D: int = 8, **given: Tensor) -> Case:
        E = x.shape[-1]
        maps = {name: g.randn(D, E) * 0.7 for name in "qkv"} | given
        state = {f"{name}_proj.weight": w for name, w in maps.items()}
        init = {"embed_dim": E, "head_dim": D}
        return Case(when, (x,), init=init, state=state)

    for when, (*shape, D) in entries(SHAPES):
        yield case(when, g.randn(*shape), D)

    when = "q_proj is zero, so the result is the mean of the values"
    yield case(when, g.randn(5, 6), q=torch.zeros(8, 6))

    when = "another sequence was first, of the same or another length"
    for first, L in ((4, 4), (2, 6), (6, 2)):
        second = case(when, g.randn(L, 6))
        before = (replace(second, args=(g.randn(first, 6),)),)
        yield replace(second, before=before)

    q, k = far_apart(g, queries=5)
    x = torch.stack([torch.cat([q, k], -1), torch.cat([-q, k], -1)])
    maps = dict(zip("qk", torch.eye(8).split(4), strict=True))
    yield case("the scores are large", x, D=4, **maps)


exercise = Exercise(
    id="sdp-SelfAttention",
    points=3,
    reference=SelfAttention,
    cases=_cases,
    also=(
        views(),
        gradients(when="gradients flow back, to x and the matrices"),
        ones("... L"),
    ),
    forbids=("scaled_dot_product_attention",),
    properties=(
        Property(
            "Each token must get one row of D elements: compare the shape of "
            "the result with that of x.",
            lambda case, out: out.shape[:-1] == case.args[0].shape[:-1],
        ),
    ),
    breaks={
        "S = 1": lambda c: c.args[0].shape[-2] > 1,
        "H = 1": lambda c: c.args[0].dim() >= 3 and c.args[0].shape[0] > 1,
        "L = S": lambda c: c.init["embed_dim"] != c.init["head_dim"],
        "weight = 1": lambda c: all(
            len(w.unique()) > 1 for w in c.state.values()
        ),
        "contiguous strides": is_view,
    },
)
