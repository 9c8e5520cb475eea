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

SOME = [("sdp-attention_loops", "Every key has the same weight")]
EVERY = [
    *SOME,
    ("tfm-sample", "One token too many stays in top_k"),
    ("cache-decode_step", "There is no mask"),
    ("pos-alibi_bias", "The distance is squared"),
]


def messages(answers=EVERY, times=1):
    """Return how answers that no list names are refused, each time."""
    found = []
    for exercise_id, name in answers:
        exercise = replace(find(exercise_id))
        (mistake,) = [x for x in exercise.mistakes if x.name == name]
        others = [x for x in exercise.mistakes if x is not mistake]
        exercise.__dict__["mistakes"] = others
        known = Oracle(exercise, 0)  # what the others give is computed once
        for _ in range(times):
            verdict = judge(exercise, mistake.answer, oracle=known)
            found.append(verdict.message)
    return found


@pytest.fixture
def load():
    """Keep a processor busy."""
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    yield
    busy.kill()
    busy.wait()


@pytest.mark.parametrize(
    ("answers", "times"),
    [(SOME, 3), pytest.param(EVERY, 26, marks=pytest.mark.exhaustive)],
    ids=["some", "all"],
)
def test_the_same_answer_gives_the_same_message_under_load(
    answers, times, load
):
    assert len({*messages(answers, times)}) == len(answers)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(5))
def test_another_process_gives_the_same_message(load, seed):
    code = f"from {__name__} import messages; print(messages())"
    environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
    out = run_python(code, env=environment, check=True).stdout
    assert out.strip() == str(messages())
