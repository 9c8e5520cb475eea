"""A call differs from an earlier one in one argument only."""

import pytest
import torch

from attn.exercises.spec import find
from attn.grading.diagnosis.judge import judge
from attn.grading.diagnosis.mutation_testing import solution

DIALS = {"scale", "value"}
NAME = "A result is remembered by part of the arguments"


def remembering(exercise, left_out):
    """Return an answer that looks results up without one argument."""
    right, kept = solution(find(exercise)), {}
    names = list(find(exercise).parameters)

    def answer(*args, **kwargs):
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        key = tuple((n, _hash(x)) for n, x in given.items() if n != left_out)
        if key not in kept:
            kept[key] = right(*args, **kwargs)
        return kept[key]

    return answer


def _hash(x):
    """Return what tells an argument from others."""
    if not isinstance(x, torch.Tensor):
        return x
    return x.shape, x.dtype, x.requires_grad, tuple(x.flatten().tolist())


@pytest.mark.parametrize(
    ("exercise", "left_out"),
    [
        ("pos-sinusoidal", "base"),
        ("why-soft_lookup", "value"),
        ("why-soft_lookup", "temperature"),
        ("sdp-attention", "scale"),
        ("tfm-rms_norm", "eps"),
        ("mha-split_heads", "num_heads"),
        ("mask-apply_mask", "mask"),
    ],
)
def test_a_result_remembered_by_part_of_the_arguments_is_named(
    exercise, left_out
):
    verdict = judge(find(exercise), remembering(exercise, left_out))
    assert not verdict.passed
    assert verdict.mistake == NAME
    if left_out not in DIALS:  # one of those is wrong in a derived case, too
        words = " ".join(verdict.message.split())
        assert f"only {left_out} is another" in words


def test_names_listed_before_a_pair_is_registered_are_not_remembered():
    class Remembers(solution(find("iface-Registry"))):
        listed = None

        def names(self):
            self.listed = self.listed or super().names()
            return self.listed

    verdict = judge(find("iface-Registry"), Remembers)
    assert not verdict.passed
    assert "names are listed" in " ".join(verdict.message.split())


@pytest.mark.parametrize(
    "exercise", ["pos-sinusoidal", "rope-frequencies", "mask-causal"]
)
def test_a_result_remembered_by_all_arguments_is_accepted(exercise):
    assert judge(find(exercise), remembering(exercise, None)).passed
