"""The same answer gives the same message, whatever else the machine does."""

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from attn.exercises.spec import find
from attn.grading.checks.oracle import Oracle
from attn.grading.diagnosis.judge import judge
from tests.processes import run_python

ANSWERS = (
    ("tfm-sample", "One token too many stays in top_k"),
    ("cache-decode_step", "There is no mask"),
    ("sdp-attention_loops", "Every key has the same weight"),
    ("pos-alibi_bias", "The distance is squared"),
)
BURN = "while True: pass"


def unlisted():
    """Return answers that no list names, and what judges them."""
    found = []
    for exercise_id, name in ANSWERS:
        exercise = replace(find(exercise_id))
        (mistake,) = [x for x in exercise.mistakes if x.name == name]
        others = [x for x in exercise.mistakes if x is not mistake]
        exercise.__dict__["mistakes"] = others
        found.append((mistake.answer, Oracle(exercise, 0)))
    return found


def messages(answers=None):
    """Return their messages."""
    return "\n".join(
        judge(known.exercise, answer, oracle=known).message
        for answer, known in answers or unlisted()
    )


@pytest.fixture
def load():
    """Keep a processor busy."""
    busy = subprocess.Popen([sys.executable, "-c", BURN])
    yield
    busy.kill()
    busy.wait()


def test_the_same_answer_gives_the_same_message_under_load(load):
    first = messages()
    assert all(messages() == first for _ in range(2))


@pytest.mark.exhaustive
def test_a_hundred_judgments_give_the_same_messages_under_load(load):
    """What the listed mistakes give is computed once."""
    for answer in unlisted():
        first = messages([answer])
        assert all(messages([answer]) == first for _ in range(25))


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(5))
def test_another_process_gives_the_same_message(load, seed):
    code = f"from {__name__} import messages; print(messages())"
    environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
    out = run_python(code, env=environment, check=True).stdout
    assert out.strip() == messages()
