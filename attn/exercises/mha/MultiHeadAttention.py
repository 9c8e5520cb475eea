"""Cases and properties of ``mha-MultiHeadAttention``."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Generator, Tensor

from attn.exercises.conditions import views
from attn.exercises.draw import Draw, entries
from attn.exercises.spec import Case, Exercise, Property
from attn.nn import MultiHeadAttention


class _Reference(MultiHeadAttention):
    """``attn``'s module, with the task's own ``forward``."""

    def forward(self, x, kv_input=None, attn_mask=None):
        return super().forward(x, kv_input, attn_mask=attn_mask)


SIZES = {  # B, L, E, H
    "there is one token, so only its value and the last map count": [
        (1, 1, 6, 2),
        (3, 1, 8, 4),
    ],
    "there is one head": [(2, 5, 6, 1), (1, 4, 6, 1), (1, 1, 6, 1)],
    "there are several heads": [(1, 5, 12, 3), (1, 4, 8, 2), (2, 7, 12, 6)],
    "axes have the same length": [(3, 3, 9, 3), (4, 4, 16, 4)],
}
CROSS = {  # B, L, S, E, H
    "keys and values come from another sequence": [
        (2, 3, 7, 12, 3),
        (2, 5, 5, 8, 2),
        (2, 6, 1, 4, 2),
        (1, 1, 4, 6, 3),
    ],
}
MASKED = {  # B, L, E, H, and the shape of the mask
    "there is a mask (L, S), the same for all": [(2, 5, 8, 2, (5, 5))],
    "there is a mask for each sequence": [
        (3, 5, 12, 2, (3, 1, 1, 5)),
        (2, 4, 8, 4, (2, 1, 4, 4)),
    ],
    "there is a mask for each head": [
        (2, 5, 12, 3, (1, 3, 5, 5)),
        (2, 4, 8, 2, (2, 2, 4, 4)),
    ],
    "there is a mask (H, L, S), the same for all sequences": [
        (2, 5, 12, 3, (3, 5, 5)),
    ],
    "there are as many sequences as heads, and a mask for each": [
        (3, 4, 12, 3, (3, 1, 4, 4)),
    ],
}


def _cases(g: Draw) -> Iterator[Case]:
    def case(when: str, x: Tensor, heads: int, **given: Any) -> Case:
        state = given.pop("state", None) or _state(g, x.shape[-1])
        init = {"embed_dim": x.shape[-1], "num_heads": heads}
        return Case(when, (x,), given, init=init, state=state)

    for when, (*shape, H) in entries(SIZES):
        yield case(when, g.randn(*shape), H)

    when = "q_proj is zero, so each head takes the mean of its values"
    state = _state(g, 6)
    state["q_proj.weight"].zero_()
    state["q_proj.bias"].zero_()
    yield case(when, g.randn(2, 5, 6), 3, state=state)
    when = "q_proj is zero, so every score is 0, and there is a mask"
    inputs = {"state": state, "attn_mask": g.mask(5, 5)}
    yield case(when, g.randn(2, 5, 6), 3, **inputs)

    for when, (B, L, S, E, H) in entries(CROSS):
        yield case(when, g.randn(B, L, E), H, kv_input=g.randn(B, S, E))

    when = "there is a mask (L, S), the same for all"
    for L, S, E in ((4, 5, 12), (3, 6, 6), (1, 4, 6)):
        other = {"kv_input": g.randn(2, S, E), "attn_mask": g.mask(L, S)}
        yield case(when, g.randn(2, L, E), 3, **other)

    for when, (*shape, H, of_mask) in entries(MASKED):
        yield case(when, g.randn(*shape), H, attn_mask=g.mask(*of_mask))

    when = "the scores are large"
    state = _state(g, 8)
    state["q_proj.weight"] *= 40
    large = case(when, 3 * g.randn(2, 5, 8), 2, state=state)
    yield replace(large, rtol=3e-4)  # the order of sums shows in exp

    when = "all scores are very low, and there is a mask"
    state = _state(g, 8)
    for name, sign in (("q_proj", 1), ("k_proj", -1)):
        state[f"{name}.weight"] *= 0.3
        state[f"{name}.bias"].fill_(10 * sign)  # scores around -200
    x = g.randn(2, 5, 8)
    yield case(when, x, 2, state=state, attn_mask=g.mask(5, 5))

    when = "masked scores are far above the allowed ones"
    state = {name: abs(x) for name, x in _state(g, 8).items()}
    sign = torch.tensor([1.0, -1.0, 1.0, -1.0, 1.0])
    x = 20 * sign[:, None] * g.randn(2, 5, 8).abs()
    opposite = sign[:, None] * sign < 0
    apart = case(when, x, 2, state=state, attn_mask=opposite)
    yield replace(apart, rtol=3e-4)

    # Small ones: that of k_proj.bias is 0, but for rounding.
    when = "gradients flow back"
    plain = case(when, g.randn(2, 4, 6), 3)
    yield replace(plain, grad=True)
    both = {"kv_input": g.randn(2, 5, 6), "attn_mask": g.mask(4, 5)}
    yield replace(case(when, g.randn(2, 4, 6), 2, **both), grad=True)


def _state(g: Generator, size: int) -> dict[str, Tensor]:
    state = {}
    for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
        weight = torch.randn(size, size, generator=g) * 1.2 / size**0.5
        state[f"{name}.weight"] = weight
        state[f"{name}.bias"] = torch.randn(size, generator=g) * 0.5
    return state


exercise = Exercise(
    id="mha-MultiHeadAttention",
    points=3,
    reference=_Reference,
    cases=_cases,
    also=(views(),),
    forbids=("MultiheadAttention",),
    properties=(
        Property(
            "The result should have the shape of x: one row for each query.",
            lambda case, out: (
                getattr(out, "shape", None) == case.args[0].shape
            ),
        ),
    ),
    breaks={
        "S = 1": lambda c: c.args[0].shape[-2] > 1,
        "H = 1": lambda c: c.init["num_heads"] > 1,
        "L = S": lambda c: (
            c.kwargs.get("kv_input") is not None
            and c.kwargs["kv_input"].shape != c.args[0].shape
        ),
        "weight = 1": lambda c: len(c.state["out_proj.weight"].unique()) > 1,
    },
)
