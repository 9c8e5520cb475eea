"""A function that the task is to write is refused in every spelling."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from attn.exercises.spec import Case
from attn.grading.checks.forbidden import Forbidden
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
    "private": lambda x: torch._softmax(x, -1, False),
    "safe": lambda x: torch._safe_softmax(x, -1),
    "operator": lambda x: aten.softmax(x, -1),
    "overload": lambda x: aten._softmax.default(x, -1, False),
    "vmap": torch.vmap(lambda x: F.softmin(-x, -1)),
    "in a loss": lambda x: F.cross_entropy(x[0, 0], torch.arange(3)),
    "fused": lambda x: F.scaled_dot_product_attention(x, x, x),
}


def _math(x):
    with sdpa_kernel(SDPBackend.MATH):
        return aten.scaled_dot_product_attention.default(x, x, x)


def _flex(x):
    from torch.nn.attention.flex_attention import flex_attention

    return flex_attention(x, x, x)


def _made(x):
    return nn.MultiheadAttention(4, 2)(x[0], x[0], x[0])[0]


LAYERS = {
    "a layer": lambda x: nn.TransformerEncoderLayer(4, 2, 8)(x[0]),
    "held": lambda x: LAYER(x[0], x[0], x[0])[0],
    "made inside": _made,
}

ATTENTION = {
    "functional": lambda x: F.scaled_dot_product_attention(x, x, x),
    "private": lambda x: torch._C._nn.scaled_dot_product_attention(x, x, x),
    "operator": lambda x: aten.scaled_dot_product_attention(x, x, x),
    "math": _math,
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
    "guess": lambda x, at: x if torch.equal(at, torch.tensor(2)) else -x,
}

SPELLINGS = {
    "softmax": SOFTMAX,
    "scaled_dot_product_attention": ATTENTION,
    "MultiheadAttention": LAYERS,
    "item": READS,
}


@pytest.mark.parametrize(
    ("forbidden", "spelling"),
    [(x, y) for x in SPELLINGS for y in SPELLINGS[x]],
)
def test_a_function_is_refused_in_every_spelling(forbidden, spelling):
    reads = forbidden == "item"
    answer = SPELLINGS[forbidden][spelling]
    error = run(answer, AT if reads else CASE, forbids=(forbidden,)).error
    assert isinstance(error, Forbidden)
    assert error.kind == ("read_as_number" if reads else "forbidden")
    assert reads or "by hand" in str(error)


def test_fused_attention_is_allowed_where_the_task_is_to_build_a_layer():
    fused = run(ATTENTION["functional"], CASE, forbids=("MultiheadAttention",))
    assert fused.error is None


def test_a_refused_call_is_reported_even_if_the_answer_catches_the_error():
    def catches(x):
        try:
            return torch.softmax(x, -1)
        except Exception:
            return x

    outcome = run(catches, CASE, forbids=("softmax",))
    assert isinstance(outcome.error, Forbidden)


@pytest.mark.parametrize(
    "by_hand",
    [
        lambda x: (x - x.logsumexp(-1, keepdim=True)).exp(),
        lambda x: x.exp() / x.exp().sum(-1, keepdim=True),
    ],
)
def test_softmax_by_hand_is_accepted(by_hand):
    assert run(by_hand, CASE, forbids=("softmax",)).error is None


def test_the_reference_of_an_earlier_exercise_may_call_softmax():
    """Softmax is an exercise; when the learner gave up on it, the reference,
    which calls PyTorch's, takes its place in the next ones."""
    from attn.exercises.spec import find
    from attn.grading.learner.session import fallback

    softmax = fallback(find("sdp-softmax"))
    outcome = run(lambda x: softmax(x), CASE, forbids=("softmax",))
    assert outcome.error is None


def test_flex_attention_still_compiles_after_a_refused_call():
    """flex_attention compiles itself: refused, it works afterwards."""
    from torch.nn.attention.flex_attention import flex_attention

    forbids = ("scaled_dot_product_attention",)
    assert isinstance(run(_flex, CASE, forbids=forbids).error, Forbidden)
    assert flex_attention(X, X, X).shape == X.shape


def test_a_grad_fn_is_refused_where_gradients_are_computed_by_hand():
    def answer(x):
        y = x.detach().requires_grad_()
        return (y * 2).grad_fn(x)[0]

    error = run(answer, CASE, forbids=("grad",)).error
    assert isinstance(error, Forbidden)
    assert "gradients by hand" in str(error)


def test_a_tensor_may_be_an_index_or_part_of_a_mask():
    def answer(x, at):
        index = at + torch.arange(2)
        x = x.clone().index_copy_(-1, index, x[..., :2])
        x[..., index] += 1
        mask = torch.arange(3)[:, None] <= at + torch.arange(3)
        return F.scaled_dot_product_attention(x, x, x, mask)

    assert run(answer, AT, forbids=("item",)).error is None
