"""Cases, properties and variants of ``gqa-GroupedQueryAttention``."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from attn import functional
from attn.exercises.conditions import gradients, views
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
        D = head_dim or embed_dim // num_heads
        self.head_dim, self.num_kv_heads = D, num_kv_heads
        self.q_proj = nn.Linear(embed_dim, num_heads * D, bias=False)
        self.k_proj = nn.Linear(embed_dim, num_kv_heads * D, bias=False)
        self.v_proj = nn.Linear(embed_dim, num_kv_heads * D, bias=False)
        self.out_proj = nn.Linear(num_heads * D, embed_dim, bias=False)

    def forward(self, x: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        out = functional.grouped_attention(*_heads(self, x), attn_mask)
        return _merge(self, out)


def _heads(layer: Any, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Project to queries, keys and values, ``(B, heads, L, D)``."""
    maps = layer.q_proj, layer.k_proj, layer.v_proj
    q, k, v = (m(x).unflatten(-1, (-1, layer.head_dim)) for m in maps)
    return q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)


def _merge(layer: Any, out: Tensor) -> Tensor:
    return layer.out_proj(out.transpose(1, 2).flatten(2))


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

    for when, (of_mask, *sizes) in entries(MASKED):
        yield case(when, *sizes, mask=g.mask(*of_mask))

    when = "all heads share one mask, (L, L)"
    causal = torch.ones(5, 5).bool().tril()
    yield case(when, 2, 5, 12, 6, 2, mask=causal)

    yield _large("the scores are large", g)


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


def _right(style: str) -> Callable:
    """Record the layer with another ``forward(layer, x, mask)``."""

    def record(forward: Callable) -> Callable:
        class Layer(GroupedQueryAttention):
            def forward(self, x, attn_mask=None):
                return forward(self, x, attn_mask)

        return exercise.equivalent(style)(Layer)

    return record


@_right("PyTorch's own function, with enable_gqa")
def _sdpa(layer, x, mask):
    q, k, v = _heads(layer, x)
    out = F.scaled_dot_product_attention(q, k, v, mask, enable_gqa=True)
    return _merge(layer, out)


@_right("keys and values repeated")
def _repeated(layer, x, mask):
    q, k, v = _heads(layer, x)
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = q @ k.mT / q.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    return _merge(layer, scores.softmax(-1) @ v)


@_right("einsum on the projections, no head is transposed")
def _einsum(layer, x, mask):
    (B, L, _), D = x.shape, layer.head_dim
    q = layer.q_proj(x).view(B, L, layer.num_kv_heads, -1, D)
    k = layer.k_proj(x).view(B, L, layer.num_kv_heads, D)
    v = layer.v_proj(x).view(B, L, layer.num_kv_heads, D)
    scores = torch.einsum("blkgd,bskd->bkgls", q, k) / D**0.5
    if mask is not None:
        mask = mask.expand(B, q.shape[2] * q.shape[3], L, L)
        scores = scores.masked_fill(~mask.reshape(scores.shape), -1e9)
    out = torch.einsum("bkgls,bskd->blkgd", scores.softmax(-1), v)
    return layer.out_proj(out.reshape(B, L, -1))


@_right("head by head, each with its columns of out_proj")
def _head_by_head(layer, x, mask):
    D, total = layer.head_dim, torch.zeros_like(x)
    H = layer.q_proj.out_features // D
    group = H // layer.num_kv_heads
    if mask is not None:
        mask = mask.expand(len(x), H, x.shape[1], x.shape[1])
    for h in range(H):
        mine = slice(h * D, h * D + D)
        shared = slice(h // group * D, h // group * D + D)
        q = x @ layer.q_proj.weight[mine].T
        k = x @ layer.k_proj.weight[shared].T
        v = x @ layer.v_proj.weight[shared].T
        scores = q @ k.transpose(1, 2) * D**-0.5
        if mask is not None:
            scores = torch.where(mask[:, h], scores, -math.inf)
        out = F.softmax(scores, dim=2) @ v
        total = total + out @ layer.out_proj.weight[:, mine].T
    return total


@_right("packed rows, softmax by hand")
def _packed(layer, x, mask):
    q, k, v = _heads(layer, x)
    rows = q.reshape(len(x), layer.num_kv_heads, -1, layer.head_dim)
    scores = (rows @ k.mT).view(*q.shape[:3], -1) * layer.head_dim**-0.5
    if mask is not None:
        scores = scores + torch.zeros(mask.shape).masked_fill(~mask, -math.inf)
    exps = (scores - scores.amax(-1, keepdim=True)).exp()
    weights = (exps / exps.sum(-1, keepdim=True)).view(*rows.shape[:3], -1)
    return _merge(layer, (weights @ v).view(q.shape))


@_right("one product for all three projections")
def _fused(layer, x, mask):
    maps = layer.q_proj, layer.k_proj, layer.v_proj
    weight = torch.cat([m.weight for m in maps])
    heads = F.linear(x, weight).unflatten(-1, (-1, layer.head_dim))
    sizes = [m.out_features // layer.head_dim for m in maps]
    q, k, v = heads.transpose(1, 2).split(sizes, dim=1)
    out = F.scaled_dot_product_attention(q, k, v, mask, enable_gqa=True)
    return _merge(layer, out)
