"""Right answers, in any style, earn points; others get a mark and a reason."""

import re

import pytest

from attn.exercises import CHAPTERS, sources
from attn.exercises.given import given_names, given_text
from attn.exercises.spec import chapter
from attn.grading.sandbox import session as sessions
from attn.grading.sandbox.requests import Check
from tests.grading.sandbox.conftest import examined
from tests.marks import exhaustive_but

IDS = [f"why-{name}" for name in sources.names("why")]
FIRST, SECOND = IDS[:2]
NAME = FIRST.partition("-")[2]
RIGHT = {name: sources.solution(name) for name in IDS}
ANSWER = RIGHT[FIRST]
WRONG = f"def {NAME}(*x): pass"


@pytest.fixture
def examine(examiner):
    return lambda cells: examined(examiner, "why", cells)


def test_each_exercise_has_its_mark_in_order(examine):
    marks = examine(RIGHT)
    assert list(marks) == IDS
    for mark in marks.values():
        assert mark.passed and mark.points == 1 and not mark.message
    assert examine(RIGHT) == marks, "the same seed, the same marks"


def test_a_wrong_answer_costs_no_points_of_later_exercises(examine):
    marks = examine(RIGHT | {FIRST: WRONG})
    assert [x.passed for x in marks.values()] == [False, True, True, True]
    assert marks[FIRST].points == 0
    assert examine({FIRST: ANSWER})[SECOND].status == "missing"


BELOW = "def helper(x, *_): return x\ndef decorated(f): return f"
LINE = next(x for x in ANSWER.splitlines() if "return " in x)
HELPED = LINE.replace("return ", "return helper(") + ")"
MISSING = "import math, no_such_module.inner as m, numpy\n"
CAUGHT = "try:\n    import no_such_module\nexcept ImportError:\n    y = 3\n"
UNUSED = "@m.compiled\nclass Config(m.Base): pass\nm.plot()[0]\n"
PASSED = {
    "an error below": {FIRST: f"{ANSWER}\nprint(no_such_name)\nassert 0\n"},
    "a helper below": {FIRST: ANSWER.replace(LINE, HELPED), "below": BELOW},
    "a decorator below": {FIRST: f"@decorated\n{ANSWER}", "below": BELOW},
    "the answer below": {FIRST: "x = 1", "below": ANSWER},
    "repaired below": {
        FIRST: WRONG,
        "below": f"{ANSWER}\n\n{NAME} = (lambda f: f)({NAME})",
    },
    "a missing module": {FIRST: MISSING + UNUSED + ANSWER},
    "its error, expected": {
        FIRST: f"{CAUGHT}{ANSWER}\n{NAME} = {NAME} if y == 3 else None"
    },
    "an end above": {"above": "import os\nos._exit(0)\n", FIRST: ANSWER},
}


@pytest.mark.parametrize("cells", PASSED.values(), ids=PASSED)
def test_a_right_answer_passes_whatever_is_around_it(examine, cells):
    mark = examine(cells)[FIRST]
    assert mark.passed, mark.message


BOOKS = "from attn import functional as m\n"
CALLS = f"def {NAME}(x):\n    return m.f(x)"
STUB = sources.stub(FIRST)
FAILED = [
    (f"{STUB}\n", "not written", "not started"),
    (f"# mine\n{STUB}", "not finished", "is still there"),
    ("def other(): pass", "missing", "nothing in the notebook defines it"),
    (f"{NAME} = 3", "wrong", f"{NAME} needs to be a function"),
    (f"class {NAME}: pass", "wrong", f"{NAME} needs to be a function"),
    (f"def {NAME}(x)\n    pass", "wrong", "SyntaxError"),
    (f"def {NAME}(x):\n\tif x:\n        pass", "wrong", "TabError"),
    (f"raise SystemExit\n{NAME}", "wrong", "SystemExit"),
    (f"if 0:\n    def {NAME}(): pass", "missing", "no cell of the notebook"),
    (MISSING + CALLS, "wrong", "No module named 'no_such_module'"),
    (BOOKS + CALLS, "refused", "calls attn.functional.f"),
]


@pytest.mark.parametrize(("cell", "status", "reason"), FAILED)
def test_an_answer_that_fails_has_a_status_and_a_reason(
    examine, cell, status, reason
):
    mark = examine({FIRST: cell})[FIRST]
    assert mark.status == status and reason in mark.message


def test_beside_an_answer_only_what_it_uses_has_notes(examine):
    cells = {"above": "fig = axes[0]", "more": "helper = len\nhelper()"}
    cells[FIRST] = f"def {NAME}(x, *_):\n    return helper(x)"
    [note] = examine(cells)[FIRST].notes
    assert "TypeError" in note


def test_a_process_that_cannot_be_kept_running_is_reported(examine):
    marks = examine({"above": "import os\n" + 9 * "os._exit(0)\n", **RIGHT})
    assert {x.status for x in marks.values()} == {"died"}
    assert "status 0" in marks[FIRST].message


def test_no_process_that_judges_an_exercise_has_held_the_books_text_of_it(
    examine, monkeypatch
):
    """The invariant that SECURITY.md states."""
    sent, send = [], sessions.send

    def noted(channel, end, request, *own):
        sent.append((channel, request))
        send(channel, end, request, *own)

    monkeypatch.setattr(sessions, "send", noted)
    again = {"below": "\n".join(x.partition("-")[2] for x in IDS)}
    wrong = {x: f"def {x.partition('-')[2]}(*x): pass" for x in IDS}
    marks = examine(wrong | again)
    assert not any(x.passed for x in marks.values())
    texts = {sources.solution(x): x.partition("-")[2] for x in IDS}
    held, judged = {}, []
    for channel, request in sent:  # each notebook's process has a channel
        bound = held.setdefault(channel, set())
        if isinstance(request, Check):
            judged.append(channel)
            assert request.name not in bound
        elif (text := getattr(request, "text", "")) in texts:
            bound.add(texts[text])
        else:
            assert not any(x in f"{text}{request}" for x in texts)
    assert len(judged) == 2 * len(IDS)
    assert sorted(len(held[x]) for x in {*judged}) == [0, len(IDS) - 1]


@pytest.mark.parametrize("key", CHAPTERS)
def test_what_a_chapter_gives_holds_none_of_its_answers(key):
    answers = [x.reference for x in chapter(key)]
    names = given_names(key)
    assert not any(x is y for x in names.values() for y in answers)
    every = {*re.findall(r"\w+", sources.notebook_path(key).read_text())}
    text = given_text(key, every)
    assert not any(sources.solution(x.id) in text for x in chapter(key))
    assert "import torch" in text


def rounds(key):
    """Return the chapter solved by the book, then in every other style."""
    every = {
        x.id: [sources.solution(x.id), *(y.source for y in x.equivalents)]
        for x in chapter(key)
    }
    return [
        {x: texts[n] for x, texts in every.items() if n < len(texts)}
        for n in range(max(map(len, every.values())))
    ]


ROUNDS = {
    f"{key} {n}": cells
    for key in CHAPTERS
    for n, cells in enumerate(rounds(key))
}
#: Of the plain run: functions and a class, what calls a function that its task
#: gives, and a chapter in every style.
PLAIN = ["gqa 0", "latent 1", *(x for x in ROUNDS if x.startswith("why "))]


@pytest.mark.parametrize("name", exhaustive_but(PLAIN, ROUNDS))
def test_a_right_answer_earns_its_points(examiner, name):
    cells = ROUNDS[name]
    marks = examined(examiner, name.partition(" ")[0], cells)
    assert [marks[x] for x in cells if not marks[x].passed] == []
