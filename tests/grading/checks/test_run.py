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


def test_an_error_of_pytorch_is_not_mistaken_for_a_stub():
    def bad(x):
        return torch.softmax(x.to(torch.complex64), -1)

    outcome = run(bad, CASE)
    assert type(outcome.error) is RuntimeError
    assert "softmax" in str(outcome.error)
    assert "complex64" in outcome.where


def test_an_error_names_the_learners_line():
    def bad(x):
        return x @ x  # the shapes do not fit

    assert "x @ x" in run(bad, CASE).where


def test_an_in_place_change_is_reported_and_leaves_the_case_unchanged():
    def changes_its_input(x):
        x += 1
        return x

    outcome = run(changes_its_input, CASE, names=["query"])
    assert outcome.side_effect.text == "it changes query in place"
    assert torch.equal(X, torch.arange(6.0).reshape(2, 3))


@pytest.mark.parametrize("change", [dict.popitem, dict.clear])
def test_a_dict_that_loses_an_entry_is_a_changed_input(change):
    def wrong(state):
        change(state)
        return torch.ones(2)

    case = Case("", ({"a.weight": torch.ones(2), "b": torch.zeros(2)},))
    outcome = run(wrong, case, names=["state"])
    assert outcome.side_effect.text == "it changes state in place"
    assert list(case.args[0]) == ["a.weight", "b"]


def test_an_entry_that_is_replaced_or_added_is_a_changed_input():
    def wrong(state, rows):
        state["b"] = rows[0] * 2
        rows[0] = rows[1]
        return state["b"]

    case = Case("", ({"a": torch.ones(2)}, [torch.ones(2), torch.ones(2)]))
    outcome = run(wrong, case, names=["state", "rows"])
    assert outcome.side_effect.text == "it changes rows, state in place"


@pytest.mark.parametrize(
    "change",
    [
        lambda pages, running: pages[0][1].pop(),
        lambda pages, running: pages.append(([4], [5])),
        lambda pages, running: pages[0][0].sort(),
        lambda pages, running: running.update(a=(2, 3)),
        lambda pages, running: running.pop("a"),
    ],
)
def test_numbers_in_lists_and_dicts_are_inputs_too(change):
    def used(*inputs):
        change(*inputs)
        return torch.ones(2)

    case = Case("", ([([3, 1], [7, 8])], {"a": (1, 3)}))
    effect = run(used, case, names=["pages", "running"]).side_effect
    assert effect.text in (
        "it changes pages in place",
        "it changes running in place",
    )
    assert case.args == ([([3, 1], [7, 8])], {"a": (1, 3)})


def test_numbers_in_lists_and_dicts_may_be_read():
    case = Case("", ([([3, 1], [7, 8])],), {"running": {"a": (1, 3.5, None)}})
    assert run(lambda x, running: x[0][0], case).side_effect is None


def test_a_copy_in_place_of_a_shared_tensor_is_reported():
    case = Case("", (torch.ones(2),), one_tensor=("b.w", "a.w"))

    def effect(second):
        return run(lambda x: {"a.w": x, "b.w": second(x)}, case).side_effect

    assert effect(lambda x: x) is effect(lambda x: x.view(2)) is None
    two = "b.w and a.w are two tensors with equal numbers, not one"
    assert effect(torch.clone).text == two


def test_an_expanded_input_is_copied_with_its_strides():
    x = torch.zeros(1, 3).expand(4, 3)
    copy = copy_tensor(x)
    assert copy.stride() == x.stride()
    assert copy.data_ptr() != x.data_ptr()


def test_gradients_reach_inputs_and_parameters():
    state = {"weight": torch.ones(2, 3), "bias": torch.zeros(2)}
    init = {"in_features": 3, "out_features": 2}
    case = Case("a layer", (X,), init=init, state=state, grad=True)
    grads = run(nn.Linear, case).grads
    assert set(grads) == {"args.0", "weight", "bias"}


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


def test_a_training_case_may_draw_the_same_random_numbers_each_time():
    before = torch.get_rng_state()
    case = Case("training", (X,), train=True)
    first, second = (run(torch.rand_like, case) for _ in range(2))
    assert not first.side_effect
    assert torch.equal(first.output, second.output)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_constant_result_of_zeros_has_a_gradient_of_zero():
    case = Case("any", (torch.ones(3),), grad=True)
    outcome = run(torch.zeros_like, case)
    assert outcome.error is None
    assert not outcome.grads["args.0"].any()


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
