"""A result is right up to rounding, and a wrong one is shown with it."""

import pytest
import torch

from attn.grading.checks.compare import Part, alike, differences
from attn.grading.checks.show import difference_lines, distinct_texts
from tests.grading.diagnosis.own_mistakes import judged

EXACT = torch.tensor([[1.0, -2.0, 3e-3], [0.0, 5.0, 7.0]], dtype=torch.float64)
EXPECTED = EXACT.float()


def first(got, expected, exact, **options):
    return next(iter(differences(got, expected, exact, **options)), None)


def kind(got, expected=EXPECTED, exact=EXACT):
    problem = first(got, expected, exact)
    return problem.kind if problem else None


def test_rounding_errors_are_accepted_and_larger_ones_refused():
    assert kind(EXPECTED * (1 + 3e-7)) is None
    assert kind(EXPECTED * (1 + 1e-4)) == "value"


def test_a_sum_that_cancels_is_allowed_the_rounding_of_its_terms():
    """A key's bias has the gradient 0, of terms that are not."""
    zero = torch.zeros(3)
    left = torch.tensor([5e-6, 0.0, -2e-6])
    assert differences(left, zero, zero.double())
    assert not differences(left, zero, zero.double(), noise=1e-5)
    assert differences(10 * left, zero, zero.double(), noise=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_allowed_its_own_rounding(dtype):
    expected = EXACT.to(dtype)
    eps = torch.finfo(dtype).eps
    assert kind(expected, expected) is None
    assert kind((EXACT * (1 + eps)).to(dtype), expected) is None
    assert kind((EXACT * (1 + 20 * eps)).to(dtype), expected) == "value"


INFINITE = torch.tensor([0.0, -torch.inf])
BOOL = torch.tensor([True, False])
MANY = 3 * 10**12
HALF = torch.tensor(0.5)


@pytest.mark.parametrize(
    ("got", "expected", "fault"),
    [
        (None, EXPECTED, "type"),
        (1.0, EXPECTED, "type"),
        (EXPECTED.numpy(), EXPECTED, "type"),
        (EXPECTED.T, EXPECTED, "shape"),
        (EXPECTED.double(), EXPECTED, "dtype"),
        (EXPECTED / 0 * 0, EXPECTED, "nan"),
        (INFINITE, INFINITE, None),
        (torch.tensor([0.0, -1e9]), INFINITE, "value"),
        (-INFINITE, INFINITE, "value"),
        (BOOL, BOOL, None),
        (~BOOL, BOOL, "value"),
        (BOOL.float(), BOOL, "dtype"),
        (BOOL.int(), BOOL, "dtype"),
        ((0.5, 1), (0.5, 1.0), None),
        ((HALF, 1), (0.5, 1.0), None),
        ((HALF.double(), 1), (0.5, 1.0), None),
        ((0.5,), (0.5, 1.0), "type"),
        ((HALF[None], 1), (0.5, 1.0), "type"),
        (HALF, 0.5, None),
        (MANY, MANY, None),
        (float(MANY), MANY, None),
        (MANY + 1, MANY, "value"),
        (MANY * (1 + 1e-9), MANY, "value"),
        (None, MANY, "type"),
        (torch.tensor(3), 3, "type"),
        (range(1, 4), range(1, 4), None),
        ([1, 2, 3], range(1, 4), None),
        (range(3), range(1, 4), "value"),
        (torch.arange(1, 4), range(1, 4), "type"),
        ("b", "a", "value"),
    ],
)
def test_a_fault_has_its_kind_and_a_number_is_one_in_any_form(
    got, expected, fault
):
    assert kind(got, expected, expected) == fault


def test_two_wrong_results_are_alike_only_with_the_same_nans():
    a = torch.tensor([1.0, torch.nan, torch.inf])
    assert alike(a, a * (1 + 1e-7))
    assert not alike(a, torch.tensor([1.0, 2.0, torch.inf]))
    assert not alike(a, torch.tensor([1.0, torch.nan, -torch.inf]))
    assert not alike(a, a[:2])


def test_a_random_result_is_compared_with_a_relative_tolerance():
    exact = torch.full((4,), 10.0, dtype=torch.float64)
    expected = exact.float()
    for off, fine in ((0.4, True), (-0.4, True), (0.6, False)):
        problem = first(expected + off, expected, exact, rtol=0.05)
        assert (problem is None) == fine
    assert first(expected + 0.4, expected, exact) is not None
    pair = (expected + 0.4, expected), (expected, expected), (exact, exact)
    assert first(*pair, rtol=0.05) is None and first(*pair) is not None


def test_missing_and_superfluous_keys_of_a_dict_are_named():
    expected = {"a": EXPECTED, "b": EXPECTED}
    exact = {"a": EXACT, "b": EXACT}
    assert first(expected, expected, exact) is None
    got = {"a": EXPECTED, "c": EXPECTED}
    text = first(got, expected, exact).text()
    assert text == "it lacks b; it has c, which is superfluous"
    got = {**expected, **{str(n): EXPECTED for n in range(5)}}
    problem = first(got, expected, exact)
    assert problem.text().endswith("0, 1, 2 and 2 more, which are superfluous")
    assert kind([EXPECTED], expected, exact) == "type"
    wrong = first({**expected, "b": 2 * EXPECTED}, expected, exact)
    assert wrong.part == Part(entry=("b",))
    assert wrong.part.name() == "b"


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
    edit = "- return exps / exps\n+ return exps / exps.detach()"
    message = judged("sdp-softmax", edit).details
    lines = message.splitlines()
    got = [x.split()[1:] for x in lines if x.startswith("  got ")]
    expected = [x.split()[1:] for x in lines if x.startswith("  expected ")]
    assert "the gradient of" in message
    assert got and got != expected
