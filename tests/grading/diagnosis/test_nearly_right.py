"""A result that is nearly right, or right in part, is described as that."""

import pytest

from attn.exercises.spec import find
from attn.grading.diagnosis.judge import judge
from tests.grading.diagnosis.own_mistakes import edited, judged

#: An attention of which one element is nearly right.
NEARLY = """\
- return softmax(scores) @ value
+ out = softmax(scores) @ value
+ out[..., 0, 0] *= 1 + {}
+ return out"""
ZERO_IN_ONE_CASE = """\
- return (back - out).norm(dim=-1) / out.norm(dim=-1)
+ moved = (back - out).norm(dim=-1) / out.norm(dim=-1)
+ return torch.where(moved < 0.1, 0.0, moved)"""
WITHOUT_A_MESSAGE = """\
if num_heads & (num_heads - 1):
    raise AssertionError
return 2 ** (-8 * torch.arange(1, num_heads + 1) / num_heads)"""


@pytest.mark.parametrize(
    ("exercise_id", "edit", "said", "never"),
    [
        ("sdp-attention", NEARLY.format(1e-5), "", "sign"),
        ("sdp-attention", NEARLY.format(1e-4), "", "sign"),
        (
            "mask-apply_mask",
            "- -torch.inf\n+ (scores.min() - 20).item()",
            "",
            "behaves like",
        ),
        (
            "pos-permutation_test",
            ZERO_IN_ONE_CASE,
            "the wrong elements are 0",
            "The result is 0 throughout",
        ),
        (
            "pos-alibi_slopes",
            WITHOUT_A_MESSAGE,
            "it raised AssertionError in the line",
            "this looks like",
        ),
    ],
)
def test_what_is_right_in_part_gets_no_name(exercise_id, edit, said, never):
    verdict = judged(exercise_id, edit)
    assert verdict.mistake is None
    message = " ".join(verdict.message.split())
    assert said.lower() in message.lower() and never not in message


def test_a_step_computed_in_float32_is_suspected(monkeypatch):
    """Mistakes that are right in this case agree with what is nearly so."""
    exercise = find("why-causal_average")
    others = [x for x in exercise.mistakes if "float32" not in x.name]
    monkeypatch.setitem(vars(exercise), "mistakes", others)
    edit = "- x.cumsum(-2) / count[:, None]\n"
    edit += "+ (x.float().cumsum(-2) / count.float()[:, None]).to(x.dtype)"
    text = judge(exercise, edited(exercise.id, edit)).message
    assert "is a step computed in float32?" in " ".join(text.split())
    assert "behaves like" not in text
