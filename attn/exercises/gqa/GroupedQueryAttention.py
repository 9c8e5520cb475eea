"""Cases and properties of ``gqa-GroupedQueryAttention``."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Generator, Tensor, nn

from attn import functional
from attn.exercises.conditions import gradients, ones, views
from attn.exercises.draw import Draw, entries
from attn.exercises.spec import Case, Exercise, Property


class GroupedQueryAttention(nn.Module):
    """Apply four projections and ``attn``'s attention: the reference."""

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        num_kv_heads: int,
        head_dim: int | None = None,
    ):
        super().__init__()
        self.head_dim = D = head_dim or embed_dim // num_heads
        self.q_proj = nn.Linear(embed_dim, num_heads * D, bias=False)
        self.k_proj = nn.Linear(embed_dim, num_kv_heads * D, bias=False)
        self.v_proj = nn.Linear(embed_dim, num_kv_heads * D, bias=False)
        self.out_proj = nn.Linear(num_heads * D, embed_dim, bias=False)

    def forward(self, x: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        q, k, v = (
            m(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
            for m in (self.q_proj, self.k_proj, self.v_proj)
        )
        out = functional.grouped_attention(q, k, v, attn_mask)
        return self.out_proj(out.transpose(1, 2).flatten(2))


SIZES = {  # B, L, E, H, Hkv, and a head_dim
    # With B = Hkv = G, misaligned axes fit all the same.
    "there is one token, so only its value counts": [
        (2, 1, 8, 4, 2),
        (3, 1, 18, 9, 3),
    ],
    "every query head has its own key head (Hkv = H)": [
        (2, 5, 12, 3, 3),
        (1, 4, 5, 1, 1),
    ],
    "all query heads share one key head (Hkv = 1)": [
        (2, 5, 12, 3, 1),
        (3, 2, 8, 4, 1),
    ],
    "the query heads share key heads in groups": [
        (2, 5, 12, 6, 3),
        (3, 4, 18, 6, 2),
        (1, 7, 16, 8, 2),
        (2, 3, 10, 10, 5),
    ],
    "head_dim is given, and is not E // H": [
        (2, 5, 10, 4, 2, 6),
        (3, 4, 12, 4, 2, 2),
        (1, 3, 7, 3, 1, 5),
    ],
    "axes have the same length": [
        (2, 2, 8, 4, 2),
        (4, 4, 16, 4, 2),
        (2, 4, 4, 2, 2, 4),
    ],
}
MASKED = {  # the shape of the mask, and the sizes
    "all heads share one mask, (L, L)": [((4, 4), 3, 4, 12, 4, 2)],
    "each sequence has its own mask, and B = Hkv": [
        ((2, 1, 1, 5), 2, 5, 12, 6, 2),
        ((2, 1, 4, 4), 2, 4, 12, 6, 2),
    ],
    "each sequence has its own mask": [
        ((3, 1, 5, 5), 3, 5, 12, 4, 2),
        ((4, 1, 1, 3), 4, 3, 12, 3, 3),
        ((3, 1, 1, 4), 3, 4, 8, 4, 1, 3),
    ],
    "each query head has its own mask": [
        ((2, 6, 5, 5), 2, 5, 12, 6, 2),
        ((1, 4, 4, 4), 3, 4, 12, 4, 2),
    ],
    "each query head has its own mask, (H, L, L)": [
        ((6, 5, 5), 2, 5, 12, 6, 2),
    ],
}


def _cases(g: Draw) -> Iterator[Case]:
    def case(when: str, B: int, L: int, *sizes: int, mask: Any = None) -> Case:
        names = ("embed_dim", "num_heads", "num_kv_heads", "head_dim")
        init = dict(zip(names, sizes, strict=False))
        x = g.randn(B, L, sizes[0])
        args = (x,) if mask is None else (x, mask)
        return Case(when, args, init=init, state=_state(g, **init))

    for when, sizes in entries(SIZES):
        yield case(when, *sizes)

    when = "q_proj is zero, so that each head is the mean of its values"
    found = case(when, 2, 3, 12, 4, 2)
    found.state["q_proj.weight"].zero_()
    yield found
    when = "q_proj is zero, so every score is 0, and there is a mask"
    masked = (g.randn(2, 3, 12), torch.ones(3, 3).bool().tril())
    yield replace(found, condition=when, args=masked)

    for when, (of_mask, *sizes) in entries(MASKED):
        yield case(when, *sizes, mask=g.mask(*of_mask))

    when = "all heads share one mask, (L, L)"
    causal = torch.ones(5, 5).bool().tril()
    yield case(when, 2, 5, 12, 6, 2, mask=causal)

    when = "an earlier call had a mask, and this one has none"
    masked = case(when, 2, 5, 12, 4, 2, mask=g.mask(5, 5))
    yield replace(masked, args=(g.randn(2, 5, 12),), before=(masked,))

    large = _large("the scores are large", g)
    yield large
    when = "masked scores are far above the allowed ones"
    sign = large.args[0][0, :, :1]  # scores are above 0 where it is the same
    opposite = (*large.args, sign * sign.mT < 0)
    yield replace(large, condition=when, args=opposite)


def _state(g: Generator, **init: int) -> dict[str, Tensor]:
    return {
        name: torch.randn(weight.shape, generator=g) * 0.6
        for name, weight in GroupedQueryAttention(**init).state_dict().items()
    }


def _large(when: str, g: Generator) -> Case:
    """Make scores in the hundreds, exact in float32: integers, and D = 4."""
    init = {"embed_dim": 6, "num_heads": 4, "num_kv_heads": 2, "head_dim": 4}
    state = {
        name: torch.randint(-2, 3, w.shape, generator=g).float()
        for name, w in _state(g, **init).items()
    }
    x = torch.randint(-8, 9, (2, 5, 6), generator=g).float()
    x[..., 0] = 8 * torch.tensor([1, -1, 2, -2, 3])
    state["q_proj.weight"][:, 0] = state["k_proj.weight"][:, 0] = 3
    return Case(when, (x,), init=init, state=state)


def _shape_of_x(case: Case, out: Tensor) -> bool:
    return out.shape == case.args[0].shape


def _alone(case: Case, out: Tensor) -> bool:
    """Compare with v_proj and out_proj: for one token every weight is 1."""
    if case.args[0].shape[1] > 1 or not _shape_of_x(case, out):
        return True
    init, state = case.init or {}, case.state or {}
    H, Hkv = init["num_heads"], init["num_kv_heads"]
    value = case.args[0] @ state["v_proj.weight"].T
    heads = value.unflatten(-1, (Hkv, -1)).repeat_interleave(H // Hkv, -2)
    right = heads.flatten(-2) @ state["out_proj.weight"].T
    return torch.allclose(out, right, atol=1e-4)


exercise = Exercise(
    id="gqa-GroupedQueryAttention",
    points=3,
    reference=GroupedQueryAttention,
    cases=_cases,
    also=(
        views(),
        gradients(when="gradients flow back, to x and the matrices"),
        ones("B L"),
    ),
    properties=(
        Property(
            "Each token must get E elements back: the result has the shape "
            "of x.",
            _shape_of_x,
        ),
        Property(
            "With one token every weight is 1: each query head passes on "
            "the value of its key head h // G, and out_proj mixes them. Here "
            "it does not: does v_proj's output arrive there, in the order "
            "0, 0, 1, 1?",
            _alone,
        ),
    ),
    breaks={
        "S = 1": lambda c: c.args[0].shape[-2] > 1,
        "H = 1": lambda c: 1 < c.init["num_kv_heads"] < c.init["num_heads"],
        "L = S": lambda c: c.init.get("head_dim"),
        "weight = 1": lambda c: all(
            len(w.unique()) > 1 for w in c.state.values()
        ),
    },
)
