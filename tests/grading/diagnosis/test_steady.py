"""The same answer gives the same message, whatever else the machine does."""

import os
import subprocess
import sys
from contextlib import contextmanager

import pytest

from attn.grading.diagnosis.judge import judge
from tests.grading.diagnosis.own_mistakes import unlisted
from tests.processes import run_python

SOME = [("sdp-attention_loops", "Every key has the same weight")]
EVERY = [
    *SOME,
    ("tfm-sample", "One token too many stays in top_k"),
    ("cache-decode_step", "There is no mask"),
    ("pos-alibi_bias", "The distance is squared"),
]


def messages(answers):
    """Return how answers that no list names are refused."""
    pairs = [unlisted(*x) for x in answers]
    return [judge(x, mistake.answer).message for x, mistake in pairs]


@contextmanager
def load():
    """Keep a processor busy."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        yield
        busy.kill()


@pytest.mark.parametrize(
    ("answers", "times"),
    [(SOME, 1), pytest.param(EVERY, 5, marks=pytest.mark.exhaustive)],
    ids=["some", "all"],
)
def test_the_same_answer_gives_the_same_message_under_load(answers, times):
    """In this process once more, and in others with other hashes."""
    plain = messages(answers)
    with load():
        assert messages(answers) == plain
    code = f"from {__name__} import messages; print(messages({answers}))"
    for seed in range(times):
        environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
        out = run_python(code, env=environment, check=True).stdout
        assert out.strip() == str(plain)
