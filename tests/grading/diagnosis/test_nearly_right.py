"""A result that is nearly right, or right in part, is described as that."""

import time

import torch

from attn.exercises.spec import find
from attn.grading.checks.clock import TIME_LIMIT
from attn.grading.diagnosis.judge import judge


def message(exercise_id, answer):
    """Return a wrong answer's diagnosis; a right one's is empty."""
    return " ".join(judge(find(exercise_id), answer).message.split())


def average(x):
    count = torch.arange(1, x.shape[-2] + 1, dtype=x.dtype)
    return x.cumsum(-2) / count[:, None]


def test_a_step_computed_in_float32_is_suspected(monkeypatch):
    """Mistakes that are right in this case agree with what is nearly so."""
    exercise = find("why-causal_average")
    others = [x for x in exercise.mistakes if "float32" not in x.name]
    monkeypatch.setitem(vars(exercise), "mistakes", others)

    def answer(x):
        return average(x.float()).to(x.dtype)

    text = message("why-causal_average", answer)
    assert "is a step computed in float32?" in text
    assert "behaves like" not in text
    assert "in another order" not in text


def test_the_signs_of_rounding_errors_are_not_described():
    def answer(query, key, value, temperature=1.0):
        low = max(temperature, 0.1)
        return (query @ key.mT / low).softmax(-1) @ value

    text = message("why-soft_lookup", answer)
    assert text and "should be negative" not in text


def test_zeros_in_one_case_are_not_described_as_zeros_throughout():
    def answer(out, shuffled, order):
        back = shuffled[..., order.argsort(), :]
        moved = (back - out).norm(dim=-1) / out.norm(dim=-1)
        return torch.where(moved < 0.1, 0.0, moved)

    text = message("pos-permutation_test", answer)
    assert "The result is 0 throughout" not in text
    assert "the wrong elements are 0" in text.lower()


def test_an_error_without_a_message_is_described_by_its_type():
    def answer(num_heads):
        if num_heads & (num_heads - 1):
            raise AssertionError
        return 2 ** (-8 * torch.arange(1, num_heads + 1) / num_heads)

    text = message("pos-alibi_slopes", answer)
    assert "it raised AssertionError in the line" in text


def test_a_mutant_that_never_ends_is_stopped():
    """One of them counts to 2**111."""

    def answer(num_heads):
        n = 2 ** (min(num_heads, 64).bit_length() - 1)
        first = torch.arange(1, n + 1) / n
        exponents = torch.cat([first, first - 1 / (2 * n)])
        return (2 ** (-8 * exponents))[: min(num_heads, 64)]

    start = time.process_time()
    assert message("pos-alibi_slopes", answer)
    assert time.process_time() - start < TIME_LIMIT
