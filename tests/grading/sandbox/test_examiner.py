"""Answers that are not simply right or wrong get a mark and a reason."""

import pytest

from attn.exercises import sources
from attn.grading.classroom.examiner import Examiner
from tests.grading.sandbox.conftest import examined

IDS = [f"why-{name}" for name in sources.names("why")]
FIRST, SECOND = IDS[:2]
POINTS = dict.fromkeys(IDS, 2)
NAME = FIRST.partition("-")[2]
RIGHT = {name: sources.solution(name) for name in IDS}


@pytest.fixture(scope="module")
def examine():
    with Examiner(seed=3, timeout=20) as examiner:

        def run(cells):
            marks = examiner.examine("why", cells, POINTS)
            return {mark.exercise: mark for mark in marks}

        yield run


def test_each_exercise_has_its_mark_in_order(examine):
    marks = examine(RIGHT)
    assert list(marks) == IDS
    assert all(
        x.passed and x.points == 2 and not x.message for x in marks.values()
    )
    assert examine(RIGHT) == marks, "the same seed, the same marks"


def test_a_stub_is_not_written_and_an_absent_cell_is_missing(examine):
    stub = sources.stub(FIRST)
    marks = examine({FIRST: stub + "\n"})
    assert marks[FIRST].status == "not written"
    assert marks[SECOND].status == "missing"
    assert examine({FIRST: f"# mine\n{stub}"})[FIRST].status == "not written"


def test_an_answer_may_call_a_helper_of_an_earlier_exercise(examine):
    helper = "def _helper(x):\n    return x\n"
    second = RIGHT[SECOND].replace("\n    return ", "\n    return _helper(", 1)
    line = next(x for x in second.splitlines() if "_helper(" in x)
    second = second.replace(line, f"{line})")
    cells = {FIRST: helper + RIGHT[FIRST], SECOND: second}
    assert examine(cells)[SECOND].passed
    alone = examine({FIRST: RIGHT[FIRST], SECOND: second})[SECOND]
    assert not alone.passed and "only the exercises' cells" in alone.message


def test_an_error_after_the_definition_costs_no_points(examine):
    shown = f"{RIGHT[FIRST]}\nprint(no_such_name)\nassert False\n"
    assert examine({FIRST: shown})[FIRST].passed


def test_a_wrong_answer_costs_no_points_of_later_exercises(examine):
    wrong = f"def {NAME}(*args, **kwargs):\n    return None"
    marks = examine(RIGHT | {FIRST: wrong})
    assert [x.passed for x in marks.values()] == [False, True, True, True]
    assert marks[FIRST].points == 0


@pytest.mark.parametrize(
    ("cell", "reason"),
    [
        ("def other(): pass", f"the cell defines no {NAME}"),
        (f"{NAME} = 3", f"{NAME} needs to be a function"),
        (f"class {NAME}: pass", f"{NAME} needs to be a function"),
        (f"def {NAME}(x)\n    pass", "SyntaxError"),
        (f"def {NAME}(x):\n\tif x:\n        pass", "TabError"),
        ("raise SystemExit", "SystemExit"),
    ],
)
def test_a_cell_without_an_answer_is_wrong_with_a_reason(
    examine, cell, reason
):
    mark = examine({FIRST: cell})[FIRST]
    assert mark.status == "wrong" and reason in mark.message


#: Its base is the book's, too, where this answer is wrong.
LEFT_BEHIND = """
import numpy as np
found = []
class Module:
    def __init_subclass__(cls):
        status = np.loadtxt("/proc/self/status", dtype=str, delimiter="!")
        found.append(status)
class nn:
    Module = Module
class MultiHeadAttention:
    def __init__(self, *args, **kwargs): pass
"""


def test_what_an_answer_leaves_behind_is_watched_in_the_books_text(examiner):
    cells = {
        "mha-MultiHeadAttention": LEFT_BEHIND,
        "mha-pack_projections": (
            "def pack_projections(*x): raise ValueError(str(found))"
        ),
    }
    marks = examined(examiner, "mha", cells)
    assert marks["mha-MultiHeadAttention"].status == "wrong"
    told = marks["mha-pack_projections"]
    assert told.status == "refused" and "it reads a file" in told.message
    assert "python" not in told.message
