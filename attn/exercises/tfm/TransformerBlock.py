"""Cases and properties of ``tfm-TransformerBlock``."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from attn import functional
from attn.exercises.conditions import gradients, ones, views
from attn.exercises.draw import Draw
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.tfm.rms_norm import _reference as rms_norm
from attn.exercises.tfm.SwiGLU import SwiGLU
from attn.positions import apply_rope, rope_frequencies, rope_tables


class TransformerBlock(nn.Module):
    """A Llama block of ``attn``'s functions: the reference."""

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        num_kv_heads: int,
        hidden_dim: int,
        eps: float = 1e-5,
    ):
        super().__init__()
        linear = partial(nn.Linear, embed_dim, bias=False)
        self.eps, self.head_dim = eps, embed_dim // num_heads
        self.attention_norm = nn.Parameter(torch.ones(embed_dim))
        self.q_proj = linear(embed_dim)
        self.k_proj = linear(num_kv_heads * self.head_dim)
        self.v_proj = linear(num_kv_heads * self.head_dim)
        self.out_proj = linear(embed_dim)
        self.feed_forward_norm = nn.Parameter(torch.ones(embed_dim))
        self.feed_forward = SwiGLU(embed_dim, hidden_dim)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.attend(
            rms_norm(x, self.attention_norm, self.eps), cos, sin
        )
        return x + self.feed_forward(
            rms_norm(x, self.feed_forward_norm, self.eps)
        )

    def attend(self, h: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        q, k, v = _heads(self, h)
        q, k = apply_rope(q, cos, sin), apply_rope(k, cos, sin)
        out = functional.scaled_dot_product_attention(
            q, k, v, is_causal=True, enable_gqa=True
        )
        assert isinstance(out, Tensor)
        return _merge(self, out)


def _heads(block: Any, h: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Project to queries, keys and values, ``(B, heads, L, D)``."""
    maps = block.q_proj, block.k_proj, block.v_proj
    q, k, v = (m(h).unflatten(-1, (-1, block.head_dim)) for m in maps)
    return q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)


def _merge(block: Any, out: Tensor) -> Tensor:
    return block.out_proj(out.transpose(1, 2).flatten(2))


def _cases(g: Draw) -> Iterator[Case]:
    def case(
        when: str,
        B: int,
        L: int,
        *sizes: int,
        zero: tuple[str, ...] = (),
        size: float = 1.0,
        first: int = 0,
        step: int = 1,
        **more: Any,
    ) -> Case:
        """Draw a case; ``zero`` names the parameters that are 0."""
        names = ("embed_dim", "num_heads", "num_kv_heads", "hidden_dim")
        init: dict[str, Any] = dict(zip(names, sizes, strict=True))
        if "eps" in more:
            init["eps"] = more.pop("eps")
        state = {}
        for name, w in TransformerBlock(**init).state_dict().items():
            drawn = torch.randn(w.shape, generator=g)
            is_norm = name.endswith("norm")
            drawn = drawn / 2 + 1.5 if is_norm else drawn / w.shape[1] ** 0.5
            state[name] = drawn * (not name.startswith(zero) if zero else 1)
        x = torch.randn(B, L, sizes[0], generator=g) * size
        D = sizes[0] // sizes[1]
        at = first + step * torch.arange(L)
        cos, sin = rope_tables(at, rope_frequencies(D))
        return Case(when, (x, cos, sin), init=init, state=state, **more)

    no_attention = ("out_proj",)
    no_feed_forward = ("feed_forward.down_proj",)

    when = "both halves give 0, so that x passes through"
    yield case(when, 2, 3, 8, 2, 1, 5, zero=no_attention + no_feed_forward)

    when = "attention gives 0, so that the feed-forward is alone"
    yield case(when, 2, 3, 8, 2, 1, 5, zero=no_attention)
    yield case(when, 3, 1, 4, 1, 1, 7, zero=no_attention, size=4)

    when = "the feed-forward gives 0, and there is one token"
    yield case(when, 2, 1, 8, 2, 2, 5, zero=no_feed_forward, size=3)
    yield case(when, 3, 1, 12, 6, 3, 5, zero=no_feed_forward)

    when = "the feed-forward gives 0, and every query has its own key head"
    yield case(when, 2, 5, 12, 3, 3, 4, zero=no_feed_forward)

    when = "the feed-forward gives 0, and query heads share key heads"
    yield case(when, 2, 5, 24, 6, 3, 4, zero=no_feed_forward)
    yield case(when, 3, 4, 24, 4, 1, 4, zero=no_feed_forward)

    when = "the positions begin at 7"
    yield case(when, 2, 5, 16, 4, 2, 4, zero=no_feed_forward, first=7)

    # Every third one: attention does not change when all of them move.
    when = "it is called again, at positions with gaps"
    early, late = (
        case(when, 2, 5, 16, 4, 2, 4, zero=no_feed_forward, step=step)
        for step in (1, 3)
    )
    yield replace(late, state=early.state, before=(early,))

    when = "both halves work"
    yield case(when, 2, 5, 24, 6, 3, 10)
    yield case(when, 1, 7, 12, 3, 1, 20)
    yield case(when, 2, 3, 20, 10, 5, 6)
    yield case(when, 3, 4, 8, 2, 2, 6, size=5)

    when = "the block is in training mode"
    yield case(when, 2, 5, 24, 6, 3, 10, train=True)

    when = "eps counts"
    yield case(when, 2, 3, 8, 2, 1, 5, size=0.02, eps=0.01)
    yield case(when, 2, 3, 8, 2, 1, 5, eps=0.5)

    when = "axes have the same length"
    yield case(when, 2, 2, 8, 4, 2, 8)
    yield case(when, 4, 4, 16, 4, 2, 16)


def _passes(case: Case, out: Tensor) -> bool:
    """With both halves at 0, x is what remains."""
    state = case.state or {}
    halves = ("out_proj.weight", "feed_forward.down_proj.weight")
    if any(state[name].any() for name in halves):
        return True
    return torch.allclose(out, case.args[0])


exercise = Exercise(
    id="tfm-TransformerBlock",
    points=3,
    reference=TransformerBlock,
    cases=_cases,
    also=(
        views(),
        gradients(when="gradients flow back, to x and all parameters"),
        ones("B L"),
    ),
    given={"apply_rope": apply_rope},
    properties=(
        Property(
            "A block returns what it gets, one vector of E features for "
            "each token: the result has the shape of x.",
            lambda case, out: out.shape == case.args[0].shape,
        ),
        Property(
            "out_proj and down_proj are all zeros here: x should pass "
            "through untouched, and it does not. What is the residual "
            "stream, x or norm(x)?",
            _passes,
        ),
    ),
    breaks={
        "position 0": lambda c: c.args[1][0, 0] != 1,
        "S = 1": lambda c: c.args[0].shape[-2] > 1,
        "H = 1": lambda c: 1 < c.init["num_kv_heads"] < c.init["num_heads"],
        "L = S": lambda c: c.init["embed_dim"] != c.init["hidden_dim"],
        "weight = 1": lambda c: all(
            len(w.unique()) > 1 for w in c.state.values()
        ),
    },
)
