"""A learner's code may do anything: the run survives and records a result."""

import warnings
from collections import OrderedDict
from decimal import Decimal
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.attention.bias import causal_lower_right

from attn.exercises.outcome import Forbidden
from attn.exercises.spec import Case, find
from attn.grading.checks.inputs import copy_tensor
from attn.grading.checks.result import Foreign, plain
from attn.grading.checks.run import run
from attn.grading.diagnosis.judge import judge

X = torch.arange(6.0).reshape(2, 3)
CASE = Case("anything", (X,))


def test_prints_and_warnings_are_captured(capfd):
    def noisy(x):
        print("debugging", x.shape)
        warnings.warn("careful", stacklevel=1)
        return x

    outcome = run(noisy, CASE)
    assert "debugging" in outcome.printed
    assert torch.equal(outcome.output, X)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "error", [ValueError("no"), SystemExit(), KeyboardInterrupt()]
)
def test_an_error_raised_by_the_answer_is_returned(error):
    def bad(x):
        raise error

    assert run(bad, CASE).error is error


def test_an_error_of_pytorch_is_told_with_the_learners_line():
    def bad(x):
        return torch.softmax(x.to(torch.complex64), -1)

    outcome = run(bad, CASE)
    assert type(outcome.error) is RuntimeError
    assert "softmax" in str(outcome.error)
    assert "complex64" in outcome.where


def test_an_expanded_input_is_copied_with_its_strides():
    x = torch.zeros(1, 3).expand(4, 3)
    copy = copy_tensor(x)
    assert copy.stride() == x.stride()
    assert copy.data_ptr() != x.data_ptr()


def test_a_backward_of_the_answers_own_may_not_call_what_is_forbidden():
    class Weights(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.exp() / x.exp().sum(-1, keepdim=True)

        @staticmethod
        def backward(ctx, grad):
            with torch.enable_grad():
                x = ctx.saved_tensors[0].detach().requires_grad_()
                return torch.autograd.grad(x.softmax(-1), x, grad)

    case = Case("anything", (X,), grad=True)
    assert run(Weights.apply, case).error is None
    outcome = run(Weights.apply, case, forbids=("softmax",))
    assert isinstance(outcome.error, Forbidden)


def ones(L, S):
    return torch.ones(L, S, dtype=torch.bool)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda L, S: causal_lower_right(L, S), "CausalBias"),
        (lambda L, S: ones(L, S).to_sparse(), "the layout sparse_coo"),
        (lambda L, S: torch.nested.nested_tensor([X]), "a nested tensor"),
        (lambda L, S: (row for row in ones(L, S)), "a generator"),
        (lambda L, S: ones(L, S).to("meta"), "is on meta, not cpu"),
        (lambda L, S: (ones(L, S), None), "tuple"),
        (lambda L, S: None, "is None (was there a return?)"),
        (lambda L, S: ones(S + 1, L), "has shape"),
    ],
)
def test_the_message_names_the_kind_of_object_returned(answer, words):
    message = judge(find("sdpa-causal_lower_right"), answer).message
    assert words in message
    assert "raised" not in message and "\n  got" not in message


def test_sampled_ids_are_compared_by_their_frequencies():
    case = Case("draws", (torch.zeros(6, 3),), train=True, shares=(2, 3))
    ids = torch.tensor([0, 0, 2, 1, 1, 1])
    shares = torch.tensor([[2, 0, 1], [0, 3, 0]]) / 3
    assert torch.equal(run(lambda x: ids, case).output, shares)
    for other in (ids.int(), ids[:, None], ids[:5], ids + 1, ids - 1):
        assert torch.equal(run(lambda x, y=other: y, case).output, other)


def test_each_run_gets_a_fresh_copy_of_the_generator():
    case = Case("draws", (torch.Generator().manual_seed(5),))

    def draw(generator):
        return torch.rand(3, generator=generator)

    first, again = (run(draw, case).output for _ in range(2))
    assert torch.equal(first, again)


class Pair(NamedTuple):
    first: int
    second: int


class Marked(torch.Tensor):
    pass


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (Pair(1, 2), (1, 2)),
        (torch.Size([2, 3]), (2, 3)),
        (OrderedDict(a=[np.float64(0.5)]), {"a": [0.5]}),
        ({(1, 2): None, "b": range(2)}, {(1, 2): None, "b": range(2)}),
        (np.float64(0.5), 0.5),
        (np.int32(3), 3),
        (np.bool_(True), True),
        (Decimal(4), Foreign("a Decimal")),
        ({"x"}, Foreign("a set")),
        (
            torch.ones(2).as_subclass(Marked),
            Foreign("a tensor of the class Marked"),
        ),
        (np.ones(2), Foreign("a NumPy array", "of shape (2,)")),
    ],
    ids=lambda x: type(x).__name__,
)
def test_a_result_is_plain_or_named_as_foreign(result, expected):
    found = plain([result, {"key": result}])
    assert found == [expected, {"key": expected}]
    assert type(found[0]) is type(expected)


def test_random_rows_can_be_compared_by_their_largest_elements():
    case = Case("dropout", (torch.ones(400, 3),), train=True, largest_over=-2)
    first = run(lambda x: nn.functional.dropout(x, 0.2), case)
    other = run(lambda x: x * (torch.rand(x.shape) > 0.2) / 0.8, case)
    assert torch.equal(first.output, torch.full((3,), 1.25))
    assert torch.equal(first.output, other.output)
    assert run(lambda x: x.sum(), case).output == 1200  # no such axis


def test_gradients_switched_off_by_an_answer_are_on_again_after_it():
    def off(x):
        torch.set_grad_enabled(False)
        return x * 2

    outcome = run(off, Case("gradients", (X,), grad=True))
    assert "no gradient flows back" in str(outcome.error)
    assert torch.is_grad_enabled()
    with torch.no_grad():  # where check() is called does not matter
        right = run(lambda x: x * 2, Case("gradients", (X,), grad=True))
    assert set(right.grads) == {"args.0"}


def test_a_constant_result_of_zeros_has_a_gradient_of_zero():
    case = Case("any", (torch.ones(3),), grad=True)
    outcome = run(torch.zeros_like, case)
    assert outcome.error is None
    assert not outcome.grads["args.0"].any()
