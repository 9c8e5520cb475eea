"""A refusal is read in five seconds, and why() says the rest."""

import random
import re
import statistics
from collections.abc import Mapping

import pytest
import torch

from attn.exercises import sources
from attn.exercises.case import Case
from attn.exercises.literal import brief, describe
from attn.exercises.outcome import Outcome
from attn.exercises.spec import every_exercise, find
from attn.exercises.wrapping import wrapped
from attn.grading.checks.compare import Problem
from attn.grading.checks.evidence import Failure
from attn.grading.checks.failures import run_all
from attn.grading.diagnosis.judge import judge
from attn.grading.diagnosis.refusal import most_telling, question
from tests.exercises.oracles import oracle
from tests.grading.diagnosis.own_mistakes import judged
from tests.marks import exhaustive_but

LISTED = [(x, mistake) for x in every_exercise() for mistake in x.mistakes]
AROUND = 2  # lines: the points, and where the chapter goes on


def height(message):
    """Return the number of printed lines of a message that fits a page."""
    lines = wrapped(message, "  ")
    assert max(map(len, lines)) <= 80, message
    return len(lines) + AROUND


@pytest.mark.parametrize("count", exhaustive_but([32], [32, 100]))
def test_a_refusal_has_seven_lines(count):
    """And never more than fourteen: test_mistakes.py sees every one."""
    heights = []
    for exercise, mistake in random.Random(0).sample(LISTED, count):
        known = oracle(exercise.id)  # the others of the list run once
        own = run_all(mistake.answer, known, quick=True)
        right = {"oracle": known, "outcomes": own}
        verdict = judge(exercise, mistake.answer, **right)
        heights.append(height(verdict.message))
    assert statistics.median(heights) <= 7


@pytest.mark.parametrize("exercise", every_exercise(), ids=lambda x: x.id)
def test_the_parts_of_a_result_have_the_tasks_own_names(exercise):
    """One for each entry of a tuple, in words that the task has."""
    output = oracle(exercise.id).expected(0).output
    entries = 0
    if isinstance(output, tuple | list):
        entries = len(output)
    assert isinstance(output, Mapping) or len(exercise.returns) == entries
    task = sources.solution(exercise.id).lower()
    for word in re.findall(r"\w+", " ".join(exercise.returns).lower()):
        assert word in task, word
    for name in exercise.returns:  # "the positions differs" is no English
        head = re.split(" of | that | to ", name)[0]
        assert not re.fullmatch(r"the .*[^s]s", head), name


def test_a_wrong_entry_is_called_as_in_the_task():
    edit = "- return dq, dk, dv\n+ return dq, dk.sin() + 0.1, dv"
    message = judged("flash-tiled_backward", edit).message
    assert "the gradient of key differs at" in message
    assert "it[" not in message


def test_an_argument_that_is_none_was_not_returned():
    assert describe(None) == brief("", None).strip() == "None"


def test_what_should_have_been_returned_is_beside_an_exception():
    message = judged("mask-causal", 'raise LookupError("no")').message
    assert re.search(r"it raised LookupError: no\n.*\n  expected: \(", message)

    edit = "- raise KeyError\n+ raise AttributeError"
    message = judged("iface-Registry", edit).message
    assert re.search(r"expected: .*: KeyError", message)


def failure(condition, expected, got, index=0):
    more = {"got": got, "expected": expected, "wrong": got != expected}
    problem = Problem("value", "differs", **more)
    return Failure(Case(condition, (got,)), Outcome(got), [problem], index)


def test_the_failure_shown_is_one_from_which_a_place_can_be_told():
    one = failure("one", torch.zeros(1, 1), torch.ones(1, 1))
    every = failure("several", torch.zeros(2, 2), torch.ones(2, 2))
    some = failure("several", torch.zeros(3, 3), torch.eye(3))
    later = failure("later", torch.zeros(2, 2), torch.eye(2))
    assert most_telling([one, every, some, later]) is some
    assert most_telling([every, later]) is every
    assert most_telling([one]) is one
    # An axis of length 1, or as long as another, hides which one was taken.
    column = failure("several", torch.zeros(4, 1), torch.eye(4)[:, :1])
    other = failure("several", torch.zeros(2, 6), torch.ones(2, 6))
    assert most_telling([column, some, other]) is other


def test_what_is_expected_has_the_dtype_of_the_answer():
    """1.9e-174 is 0 in float32."""
    message = judged("sdp-softmax", "- exps /\n+ 0.5 + exps /").details
    assert not re.search(r"\de-(\d{3}|[5-9]\d)\b", message)


def test_claims_about_right_results_say_nothing_of_nan():
    exercise = find("why-causal_average")
    verdict = judge(exercise, lambda x: x * torch.nan)
    for claim in exercise.properties:
        assert claim.says not in verdict.message + verdict.details


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("Too many. Which one?", "Which one?"),
        ("All. (As `x` does.) What is 2 ** 4 / 2?", "What is 2 ** 4 / 2?"),
        ("Nothing is asked", "Nothing is asked"),
    ],
)
def test_the_question_of_a_paragraph_is_its_last_sentence(text, end):
    assert question(text) == end


def test_every_listed_mistake_ends_in_a_question_of_its_own():
    for exercise in every_exercise():
        for mistake in exercise.mistakes:
            last = question(mistake.why)
            assert last.endswith("?") and len(last) < 200, mistake.place
