"""A learner's code may do anything: the run survives and records it."""

import warnings

import pytest
import torch
from torch import nn

from attn.exercises.spec import Case
from attn.grading.checks.forbidden import Forbidden
from attn.grading.checks.inputs import copy_tensor
from attn.grading.checks.run import run

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


def test_a_module_is_built_loaded_and_put_in_the_right_mode():
    class Echo(nn.Module):
        def __init__(self, size):
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(size))

        def forward(self, x):
            return x + self.weight + 10 * self.training

    state = {"weight": torch.ones(3)}
    for train in (False, True):
        case = Case("a", (X,), init={"size": 3}, state=state, train=train)
        assert torch.equal(run(Echo, case).output, X + 1 + 10 * train)


def test_an_error_of_the_answers_own_carries_no_result():
    class OutOfBounds(IndexError):
        output = X

    def bad(x):
        raise OutOfBounds("it reads x[9]")

    assert run(bad, CASE).output is None


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
