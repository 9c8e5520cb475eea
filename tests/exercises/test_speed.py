"""A right answer is accepted within a second, measured in other work."""

import json
import sys
from functools import partial
from pathlib import Path

import pytest
import torch

from attn.exercises.solution import solution
from attn.exercises.spec import every_exercise
from attn.grading.diagnosis.judge import judge
from attn.profiling.calls import one_thread
from tests.marks import exhaustive_but
from tests.processes import run_python
from tests.timing import cpu_ratio

#: Of ``work``: half a second on an AMD EPYC with AVX-512, so that machines
#: half as fast still answer within a second.
LIMIT = 100
EVERY = every_exercise()


def work():
    """Run operations on small tensors, as checks do."""
    x = torch.eye(16)
    with one_thread():
        for _ in range(2_000):
            x = (x @ x).softmax(-1)


def is_accepted_within_a_second(exercise):
    """Try three times: what disturbs a measurement only lengthens it."""
    answer, verdicts = solution(exercise), []

    def check(seed):
        verdicts.append(judge(exercise, answer, seed=seed))

    is_quick = any(
        cpu_ratio(work, partial(check, seed)) < LIMIT for seed in range(3)
    )
    return is_quick and all(x.passed for x in verdicts)


def judge_first(ids):
    """Print which checks were slow, and which modules they imported.

    A solution is loaded just before it is judged: what the last chapter
    imports would hide what a check of the first does.
    """
    slow, imported = [], set()
    for exercise in EVERY:
        if exercise.launch or exercise.id not in ids:
            continue
        solution(exercise)  # and with it what its chapter imports
        before = set(sys.modules)
        if not is_accepted_within_a_second(exercise):
            slow.append(exercise.id)
        imported |= set(sys.modules) - before
    print(json.dumps({"slow": slow, "imported": sorted(imported)}))


FIRST = """
import sys
from tests.exercises.test_speed import judge_first

judge_first(sys.argv[1:])
"""


@pytest.fixture(scope="module")
def first_checks(request):
    """Judge the solutions in a process that has judged nothing before.

    All of them, or those that this file's tests were selected for: of four,
    `make test` selects one.
    """
    calls = [
        x.callspec.params["exercise"].id
        for x in request.session.items
        if x.path == request.path and hasattr(x, "callspec")
    ]
    ids = calls or [x.id for x in EVERY]
    root = Path(__file__).parents[2]
    done = run_python(FIRST, *ids, cwd=root, check=True)
    return json.loads(done.stdout)


def test_checks_import_nothing(first_checks):
    """PyTorch imports SymPy, or its compiler, for a few calls: seconds, on
    a busy machine, before the first check answers."""
    assert first_checks["imported"] == []


@pytest.mark.parametrize(
    "exercise", exhaustive_but(EVERY[::4], EVERY), ids=lambda x: x.id
)
def test_a_right_answer_is_accepted_within_a_second(exercise, first_checks):
    if exercise.launch:
        assert is_accepted_within_a_second(exercise)
    assert exercise.id not in first_checks["slow"]
