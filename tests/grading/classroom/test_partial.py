"""Points for a part are given when a teacher allows them, and not else."""

import pytest

from attn.exercises import sources
from attn.exercises.spec import find
from attn.grading.classroom.examiner import Examiner
from attn.grading.classroom.result import Mark
from attn.grading.diagnosis.judge import judge

NAME = "gqa-repeat_kv"
RIGHT = sources.solution(NAME)
#: Right where one head is shared, or each has its own.
TILED = """\
def repeat_kv(x, n_rep):
    return x if n_rep == 1 else x.repeat(1, n_rep, 1, 1)
"""
NOTHING = "def repeat_kv(x, n_rep):\n    return None\n"
FORBIDDEN = """\
def repeat_kv(x, n_rep):
    return x.repeat_interleave(n_rep, open("x"))
"""
POINTS = dict.fromkeys((f"gqa-{x}" for x in sources.names("gqa")), 3)


@pytest.fixture(scope="module", params=[True, False])
def mark(request):
    with Examiner(seed=3, timeout=20, partial=request.param) as examiner:

        def mark(text):
            marks = examiner.examine("gqa", {NAME: text}, POINTS)
            return next(iter(marks)), request.param

        yield mark


def test_a_wrong_answer_has_points_for_the_conditions_it_passes(mark):
    wrong, is_partial = mark(TILED)
    assert wrong.status == "wrong"
    if not is_partial:
        assert wrong.points == 0 and not wrong.notes
        return
    (note,) = wrong.notes
    right, conditions = map(int, note.split()[-4:-1:2])
    assert 0 < right < conditions
    assert wrong.points == round(3 * right / conditions, 2)


def test_other_answers_have_all_or_nothing(mark):
    assert mark(RIGHT)[0].points == 3 and not mark(RIGHT)[0].notes
    for text in (NOTHING, FORBIDDEN, sources.stub(NAME), ""):
        assert mark(text)[0].points == 0, text


def test_a_verdict_counts_a_condition_that_did_not_run_as_wrong():
    calls = []

    def stops(x, n_rep):
        calls.append(n_rep)
        raise NotImplementedError

    verdict = judge(find(NAME), stops)
    right, conditions = verdict.conditions
    assert right == 0 and conditions > len(calls) == 1


@pytest.mark.parametrize("status", ["refused", "not written", "missing"])
def test_what_is_no_answer_has_no_part(status):
    mark = Mark(NAME, 0, 3, status)
    assert mark.with_a_part(5, 9) is mark
    assert Mark(NAME, 0, 3, "wrong").with_a_part(5, 9).points == 1.67
