"""What is claimed of a mistake's inputs can be tried on each of its edits."""

from dataclasses import replace

from tests.exercises.try_edits import tried, twins
from tests.grading.diagnosis.own_mistakes import with_mistakes

VIEWED = """
first, last = x.shape[:-3], x.shape[-2:]
heads = x.view(-1, *last).repeat_interleave(n_rep, 0)
return heads.view(*first, -1, *last)
"""


def test_each_edit_has_the_inputs_on_which_it_is_right_wrong_or_raises():
    edits = {"Tiled": "return torch.cat([x] * n_rep, -3)", "Viewed": VIEWED}
    exercise = with_mistakes("gqa-repeat_kv", *edits.items())
    inputs, *printed = "\n".join(tried(exercise, "")).split("\n\n")
    assert {"a typical case", "... = 1", "Hkv = S"} < {*inputs.split("; ")}
    tiled, viewed = ({*x.splitlines()} for x in printed)
    (right,) = (x for x in tiled if x.startswith("  right: "))
    assert "Hkv = 1" in right and "S = 1" not in right
    assert "Tiled" in tiled and "  wrong: all else" in tiled
    assert "  wrong: all else" not in viewed
    (raises,) = (x for x in viewed if x.startswith("  raises RuntimeError"))
    assert "views" in raises


def test_names_with_the_same_question_are_listed():
    exercise = with_mistakes("gqa-repeat_kv", ("A", ""), ("B", ""), ("C", ""))
    a, b, c = exercise.mistakes
    again = [replace(b, why="So it is. Why A?"), replace(a, name="D")]
    vars(exercise)["mistakes"] = [a, *again, c]
    (found,) = twins([exercise])
    assert found == "gqa-repeat_kv: Why A?\n  A\n  B\n  D"
