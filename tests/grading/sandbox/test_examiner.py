"""Answers that are not simply right or wrong get a mark and a reason."""

import re

import pytest

from attn.exercises import CHAPTERS, sources
from attn.exercises.spec import chapter
from attn.grading.classroom.examiner import Examiner, given_names, given_text
from attn.grading.sandbox import sandbox as sandboxes
from attn.grading.sandbox.requests import Bind, Check
from tests.grading.sandbox.conftest import examined

IDS = [f"why-{name}" for name in sources.names("why")]
FIRST, SECOND = IDS[:2]
NAME = FIRST.partition("-")[2]
RIGHT = {name: sources.solution(name) for name in IDS}


@pytest.fixture(scope="module")
def examine():
    with Examiner(seed=3, timeout=20) as examiner:
        yield lambda cells: examined(examiner, "why", cells)


def test_each_exercise_has_its_mark_in_order(examine):
    marks = examine(RIGHT)
    assert list(marks) == IDS
    assert all(
        x.passed and x.points == 1 and not x.message for x in marks.values()
    )
    assert examine(RIGHT) == marks, "the same seed, the same marks"


def test_a_stub_is_not_written_and_an_absent_cell_is_missing(examine):
    stub = sources.stub(FIRST)
    marks = examine({FIRST: stub + "\n"})
    assert marks[FIRST].status == "not written"
    assert marks[SECOND].status == "missing"
    assert examine({FIRST: f"# mine\n{stub}"})[FIRST].status == "not written"


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
        ("def other(): pass", "nothing in the notebook defines it"),
        (f"{NAME} = 3", f"{NAME} needs to be a function"),
        (f"class {NAME}: pass", f"{NAME} needs to be a function"),
        (f"def {NAME}(x)\n    pass", "SyntaxError"),
        (f"def {NAME}(x):\n\tif x:\n        pass", "TabError"),
        (f"raise SystemExit\n{NAME}", "SystemExit"),
        (f"if 0:\n    def {NAME}(): pass", "no cell of the notebook"),
    ],
)
def test_a_cell_without_an_answer_has_no_points_and_a_reason(
    examine, cell, reason
):
    mark = examine({FIRST: cell})[FIRST]
    assert mark.status in ("wrong", "missing") and reason in mark.message


COMPLETED = """
def helper(x, *_):
    return x
def decorated(f):
    return f
"""


def test_an_answer_that_a_later_cell_completes_is_judged_at_the_end(examine):
    line = next(x for x in RIGHT[FIRST].splitlines() if "return " in x)
    helped = line.replace("return ", "return helper(") + ")"
    cells = {
        "a helper below": {
            FIRST: RIGHT[FIRST].replace(line, helped),
            "below": COMPLETED,
        },
        "a decorator below": {
            FIRST: f"@decorated\n{RIGHT[FIRST]}",
            "below": COMPLETED,
        },
        "the answer below": {FIRST: "x = 1", "below": RIGHT[FIRST]},
        "repaired below": {
            FIRST: f"def {NAME}(*x): pass",
            "below": f"{RIGHT[FIRST]}\n\n{NAME} = (lambda f: f)({NAME})",
        },
    }
    status = {k: examine(x)[FIRST].status for k, x in cells.items()}
    assert status == dict.fromkeys(cells, "passed")


def test_no_process_that_judges_an_exercise_has_held_the_books_text_of_it(
    examine, monkeypatch
):
    """The invariant that SECURITY.md states."""
    sent = []
    send = sandboxes.Session._send

    def recorded(session, request, *rest):
        sent.append((session, request))
        return send(session, request, *rest)

    monkeypatch.setattr(sandboxes.Session, "_send", recorded)
    wrong = {x: f"def {x.partition('-')[2]}(*x): pass" for x in IDS}
    again = {"below": "\n".join(x.partition("-")[2] for x in IDS)}
    marks = examine(wrong | again)
    assert not any(x.passed for x in marks.values())
    texts = {sources.solution(x): x.partition("-")[2] for x in IDS}
    held, judged = {}, 0
    for session, request in sent:
        bound = held.setdefault(session, set())
        if isinstance(request, Check):
            judged += 1
            assert request.name not in bound
        elif isinstance(request, Bind):
            bound.add(texts[request.text])
        else:
            assert not any(x in str(vars(request)) for x in texts)
    assert judged == 2 * len(IDS)
    assert sorted(map(len, held.values())) == [0, len(IDS) - 1]


@pytest.mark.parametrize("key", CHAPTERS)
def test_what_a_chapter_gives_holds_none_of_its_answers(key):
    answers = [x.reference for x in chapter(key)]
    names = given_names(key)
    assert not any(x is y for x in names.values() for y in answers)
    every = {*re.findall(r"\w+", sources.notebook_path(key).read_text())}
    text = given_text(key, every)
    assert not any(sources.solution(x.id) in text for x in chapter(key))
    assert "import torch" in text


def test_the_books_answer_cannot_be_kept_and_judged_later(examine):
    """After a wrong answer the name has the book's: a later cell sees it."""
    steals = f"def {NAME}(*x): pass"
    keeps = f"from functools import lru_cache\n{NAME} = lru_cache({NAME})"
    mark = examine({FIRST: steals, "keeps": keeps})[FIRST]
    assert mark.status == "wrong"


def test_a_statement_that_ends_the_process_is_left_out(examine):
    dies = "import os\nos._exit(0)\n"
    marks = examine({"above": dies, **RIGHT})
    assert all(x.passed for x in marks.values())
    dies = {"above": "import os\n" + 9 * "os._exit(0)\n", **RIGHT}
    marks = examine(dies)
    assert {x.status for x in marks.values()} == {"died"}
    assert "status 0" in marks[FIRST].message


def test_a_missing_module_is_missed_only_where_it_is_called(examine):
    module = "import math, no_such_module.inner as m, numpy\n"
    above = f"{module}@m.compiled\nclass Config(m.Base): pass\nm.plot()[0]\n"
    assert examine({FIRST: above + RIGHT[FIRST]})[FIRST].passed
    calls = f"{module}def {NAME}(x):\n    return m.average(x)"
    mark = examine({FIRST: calls})[FIRST]
    assert "No module named 'no_such_module'" in mark.message
    own = (
        f"from attn import functional as m\ndef {NAME}(x):\n    return m.f(x)"
    )
    mark = examine({FIRST: own})[FIRST]
    assert (
        mark.status == "refused" and "calls attn.functional.f" in mark.message
    )
    caught = (
        "try:\n    import no_such_module\nexcept ImportError:\n    y = 3\n"
    )
    uses = f"{caught}{RIGHT[FIRST]}\n{NAME} = {NAME} if y == 3 else None"
    assert examine({FIRST: uses})[FIRST].passed
