"""A result that is nearly right, or right in part, is described as that."""

import time

import pytest
import torch

from attn.exercises.spec import find
from attn.grading.checks.clock import TIME_LIMIT
from attn.grading.diagnosis.judge import judge


def average(x):
    count = torch.arange(1, x.shape[-2] + 1, dtype=x.dtype)
    return x.cumsum(-2) / count[:, None]


def off_by(error):
    """Return an attention of which one element is nearly right."""

    def nearly(query, key, value, scale=None):
        scale = query.shape[-1] ** -0.5 if scale is None else scale
        out = (query @ key.mT * scale).softmax(-1) @ value
        out[..., 0, 0] *= 1 + error
        return out

    return nearly


def off_by_less_than_rounding(scores, mask):
    filled = torch.where(mask, scores, scores.min() - 20)
    return filled.softmax(-1).masked_fill(~mask.any(-1, keepdim=True), 0)


def zero_in_one_case(out, shuffled, order):
    back = shuffled[..., order.argsort(), :]
    moved = (back - out).norm(dim=-1) / out.norm(dim=-1)
    return torch.where(moved < 0.1, 0.0, moved)


def without_a_message(num_heads):
    if num_heads & (num_heads - 1):
        raise AssertionError
    return 2 ** (-8 * torch.arange(1, num_heads + 1) / num_heads)


@pytest.mark.parametrize(
    ("exercise_id", "answer", "said", "never"),
    [
        ("sdp-attention", off_by(1e-5), "", "sign"),
        ("sdp-attention", off_by(1e-4), "", "sign"),
        ("mask-apply_mask", off_by_less_than_rounding, "", "behaves like"),
        (
            "pos-permutation_test",
            zero_in_one_case,
            "the wrong elements are 0",
            "The result is 0 throughout",
        ),
        (
            "pos-alibi_slopes",
            without_a_message,
            "it raised AssertionError in the line",
            "this looks like",
        ),
    ],
)
def test_what_is_right_in_part_gets_no_name(exercise_id, answer, said, never):
    verdict = judge(find(exercise_id), answer)
    assert verdict.mistake is None
    message = " ".join(verdict.message.split())
    assert said.lower() in message.lower() and never not in message


def test_a_step_computed_in_float32_is_suspected(monkeypatch):
    """Mistakes that are right in this case agree with what is nearly so."""
    exercise = find("why-causal_average")
    others = [x for x in exercise.mistakes if "float32" not in x.name]
    monkeypatch.setitem(vars(exercise), "mistakes", others)
    text = judge(exercise, lambda x: average(x.float()).to(x.dtype)).message
    assert "is a step computed in float32?" in " ".join(text.split())
    assert "behaves like" not in text


def test_a_mutant_that_never_ends_is_stopped():
    """One of them counts to 2**111."""

    def answer(num_heads):
        n = 2 ** (min(num_heads, 64).bit_length() - 1)
        first = torch.arange(1, n + 1) / n
        exponents = torch.cat([first, first - 1 / (2 * n)])
        return (2 ** (-8 * exponents))[: min(num_heads, 64)]

    start = time.process_time()
    assert not judge(find("pos-alibi_slopes"), answer).passed
    assert time.process_time() - start < TIME_LIMIT
