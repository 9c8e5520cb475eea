"""A result and the expected one are shown so that they differ."""

import torch

from attn.exercises.spec import find
from attn.grading.checks.compare import differences
from attn.grading.checks.show import difference_lines, distinct_texts
from attn.grading.diagnosis.judge import judge


def shown(got, expected):
    (problem,) = differences(got, expected, expected)
    return difference_lines(problem.wrong, problem.got, problem.expected)


def test_two_numbers_are_shown_with_enough_digits_to_differ():
    assert distinct_texts(0.5, 0.25) == ("0.5", "0.25")
    assert distinct_texts(0.18501, 0.18502) == ("0.18501", "0.18502")
    assert distinct_texts(1.0, 1.0 + 1e-15) == ("1", "1.0000000000000011")


def test_the_elements_that_differ_are_listed_with_their_index():
    expected = torch.arange(24.0).view(2, 3, 4)
    got = expected.clone()
    got[1, 2, 1] = got[1, 2, 3] = 7.5
    assert shown(got, expected)[:3] == [
        "  at        [1, 2, 1]  [1, 2, 3]",
        "  got       7.5        7.5",
        "  expected  21         23",
    ]


def test_a_mask_is_a_grid_with_the_differences_marked():
    expected = torch.ones(3, 4).tril().bool()
    got = torch.ones(3, 4).tril(1).bool()
    got[2, 0] = False
    lines = shown(got, expected)
    assert lines[2:] == [
        "     0  # + . .",
        "     1  # # + .",
        "     2  - # # +",
    ]


def test_a_large_mask_is_shown_around_its_first_difference():
    expected = torch.ones(2, 40, 300).tril().bool()
    got = expected.clone()
    got[1, 30, 200] = True
    lines = shown(got, expected)
    assert "matrix at [1], a part" in lines[0]
    assert any("30" in line and "+" in line for line in lines)
    assert len(lines) <= 10
    assert max(map(len, lines)) <= 76


def test_a_wrong_gradient_is_shown_as_a_gradient():

    def softmax(x, dim=-1):
        e = torch.exp(x - x.amax(dim, keepdim=True))
        return e / e.sum(dim, keepdim=True).detach()

    message = judge(find("sdp-softmax"), softmax).details
    lines = message.splitlines()
    got = [x.split()[1:] for x in lines if x.startswith("  got ")]
    expected = [x.split()[1:] for x in lines if x.startswith("  expected ")]
    assert "the gradient of" in message
    assert got and got != expected
