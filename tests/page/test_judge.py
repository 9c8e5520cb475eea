"""The judge answers whatever is typed, and says what `check` says of it."""

import pytest

from attn.data.book import root
from attn.exercises.answers import NOT_STARTED, UNFINISHED
from attn.grading.learner import cards
from attn.page import judge, running
from attn.page.offered import FOLDER
from attn.page.record import stored

DATA = stored(root() / FOLDER / "mask-causal.json.gz")
RIGHT = """
def causal(q_len, kv_len, q_offset=0):
    print("called")
    rows = torch.arange(q_len)[:, None] + q_offset
    return torch.arange(kv_len) <= rows
"""


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(running, "TIME_LIMIT", 0.3)


def body(text):
    return f"def causal(q_len, kv_len, q_offset=0):\n    {text}\n"


def test_the_words_are_those_of_check():
    assert (cards.RIGHT.word, cards.WRONG.word) == (judge.RIGHT, judge.WRONG)
    assert (judge.NOT_STARTED, judge.UNFINISHED) == (NOT_STARTED, UNFINISHED)


def test_a_right_answer_is_right_and_what_it_prints_is_shown():
    card = judge.check(DATA, RIGHT)
    assert card["state"] == "right" and "called" in card["printed"]
    assert card["tried"] == [f"{len(DATA['cases'])} inputs in 10 conditions"]


def test_a_wrong_answer_has_its_name_its_question_and_its_first_element():
    card = judge.check(DATA, RIGHT.replace("<=", "<"))
    assert card["state"] == "wrong" and card["name"] == card["title"]
    assert card["label"] == "this looks like" and card["question"][-1] == "?"
    assert card["elements"][0] == ["[0, 0]", "False", "True"]
    assert card["call"].startswith("causal(")
    assert judge.evaluate(DATA, RIGHT, "q_len")["text"].isdigit(), "the call's"


@pytest.mark.parametrize(
    ("source", "state", "title", "line"),
    [
        ("", "calm", "nothing here", None),
        ("  \n", "calm", "nothing here", None),
        ("x = 1", "calm", "causal is not defined", None),
        (DATA["stub"], "calm", "NotImplementedError", None),
        ("def causal(:\n", "wrong", "SyntaxError: invalid syntax", 1),
        ("\nprint(nowhere)", "wrong", "NameError: name 'nowhere'", 2),
        ("\nimport nowhere", "wrong", "ModuleNotFoundError", 2),
        ("causal = 3", "wrong", "causal needs to be a function", None),
        ("while True:\n    pass", "wrong", "within 0.3 s", None),
        (body("while True:\n        print(1)"), "wrong", "within 0.3 s", None),
        (body("return causal(1, 1)"), "wrong", "RecursionError", None),
        (body("return nowhere"), "wrong", "NameError: name 'nowhere'", 2),
        (body("return None"), "wrong", "Nothing is returned", None),
        (body("raise SystemExit"), "wrong", "SystemExit", 2),
    ],
)
def test_bad_input_is_answered(source, state, title, line):
    card = judge.check(DATA, source)
    assert card["state"] == state
    assert title in card["title"] + card["what"] + " ".join(card["more"])
    assert line in (None, card["line"])
    assert len(card["printed"]) < 2 * running.MOST_PRINTED


def test_an_expression_is_evaluated_with_the_learners_function():
    said = judge.evaluate(DATA, RIGHT, "causal(1, 2)")
    assert said == {
        "text": "tensor([[ True, False]])",
        "printed": "called\n",
        "error": "",
        "line": None,
    }
    failed = judge.evaluate(DATA, body("return q_len / 0"), "causal(1, 2)")
    assert failed["error"] == "ZeroDivisionError: division by zero"
    assert failed["line"] == 2
    several = judge.evaluate(DATA, RIGHT, "x = causal(2, 2); x.sum()")
    assert several["text"] == "tensor(3)"
    assert judge.evaluate(DATA, RIGHT, "kept = 1")["error"] == ""
    assert judge.evaluate(DATA, RIGHT, "kept + 1")["text"] == "2"
    assert "SyntaxError" in judge.evaluate(DATA, RIGHT, "x +")["error"]
    endless = judge.evaluate(DATA, "", "[x for x in iter(int, 1)]")
    assert "within 0.3 s" in endless["error"]
