"""Exercise ``sdp-SelfAttention``: the first module."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from attn import functional
from attn.exercises.spec import Case, Exercise, Property


class SelfAttention(nn.Module):
    """The reference: one head, from three maps and ``attn``."""

    def __init__(self, embed_dim: int, head_dim: int):
        super().__init__()
        self.q_proj = nn.Linear(embed_dim, head_dim, bias=False)
        self.k_proj = nn.Linear(embed_dim, head_dim, bias=False)
        self.v_proj = nn.Linear(embed_dim, head_dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        return functional.scaled_dot_product_attention(q, k, v)


def _cases(g: Generator) -> Iterator[Case]:
    def case(
        stage: str,
        *shape: int,
        D: int = 8,
        grad: bool = False,  # noqa: N803
    ) -> Case:
        x = torch.randn(*shape, generator=g)
        return _case(stage, x, _state(g, shape[-1], D), grad)

    stage = "there is one token, so only its value counts"
    yield case(stage, 1, 6)
    yield case(stage, 3, 1, 4)

    stage = "q_proj is zero, so the result is the mean of the values"
    state = _state(g, 6, 8)
    state["q_proj.weight"].zero_()
    yield _case(stage, torch.randn(5, 6, generator=g), state)

    stage = "there is one sequence: two axes"
    yield case(stage, 3, 6)
    yield case(stage, 7, 5, D=9)
    yield case(stage, 5, 12, D=4)

    stage = "there is a batch: three axes"
    yield case(stage, 2, 5, 6)
    yield case(stage, 1, 4, 3, D=16)

    stage = "there is a batch of batches: four axes"
    yield case(stage, 2, 3, 4, 5)

    stage = "axes have the same length"
    yield case(stage, 4, 4, D=4)
    yield case(stage, 3, 3, 3, D=3)

    stage = "the scores are large"
    yield _large(stage, g)

    stage = "x is a view of another tensor"
    x = torch.randn(4, 6, 2, generator=g).permute(2, 0, 1)
    yield _case(stage, x, _state(g, 6, 8))

    stage = "gradients flow back, to x and to the three matrices"
    yield case(stage, 2, 4, 6, D=5, grad=True)
    yield case(stage, 3, 5, D=7, grad=True)


def _state(g: Generator, embed: int, head: int) -> dict[str, Tensor]:
    return {
        f"{name}_proj.weight": torch.randn(head, embed, generator=g) * 0.7
        for name in "qkv"
    }


def _case(
    stage: str, x: Tensor, state: dict[str, Tensor], grad: bool = False
) -> Case:
    head, embed = state["q_proj.weight"].shape
    init = {"embed_dim": embed, "head_dim": head}
    return Case(stage, (x,), init=init, state=state, grad=grad)


def _large(stage: str, g: Generator) -> Case:
    """Scores above 1000 that are exact in float32 and never tie: feature 0
    of a token is its query, features 1 to 4 its key."""
    state = {f"{n}_proj.weight": torch.zeros(4, 5) for n in "qkv"}
    state["q_proj.weight"][:, 0] = 32
    state["k_proj.weight"][:, 1:] = torch.eye(4) * 32
    state["v_proj.weight"] = torch.randint(-3, 4, (4, 5), generator=g).float()
    x = torch.randint(1, 5, (2, 3, 5), generator=g).float()
    x[:, :, 1:] = torch.randint(1, 5, (2, 1, 4), generator=g).float()
    x[:, :, 1:] += torch.randperm(3, generator=g)[:, None]
    x[1, :, 0] *= -1
    return _case(stage, x, state)


def _one_row_each(case: Case, out: Tensor) -> bool:
    return out.shape[:-1] == case.args[0].shape[:-1]


exercise = Exercise(
    id="sdp-SelfAttention",
    points=3,
    reference=SelfAttention,
    cases=_cases,
    hints=(
        "In __init__ make three nn.Linear with the names that the task "
        "gives; in forward call each of them on x. The same x: that is the "
        "self in self-attention.",
        "nn.Linear(embed_dim, head_dim, bias=False) takes the last axis "
        "from E to D and leaves the others alone, so any number of leading "
        "axes works. D, for the scale, is the last axis of the queries.",
        "forward makes q, k and v with self.q_proj(x), self.k_proj(x) and "
        "self.v_proj(x), and ends in the function that you wrote two "
        "exercises ago.",
    ),
    properties=(
        Property(
            "Each token must get one row of D numbers: compare the shape of "
            "the result with that of x.",
            _one_row_each,
        ),
    ),
)

Forward = Callable[[Tensor, Tensor, Tensor, Tensor], Any]


def _head(forward: Forward, bias: bool = False) -> type[nn.Module]:
    """A SelfAttention whose forward is ``forward(x, q, k, v)``."""

    class Head(nn.Module):
        def __init__(self, embed_dim: int, head_dim: int):
            super().__init__()
            self.q_proj = nn.Linear(embed_dim, head_dim, bias=bias)
            self.k_proj = nn.Linear(embed_dim, head_dim, bias=bias)
            self.v_proj = nn.Linear(embed_dim, head_dim, bias=bias)

        def forward(self, x: Tensor) -> Any:
            q, k, v = self.q_proj(x), self.k_proj(x), self.v_proj(x)
            return forward(x, q, k, v)

    Head.__doc__ = forward.__doc__
    return Head


def _wrong(name: str, *, exposed_by: str) -> Callable[[Forward], Any]:
    """Record a wrong forward; its docstring is the explanation."""

    def record(forward: Forward) -> Any:
        return exercise.misconception(name, exposed_by=exposed_by)(
            _head(forward)
        )

    return record


def _attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    divisor: float | None = None,
    dim: int = -1,
) -> Tensor:
    scores = q @ k.mT / (q.shape[-1] ** 0.5 if divisor is None else divisor)
    return torch.softmax(scores, dim) @ v


@_wrong(
    "scaled by embed_dim, not by head_dim", exposed_by="E and D that differ"
)
def by_embedding(x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The scale uses the width of a token; with several heads that is H
    times the width of a query, and the attention comes out too even. Many
    published models had this and trained all the same. Which vectors meet
    in the dot product, and how long are they?"""
    return _attend(q, k, v, x.shape[-1] ** 0.5)


@_wrong("the scores are not scaled", exposed_by="D = 8")
def no_scale(x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The scores grow with sqrt(D), and the softmax picks one token where it
    should weigh them all. Does your own attention function not scale by
    itself? Do you call it?"""
    return _attend(q, k, v, 1.0)


@_wrong("scaled by D, not by its root", exposed_by="D = 8")
def by_width(x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Dividing by head_dim makes the attention too even. The variance of a
    score is D: and its standard deviation?"""
    return _attend(q, k, v, q.shape[-1])


@_wrong("scaled twice", exposed_by="D = 8")
def scaled_twice(x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The scores are divided by D in all: once by you, and once more by the
    attention function, which scales by itself (or by head_dim where its
    root was meant). What does attention do when scale is not given?"""
    return _attend(q, k, v, q.shape[-1] ** 1.5)


@_wrong(
    "scaled by the length of the sequence", exposed_by="L and D that differ"
)
def by_length(x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """x.shape[-2] is L. A long text would be read with another temperature
    than a short one. How many terms does one dot product add?"""
    return _attend(q, k, v, x.shape[-2] ** 0.5)


@_wrong("the keys come from q_proj", exposed_by="any two tokens")
def keys_from_queries(x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Queries and keys are the same vectors, so every score is symmetric: a
    token asks for exactly what it offers, and k_proj never gets a
    gradient. Which layer makes the keys?"""
    return _attend(q, q, v)


@_wrong("the queries come from k_proj", exposed_by="any two tokens")
def queries_from_keys(x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Queries and keys are the same vectors, and q_proj never gets a
    gradient. Which layer makes the queries?"""
    return _attend(k, k, v)


@_wrong("the values come from k_proj", exposed_by="one token")
def values_from_keys(x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The keys are mixed, so v_proj never gets a gradient: what a token is
    found by and what it hands over are the same again. Which of the three
    layers is not used?"""
    return _attend(q, k, k)


@_wrong("the values come from q_proj", exposed_by="one token")
def values_from_queries(x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The queries are mixed, so v_proj never gets a gradient. Which of the
    three layers is not used?"""
    return _attend(q, k, q)


@_wrong("the values are not projected", exposed_by="E and D that differ")
def raw_values(x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The weights mix x itself, so the result has E features and v_proj is
    never used. When E = D no shape complains. What should a token hand
    over: all of x, or what v_proj makes of it?"""
    return _attend(q, k, x)


@_wrong("nothing is projected", exposed_by="one token")
def no_projection(x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """x plays all three parts, and there is nothing to learn: a token
    attends most to tokens that are like itself. Where do q_proj, k_proj and
    v_proj come in?"""
    return _attend(x, x, x)


@_wrong("the softmax runs over the queries", exposed_by="any two tokens")
def over_queries(x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """dim=-2: each key hands out a total of 1, so the result of a token
    depends on what the others ask. Add up the weights of one token: what
    do you get, and what should it be?"""
    return _attend(q, k, v, dim=-2)


@_wrong("softmax with dim=1 in every case", exposed_by="three axes")
def hard_dim_one(x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Axis 1 holds the keys for one sequence and the queries for a batch.
    Counted from which end do the keys keep their place?"""
    return _attend(q, k, v, dim=1)


@_wrong("softmax over the first axis", exposed_by="a batch of one token each")
def over_batch(x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """dim=0 is the batch: what a sequence gets depends on the others that
    happen to be in the batch, and at batch size 1 every weight is 1. Which
    axis of the scores are the keys?"""
    return _attend(q, k, v, dim=0)


@_wrong("softmax with dim=2 in every case", exposed_by="two or four axes")
def hard_dim_two(x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Axis 2 holds the keys for a batch; a single sequence has no axis 2,
    and with four axes it holds the queries. Counted from which end do the
    keys keep their place?"""
    return _attend(q, k, v, dim=2)


@_wrong("queries and keys have changed places", exposed_by="any two tokens")
def transposed(x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The scores are k times q transposed: row i holds what all others ask
    of token i. In self-attention both are L by L, so no shape complains.
    Row i should belong to query i: which factor comes first?"""
    return _attend(k, q, v)


@_wrong("k.T, which reverses all axes", exposed_by="a batch")
def all_axes_reversed(x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """.T turns the order of all axes around, the batch included. For one
    sequence that is what you want. Which of .T, .mT and transpose(-2, -1)
    swap the last two only?"""
    reverse = k.permute(*range(k.dim() - 1, -1, -1))
    return torch.softmax(q @ reverse / q.shape[-1] ** 0.5, -1) @ v


@_wrong("k.transpose(1, 2) in every case", exposed_by="two or four axes")
def fixed_transpose(x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Axes 1 and 2 are the last two only when there are three: one sequence
    alone breaks. How do you name the last two axes from the end?"""
    scores = q @ k.transpose(1, 2) / q.shape[-1] ** 0.5
    return torch.softmax(scores, -1) @ v


@_wrong("no softmax", exposed_by="one token")
def no_softmax(x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The raw scores multiply the values, so the result grows with the
    length of the sequence. What turns scores into weights?"""
    return q @ k.mT / q.shape[-1] ** 0.5 @ v


@_wrong("the weights come back too", exposed_by="any input: a tuple of two")
def weights_too(x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Any:
    """forward returns the output and the weights; asked for is the output
    alone, so that layers can be put one after the other. What does the
    Returns line say?"""
    weights = torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1)
    return weights @ v, weights


@_wrong("the input is added to the result", exposed_by="E equal to D")
def residual(x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """x + attention is what the block around this layer does (chapter 09);
    with E and D that differ it cannot even be added. What does the task
    say that forward returns?"""
    return x + _attend(q, k, v)


@exercise.misconception(
    "the projections have a bias", exposed_by="loading the weights"
)
class WithBias(nn.Module):
    """nn.Linear adds a bias unless you say otherwise, so the module has three
    parameters more than the weights that the check loads. Llama's maps have
    none, BERT's have one: a checkpoint fits only the layer it was made
    for. Which argument of nn.Linear turns it off?"""

    def __init__(self, embed_dim: int, head_dim: int):
        super().__init__()
        self.q_proj = nn.Linear(embed_dim, head_dim)
        self.k_proj = nn.Linear(embed_dim, head_dim)
        self.v_proj = nn.Linear(embed_dim, head_dim)

    def forward(self, x: Tensor) -> Tensor:
        return _attend(self.q_proj(x), self.k_proj(x), self.v_proj(x))


def _right(style: str) -> Callable[[Forward], Any]:
    return lambda forward: exercise.equivalent(style)(_head(forward))


@_right("torch's own function")
def _sdpa(x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v)


@_right("einsum, the query scaled")
def _einsum(x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q = q * q.size(-1) ** -0.5
    weights = torch.einsum("...id,...jd->...ij", q, k).softmax(-1)
    return torch.einsum("...ij,...jd->...id", weights, v)


@_right("token by token")
def _tokens(x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    rows = []
    for i in range(x.shape[-2]):
        scores = (q[..., i, None, :] * k).sum(-1) / q.shape[-1] ** 0.5
        weights = scores.softmax(-1)
        rows.append((weights[..., None] * v).sum(-2))
    return torch.stack(rows, -2)


@exercise.equivalent("the weights used as matrices, softmax by hand")
class _Matrices(nn.Module):
    def __init__(self, embed_dim: int, head_dim: int, dropout: float = 0.0):
        super().__init__()
        for name in ("v_proj", "k_proj", "q_proj"):
            layer = nn.Linear(embed_dim, head_dim, bias=False)
            setattr(self, name, layer)
        self.scale = 1 / head_dim**0.5
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        wq, wk = self.q_proj.weight, self.k_proj.weight  # type: ignore
        scores = x @ (wq.T @ wk) @ x.transpose(-2, -1) * self.scale
        exps = (scores - scores.amax(-1, keepdim=True).detach()).exp()
        weights = self.dropout(exps / exps.sum(-1, keepdim=True))
        return self.v_proj(weights @ x)
