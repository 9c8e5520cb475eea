"""What counts as right: error relative to float64, and nothing looser."""

import pytest
import torch

from attn.grading.compare import alike, compare

TRUTH = torch.tensor([[1.0, -2.0, 3e-3], [0.0, 5.0, 7.0]], dtype=torch.float64)
HONEST = TRUTH.float()


def kind(got, honest=HONEST, truth=TRUTH):
    found = compare(got, honest, truth)
    return found.kind if found else None


def test_rounding_is_forgiven_and_a_mistake_is_not():
    assert kind(HONEST * (1 + 3e-7)) is None
    assert kind(HONEST * (1 + 1e-4)) == "value"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_held_to_its_own_rounding(dtype):
    honest = TRUTH.to(dtype)
    eps = torch.finfo(dtype).eps
    assert kind(honest, honest) is None
    assert kind((TRUTH * (1 + eps)).to(dtype), honest) is None
    assert kind((TRUTH * (1 + 20 * eps)).to(dtype), honest) == "value"


def test_the_message_points_at_the_first_wrong_element():
    got = HONEST.clone()
    got[1, 2] = 8.0
    text = compare(got, HONEST, TRUTH).text
    assert "at [1, 2]: got 8, expected 7" in text


@pytest.mark.parametrize(
    ("got", "want"),
    [
        (None, "type"),
        (1.0, "type"),
        (HONEST.numpy(), "type"),
        (HONEST.T, "shape"),
        (HONEST.double(), "dtype"),
        (HONEST / 0 * 0, "nan"),
    ],
)
def test_each_kind_of_fault_is_told_apart(got, want):
    assert kind(got) == want


def test_infinities_must_match():
    truth = torch.tensor([0.0, -torch.inf], dtype=torch.float64)
    assert kind(truth.float(), truth.float(), truth) is None
    finite = torch.tensor([0.0, -1e9])
    assert kind(finite, truth.float(), truth) == "value"
    assert kind(-truth.float(), truth.float(), truth) == "value"


def test_booleans_are_exact_and_are_not_numbers():
    honest = torch.tensor([True, False])
    assert kind(honest, honest, honest) is None
    assert kind(~honest, honest, honest) == "value"
    assert kind(honest.float(), honest, honest) == "dtype"
    assert kind(honest.int(), honest, honest) == "dtype"


def test_a_number_may_be_a_tensor_without_axes():
    for got in (
        0.5,
        torch.tensor(0.5),
        torch.tensor(0.5, dtype=torch.float64),
    ):
        assert kind((got, 1), (0.5, 1.0), (0.5, 1.0)) is None
    assert kind((0.5,), (0.5, 1.0), (0.5, 1.0)) == "type"
    assert kind((torch.tensor([0.5]), 1), (0.5, 1.0), (0.5, 1.0)) == "type"


def test_a_count_is_exact():
    many = 3 * 10**12
    for got in (many, float(many), torch.tensor(many)):
        assert kind(got, many, many) is None
    for got in (many + 1, many * (1 + 1e-9), torch.tensor(many - 1)):
        assert kind(got, many, many) == "value"
    assert kind(None, many, many) == "type"


def test_two_wrong_results_are_alike_only_with_the_same_nans():
    a = torch.tensor([1.0, torch.nan, torch.inf])
    assert alike(a, a * (1 + 1e-7))
    assert not alike(a, torch.tensor([1.0, 2.0, torch.inf]))
    assert not alike(a, torch.tensor([1.0, torch.nan, -torch.inf]))
    assert not alike(a, a[:2])


def test_a_random_result_is_held_to_about_its_size():
    truth = torch.full((4,), 10.0, dtype=torch.float64)
    honest = truth.float()
    for off, fine in ((0.4, True), (-0.4, True), (0.6, False)):
        found = compare(honest + off, honest, truth, rtol=0.05)
        assert (found is None) == fine
    assert compare(honest + 0.4, honest, truth) is not None
    pair = (honest + 0.4, honest), (honest, honest), (truth, truth)
    assert compare(*pair, rtol=0.05) is None and compare(*pair) is not None
