"""Cases and properties of ``mha-MultiHeadAttention``."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Generator, Tensor

from attn.exercises.draw import some_allowed
from attn.exercises.spec import Case, Exercise, Property
from attn.nn import MultiHeadAttention


class _Reference(MultiHeadAttention):
    """``attn``'s module, with the task's own ``forward``."""

    def forward(self, x, kv_input=None, attn_mask=None):
        return super().forward(x, kv_input, attn_mask=attn_mask)


def _cases(g: Generator) -> Iterator[Case]:
    def randn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=g)

    mask = partial(some_allowed, g)

    def case(when: str, x: Tensor, heads: int, **given: Any) -> Case:
        state = given.pop("state", None) or _state(g, x.shape[-1])
        grad = given.pop("grad", False)
        init = {"embed_dim": x.shape[-1], "num_heads": heads}
        return Case(when, (x,), given, init=init, state=state, grad=grad)

    when = "there is one token, so only its value and the last map count"
    yield case(when, randn(1, 1, 6), 2)
    yield case(when, randn(3, 1, 8), 4)

    when = "q_proj is zero, so each head takes the mean of its values"
    state = _state(g, 6)
    state["q_proj.weight"].zero_()
    state["q_proj.bias"].zero_()
    yield case(when, randn(2, 5, 6), 3, state=state)

    when = "there is one head"
    yield case(when, randn(2, 5, 6), 1)
    yield case(when, randn(1, 4, 6), 1)
    yield case(when, randn(1, 1, 6), 1)

    when = "there are several heads"
    yield case(when, randn(1, 5, 12), 3)
    yield case(when, randn(1, 4, 8), 2)
    yield case(when, randn(2, 7, 12), 6)

    when = "axes have the same length"
    yield case(when, randn(3, 3, 9), 3)
    yield case(when, randn(4, 4, 16), 4)

    when = "keys and values come from another sequence"
    yield case(when, randn(2, 3, 12), 3, kv_input=randn(2, 7, 12))
    yield case(when, randn(2, 5, 8), 2, kv_input=randn(2, 5, 8))
    yield case(when, randn(2, 6, 4), 2, kv_input=randn(2, 1, 4))
    yield case(when, randn(1, 1, 6), 3, kv_input=randn(1, 4, 6))

    when = "there is a mask (L, S), the same for all"
    causal = torch.ones(4, 5).tril().bool()
    other = {"kv_input": randn(2, 5, 12), "attn_mask": causal}
    yield case(when, randn(2, 4, 12), 3, **other)
    yield case(when, randn(2, 5, 8), 2, attn_mask=mask(5, 5))
    other = {"kv_input": randn(2, 6, 8), "attn_mask": mask(3, 6)}
    yield case(when, randn(2, 3, 8), 2, **other)
    other = {"kv_input": randn(1, 4, 6), "attn_mask": mask(1, 4)}
    yield case(when, randn(1, 1, 6), 3, **other)

    when = "there is a mask for each sequence"
    yield case(when, randn(3, 5, 12), 2, attn_mask=mask(3, 1, 1, 5))
    yield case(when, randn(2, 4, 8), 4, attn_mask=mask(2, 1, 4, 4))

    when = "there is a mask for each head"
    yield case(when, randn(2, 5, 12), 3, attn_mask=mask(1, 3, 5, 5))
    yield case(when, randn(2, 4, 8), 2, attn_mask=mask(2, 2, 4, 4))

    when = "there are as many sequences as heads, and a mask for each"
    yield case(when, randn(3, 4, 12), 3, attn_mask=mask(3, 1, 4, 4))

    when = "the scores are large"
    state = _state(g, 8)
    state["q_proj.weight"] *= 40
    large = case(when, 3 * randn(2, 5, 8), 2, state=state)
    yield replace(large, rtol=3e-4)  # the order of sums shows in exp

    when = "all scores are very low, and there is a mask"
    state = _state(g, 8)
    for name, sign in (("q_proj", 1), ("k_proj", -1)):
        state[f"{name}.weight"] *= 0.3
        state[f"{name}.bias"].fill_(10 * sign)  # scores around -200
    yield case(when, randn(2, 5, 8), 2, state=state, attn_mask=mask(5, 5))

    when = "the input is a view of another tensor"
    yield case(when, randn(5, 2, 12).transpose(0, 1), 3)
    yield case(when, randn(1, 4, 8).expand(3, 4, 8), 2)

    when = "gradients flow back"
    yield case(when, randn(2, 4, 6), 3, grad=True)
    both = {"kv_input": randn(2, 5, 6), "attn_mask": mask(4, 5)}
    yield case(when, randn(2, 4, 6), 2, grad=True, **both)


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
