"""Every right answer, in every style, earns its points in the sandbox."""

import pytest

from attn.exercises import CHAPTERS, sources
from attn.exercises.spec import chapter, every_exercise
from tests.grading.sandbox.conftest import examined

SOLUTIONS = {
    key: {x.id: sources.solution(x.id) for x in chapter(key)}
    for key in CHAPTERS
    if sources.solutions_path(key).is_file()
}
STYLES = {
    f"{exercise.id}: {right.name}": {exercise.id: right.source}
    for exercise in every_exercise()
    for right in exercise.equivalents
}
#: Of the plain run: functions, a class, and one exercise in many styles.
PLAIN = ["gqa", *(x for x in STYLES if x.startswith("why-soft_lookup: "))]


@pytest.mark.parametrize(
    "cells",
    [
        pytest.param(
            cells, id=x, marks=() if x in PLAIN else pytest.mark.exhaustive
        )
        for x, cells in (SOLUTIONS | STYLES).items()
    ],
)
def test_a_right_answer_earns_its_points(examiner, cells):
    marks = examined(examiner, next(iter(cells)).partition("-")[0], cells)
    assert [marks[x] for x in cells if not marks[x].passed] == []


def test_all_styles_are_examined():
    every = sum(len(x.equivalents) for x in every_exercise())
    assert len(STYLES) == every > 400 and "gqa" in SOLUTIONS
