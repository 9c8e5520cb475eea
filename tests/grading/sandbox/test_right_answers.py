"""Every right answer, in every style, earns its points in the sandbox."""

import pytest

from attn.exercises import CHAPTERS, sources
from attn.exercises.spec import chapter, every_exercise
from tests.grading.sandbox.conftest import examined

PLAIN = ("gqa",)  # of the plain run: functions and a class
STYLES = [
    pytest.param(
        exercise.id,
        right.source,
        id=f"{exercise.id}: {right.name}",
        marks=()
        if exercise.id == "why-soft_lookup"
        else pytest.mark.exhaustive,
    )
    for exercise in every_exercise()
    for right in exercise.equivalents
]


@pytest.mark.parametrize(
    "key",
    [
        pytest.param(x, marks=() if x in PLAIN else pytest.mark.exhaustive)
        for x in CHAPTERS
        if sources.solutions_path(x).is_file()
    ],
)
def test_the_solutions_of_a_chapter_earn_all_points(examiner, key):
    cells = {x.id: sources.solution(x.id) for x in chapter(key)}
    marks = examined(examiner, key, cells)
    assert [x for x in marks.values() if not x.passed] == []
    assert marks.keys() == cells.keys()


@pytest.mark.parametrize(("exercise_id", "source"), STYLES)
def test_a_right_answer_in_another_style_earns_the_points(
    examiner, exercise_id, source
):
    key = exercise_id.partition("-")[0]
    mark = examined(examiner, key, {exercise_id: source})[exercise_id]
    assert mark.passed, mark.message


def test_all_styles_are_examined():
    every = sum(len(x.equivalents) for x in every_exercise())
    assert len(STYLES) == every > 400
