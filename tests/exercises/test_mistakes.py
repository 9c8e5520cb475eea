"""The checks bite: right answers pass, wrong ones fail and are named.

Each fault found here is one that a learner would have met. `make test` judges
the solution, every second right answer of the list and every twentieth
mistake, of a kernel half as many; `make test-all` judges all of them, half of
the exercises on another seed, each mistake against a second run of its own.
"""

import re
from copy import copy

import pytest
import torch

from attn.exercises import CHAPTERS, sources
from attn.exercises.kernel import Emulated
from attn.exercises.solution import solution
from attn.exercises.spec import every_exercise
from attn.grading.checks.failures import run_all
from attn.grading.checks.oracle import Oracle
from attn.grading.checks.problems import failures
from attn.grading.diagnosis.judge import (
    exposures,
    judge,
    mutation_score,
    table,
)
from attn.grading.learner.case import FailingCase
from tests.exercises.oracles import oracle, thinned
from tests.grading.diagnosis.test_refusal import height
from tests.marks import exhaustive_but

EXERCISES = every_exercise()
SEEDS = {x.id: n % 2 for n, x in enumerate(EXERCISES)}


@pytest.fixture(params=EXERCISES, ids=lambda x: x.id)
def exercise(request):
    return request.param


@pytest.mark.parametrize("every", exhaustive_but([False], [False, True]))
def test_right_answers_pass_and_wrong_ones_are_named(
    exercise, every, record_property
):
    if every:
        drawn = Oracle(exercise, SEEDS[exercise.id])
    else:
        exercise = thinned(exercise)
        drawn = copy(oracle(exercise.id))
        drawn.exercise = exercise
    result = mutation_score(exercise, again=every, oracle=drawn)
    record_property("teeth", table([result]).splitlines()[0])
    record_property("counts", result.counts)
    assert not result.failures, "\n\n".join(result.failures)
    for verdict in result.wrong.values():
        assert 0 < height(verdict.message) <= 14, verdict.message
        assert verdict.details
        if every and (parts := verdict.parts) and parts.shown:
            FailingCase(parts.evidence, parts.shown, {}).run()
    conditions = {case.condition for case in drawn.cases}
    assert {x.condition for x in result.wrong.values()} <= conditions
    listed = [x.strip() for x in exposures(result).splitlines()]
    assert {x.label for x in result.wrong} <= {*listed}


@pytest.mark.exhaustive
def test_right_answers_pass_on_any_inputs(exercise):
    """A grade is given on inputs that no test has seen."""
    for seed in range(100, 101 if exercise.launch else 103):
        drawn = Oracle(exercise, seed)
        for right in exercise.equivalents:
            wrong = failures(drawn, run_all(right.answer, drawn))
            problem = wrong[0].problem.text if wrong else ""
            assert not wrong, f"{right.name}, seed {seed}: {problem}"


def test_there_are_enough_wrong_and_right_answers(exercise):
    assert len({wrong.name for wrong in exercise.mistakes}) >= 4
    assert len(exercise.equivalents) >= 3


def test_the_stub_is_reported_as_not_finished(exercise):
    namespace = exercise.namespace()
    exec(sources.stub(exercise.id), namespace)
    stub = namespace[exercise.name]
    verdict = judge(exercise, stub, oracle=oracle(exercise.id))
    assert not verdict.passed
    assert "not finished" in verdict.message


def refused(exercise, answer):
    """Return the failures of an answer: a diagnosis takes half a second."""
    right = oracle(exercise.id)
    return failures(right, run_all(answer, right, quick=True))


@pytest.mark.parametrize(
    "exercise", exhaustive_but(EXERCISES[::4], EXERCISES), ids=lambda x: x.id
)
def test_a_broken_solution_is_refused(exercise):
    """The proof that this file can fail."""
    right = solution(exercise)
    if isinstance(right, type):

        class Broken(right):
            def forward(self, *args, **kwargs):
                return super().forward(*args, **kwargs) * 1.01

            def __getitem__(self, name):
                return super().__getitem__(name)[::-1]

        assert refused(exercise, Broken)
        return

    if exercise.launch:

        def spoiled(grid, *args, **kwargs):
            tensors = [x for x in args if isinstance(x, torch.Tensor)]
            before = [x.clone() for x in tensors]
            right[grid](*args, **kwargs)
            for x, old in zip(tensors, before, strict=True):
                if not torch.equal(x.nan_to_num(), old.nan_to_num()):
                    x.mul_(1.01)

        assert refused(exercise, Emulated(spoiled))
        return

    def broken(*args, **kwargs):
        out = right(*args, **kwargs)
        if isinstance(out, tuple):
            return tuple(x * 1.01 for x in out)
        if isinstance(out, dict):
            return {name: x * 1.01 for name, x in out.items()}
        return ~out if out.dtype == torch.bool else out * 1.01 + 0.01

    assert refused(exercise, broken)


def test_a_stub_fits_the_width_of_the_page(exercise):
    stub = sources.stub(exercise.id)
    assert max(map(len, stub.splitlines())) <= 72
    assert '"""' in stub
    listed = re.findall(r"^ +(?:[*+>-] |\d+[.)] ).*", stub, re.M)
    assert not listed, "the page makes a list of a line that begins so"


def test_an_id_consists_of_a_chapter_and_a_name(exercise):
    key, name = sources.split_id(exercise.id)
    assert key in CHAPTERS
    assert name == exercise.name
    assert exercise.points in (1, 2, 3)
