"""The same answer gives the same message, whatever else the machine does."""

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from attn.exercises.spec import find
from attn.grading.diagnosis.judge import judge

ANSWERS = (
    ("tfm-sample", "One token too many stays in top_k"),
    ("cache-decode_step", "There is no mask"),
    ("sdp-attention_loops", "Every key has the same weight"),
    ("pos-alibi_bias", "The distance is squared"),
)
BURN = "while True: pass"


def messages():
    """Return the messages of answers that no list names."""
    found = []
    for exercise_id, name in ANSWERS:
        exercise = replace(find(exercise_id))
        (mistake,) = [x for x in exercise.mistakes if x.name == name]
        others = [x for x in exercise.mistakes if x is not mistake]
        exercise.__dict__["mistakes"] = others
        found.append(judge(exercise, mistake.answer).message)
    return "\n".join(found)


@pytest.fixture
def load():
    """Keep a processor busy."""
    busy = subprocess.Popen([sys.executable, "-c", BURN])
    yield
    busy.kill()
    busy.wait()


@pytest.mark.parametrize(
    "times", [2, pytest.param(100, marks=pytest.mark.exhaustive)]
)
def test_the_same_answer_gives_the_same_message_under_load(load, times):
    first = messages()
    assert all(messages() == first for _ in range(times))


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(5))
def test_another_process_gives_the_same_message(load, seed):
    code = f"from {__name__} import messages; print(messages())"
    environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
    out = subprocess.check_output(
        [sys.executable, "-c", code], env=environment, text=True
    )
    assert out.strip() == messages()
