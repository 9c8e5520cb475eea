"""A function that the task is to write is refused in any usual spelling."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from attn.exercises.outcome import Forbidden
from attn.exercises.spec import Case, find
from attn.grading.checks.failures import fallback
from attn.grading.checks.run import run

X = torch.arange(24.0).reshape(1, 2, 3, 4)
CASE = Case("anything", (X,))
AT = Case("anything", (X, torch.tensor(2)))
LAYER = nn.MultiheadAttention(4, 2)
aten = torch.ops.aten

SOFTMAX = {
    "torch": lambda x: torch.softmax(x, -1),
    "method": lambda x: x.softmax(-1),
    "functional": lambda x: F.softmax(x, -1),
    "module": lambda x: nn.Softmax(-1)(x),
    "special": lambda x: torch.special.softmax(x, -1),
    "log": lambda x: F.log_softmax(x, -1).exp(),
    "minimum": lambda x: F.softmin(-x, -1),
    "two axes": lambda x: nn.Softmax2d()(x),
    "operator": lambda x: aten.softmax(x, -1),
    "vmap": torch.vmap(lambda x: F.softmin(-x, -1)),
    "in a loss": lambda x: F.cross_entropy(x[0, 0], torch.arange(3)),
    "fused": lambda x: F.scaled_dot_product_attention(x, x, x),
}


def _flex(x):
    from torch.nn.attention.flex_attention import flex_attention

    return flex_attention(x, x, x)


def _made(x):
    return nn.MultiheadAttention(4, 2)(x[0], x[0], x[0])[0]


def _caught(x):
    try:
        return torch.softmax(x, -1)
    except Exception:
        return x


def _grad_fn(x):
    y = x.detach().requires_grad_()
    return (y * 2).grad_fn(x)[0]


LAYERS = {
    "a layer": lambda x: nn.TransformerEncoderLayer(4, 2, 8)(x[0]),
    "held": lambda x: LAYER(x[0], x[0], x[0])[0],
    "made inside": _made,
}

ATTENTION = {
    "functional": lambda x: F.scaled_dot_product_attention(x, x, x),
    "operator": lambda x: aten.scaled_dot_product_attention(x, x, x),
    "vmap": torch.vmap(lambda x: F.scaled_dot_product_attention(x, x, x)),
    "flex": _flex,
    **LAYERS,
}

READS = {
    "int": lambda x, at: x[..., : int(at)],
    "item": lambda x, at: x[..., : at.item()],
    "list": lambda x, at: x[..., : at.reshape(1).tolist()[0]],
    "slice": lambda x, at: x[..., :at],
    "range": lambda x, at: x[..., torch.arange(at)],
    "if": lambda x, at: x if at > 1 else -x,
    "array": lambda x, at: x[..., : int(at.numpy())],
    "length": lambda x, at: x[..., : len((torch.arange(4) < at).nonzero())],
    "split": lambda x, at: x.tensor_split(at.reshape(1), -1)[0],
    "guess": lambda x, at: x if torch.equal(at, torch.tensor(2)) else -x,
}

SPELLINGS = {
    "softmax": {**SOFTMAX, "and the error is caught": _caught},
    "scaled_dot_product_attention": ATTENTION,
    "MultiheadAttention": LAYERS,
    "item": READS,
    "grad": {"grad_fn": _grad_fn},
}
EVERY = [(x, y) for x in SPELLINGS for y in SPELLINGS[x]]


@pytest.mark.parametrize(("forbidden", "spelling"), EVERY)
def test_a_function_is_refused_in_any_usual_spelling(forbidden, spelling):
    reads = forbidden == "item"
    answer = SPELLINGS[forbidden][spelling]
    error = run(answer, AT if reads else CASE, forbids=(forbidden,)).error
    assert isinstance(error, Forbidden)
    assert error.kind == ("read_as_number" if reads else "forbidden")
    assert reads or "by hand" in str(error)


def test_flex_attention_still_compiles_after_a_refused_call():
    """flex_attention compiles itself: refused, it works afterwards."""
    from torch.nn.attention.flex_attention import flex_attention

    forbids = ("scaled_dot_product_attention",)
    assert isinstance(run(_flex, CASE, forbids=forbids).error, Forbidden)
    assert flex_attention(X, X, X).shape == X.shape


def _index_and_mask(x, at):
    index = at + torch.arange(2)
    x = x.clone().index_copy_(-1, index, x[..., :2])
    x[..., index] += 1
    mask = torch.arange(3)[:, None] <= at + torch.arange(3)
    return F.scaled_dot_product_attention(x, x, x, mask)


#: A learner gave up on it: the reference, which calls PyTorch's softmax,
#: takes its place in the next exercises.
GIVEN_UP = fallback(find("sdp-softmax"))


@pytest.mark.parametrize(
    ("forbidden", "answer"),
    [
        ("softmax", lambda x: (x - x.logsumexp(-1, keepdim=True)).exp()),
        ("softmax", lambda x: x.exp() / x.exp().sum(-1, keepdim=True)),
        ("softmax", lambda x: GIVEN_UP(x)),
        ("MultiheadAttention", ATTENTION["functional"]),
        ("item", _index_and_mask),
    ],
)
def test_what_is_not_forbidden_is_accepted(forbidden, answer):
    case = AT if forbidden == "item" else CASE
    assert run(answer, case, forbids=(forbidden,)).error is None
