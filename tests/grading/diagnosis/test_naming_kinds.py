"""A kind of mistake is named in any exercise, without a list."""

import re

import pytest
import torch
import torch.nn.functional as F

from attn.exercises.spec import every_exercise, find
from attn.grading.diagnosis import kinds, mutants
from attn.grading.diagnosis.judge import judge
from attn.grading.diagnosis.naming import KINDS
from tests.grading.diagnosis.own_mistakes import with_mistakes


def _view(x):
    x = x.transpose(-2, -3)
    return x.view(*x.shape[:-2], -1)


def _four_axes(x):
    B, H, L, D = x.shape
    return x.transpose(-2, -3).flatten(-2)


def _in_place(x):
    y = x.transpose(-2, -3).flatten(-2)
    x.zero_()
    return y


def _merged(x):
    return x.transpose(-2, -3).flatten(-2)


ANSWERS = {
    "view": _view,
    "axes_counted": _four_axes,
    "in_place": _in_place,
    "nothing_returned": lambda x: None,
    "no_gradient": lambda x: _merged(x).detach(),
    "wrong_dtype": lambda x: _merged(x).double(),
    "axes_of_one": lambda x: _merged(x).unsqueeze(0),
    "random": lambda x: F.dropout(_merged(x)),
    "another_type": lambda x: _merged(x).tolist(),
    "factor": lambda x: _merged(x) * 3,
    "flipped": lambda x: _merged(x).flip(-1),
    "never_written": lambda x: (
        torch.empty_like(_merged(x)).clone()
        if x.requires_grad is False
        else _merged(x)
    ),
    "all_zero": lambda x: _merged(x) * 0,
}


@pytest.mark.parametrize("key", ANSWERS)
def test_a_kind_of_mistake_is_named_in_any_exercise(key):
    exercise = with_mistakes("mha-merge_heads")
    verdict = judge(exercise, ANSWERS[key])
    name, _ = kinds.lines()[key]
    pattern = re.sub(r"\\{\w+\\}", ".+", re.escape(name))
    assert re.match(pattern, verdict.mistake or ""), verdict.message


def test_every_kind_has_a_line_that_asks_a_question():
    lines = kinds.lines()
    assert KINDS.keys() <= lines.keys()
    for name, why in lines.values():
        assert why.endswith("?"), name
        assert len(name) <= 70


def test_a_change_of_the_solution_has_a_line_and_shows_no_code():
    seen = set()
    for exercise in every_exercise():
        if not exercise.launch:
            seen |= {m.kind for m in mutants.mutants(exercise)}
    assert seen <= kinds.lines().keys()
    assert len(seen) > 15


def test_a_finite_number_in_the_place_of_inf_is_named():
    def low(scores, mask):
        weights = scores.masked_fill(~mask, -10.0).softmax(-1)
        return weights.masked_fill(~mask.any(-1, keepdim=True), 0.0)

    verdict = judge(find("mask-apply_mask"), low)
    assert verdict.mistake == "A finite number where -inf is meant"
