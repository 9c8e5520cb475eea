"""A diagnosis reads facts: whatever the messages say, it stays the same."""

import random
import string
from dataclasses import replace
from functools import cache

import pytest

from attn.exercises.guard import OutOfBounds
from attn.exercises.spec import find
from attn.grading.checks.clock import OutOfTime
from attn.grading.checks.compare import Part, Problem
from attn.grading.checks.effects import SideEffect
from attn.grading.checks.evidence import Evidence
from attn.grading.checks.failures import failures, run_all
from attn.grading.checks.forbidden import Forbidden
from attn.grading.checks.inputs import Once
from attn.grading.checks.objects import WrongParameters
from attn.grading.checks.oracle import Oracle
from attn.grading.checks.result import NoGradient
from attn.grading.diagnosis import naming
from attn.grading.diagnosis.judge import judge
from attn.grading.diagnosis.kinds import Kind
from tests.grading.diagnosis.test_kinds import ANSWERS, Biased, Tied

TEXTS = (
    *((Problem, "text"), (Part, "name"), (SideEffect, "text")),
    *((Kind, "name"), (Kind, "why")),
)
ERRORS = (Forbidden, NoGradient, OutOfBounds, OutOfTime, WrongParameters)
#: Exercises whose mistakes are judged with every other one on the list.
LISTED = ("mask-causal", "gqa-repeat_kv", "pos-alibi_slopes")
SLOW = ("sdp-attention", "cache-decode_step")
KINDS = ("another_type", "in_place", "random", "no_gradient", "wrong_dtype")
#: Answers that are on no list, and the keys of their kinds.
UNLISTED = {
    "mha-merge_heads": {key: ANSWERS[key] for key in KINDS},
    "sdp-softmax": {"forbidden": lambda x, dim=-1: x.softmax(dim)},
    "sdp-SelfAttention": {"extra_bias": Biased, "one_parameter": Tied},
}
EXERCISES = (*LISTED, "mha-merge_heads")


@pytest.fixture
def reword(monkeypatch):
    """Return a function that rewords each message of a check at random."""

    def reword(seed):
        letters = list(string.ascii_letters)
        random.Random(seed).shuffle(letters)
        table = str.maketrans(string.ascii_letters, "".join(letters))
        for owner, name in TEXTS:
            plain = vars(owner)[name]
            is_property = isinstance(plain, property)
            read = plain.fget if is_property else plain

            def new(self, *words, read=read):
                return read(self, *words).translate(table)

            new = property(new) if is_property else new
            monkeypatch.setattr(owner, name, new)
        for error in ERRORS:
            init = error.__init__

            def reworded(self, text, *args, init=init, **options):
                init(self, text.translate(table), *args, **options)

            monkeypatch.setattr(error, "__init__", reworded)
        init = Problem.__init__

        def problem(self, kind, message, *args, **fields):
            init(self, kind, message.translate(table), *args, **fields)

        monkeypatch.setattr(Problem, "__init__", problem)

        def gone(self, index):
            text = f"block {index} of {self.name} is gone"
            raise TypeError(text.translate(table))

        monkeypatch.setattr(Once, "_gone", gone)

    return reword


def facts(answer, oracle):
    """Return what a diagnosis says, but for blanks that hold a message."""
    outcomes = run_all(answer, oracle)
    wrong = failures(oracle, outcomes)
    assert wrong
    evidence = Evidence(oracle, outcomes, wrong, answer)
    diagnosis = naming.diagnose(evidence)
    names = [
        (x.key, x.words) if isinstance(x, Kind) else x.name
        for x in diagnosis.names
    ]
    return names, diagnosis.everywhere


def every_fact(exercise_id):
    """Judge answers on the list, some that it lacks, and other kinds."""
    full = find(exercise_id)
    exercise = replace(full)
    exercise.__dict__["mistakes"] = full.mistakes[::2]
    oracle = Oracle(exercise, 0)
    answers = [x.answer for x in full.mistakes[:6]]
    answers += UNLISTED.get(exercise_id, {}).values()
    return [facts(answer, oracle) for answer in answers]


plain_facts = cache(every_fact)


@pytest.mark.parametrize(
    "exercise_id",
    [
        *EXERCISES,
        *(pytest.param(x, marks=pytest.mark.exhaustive) for x in SLOW),
    ],
)
def test_reworded_messages_leave_a_diagnosis_as_it_is(exercise_id, reword):
    plain = plain_facts(exercise_id)
    reword(seed=exercise_id)
    assert every_fact(exercise_id) == plain


@pytest.mark.parametrize(
    ("exercise_id", "key"),
    [(x, key) for x, answers in UNLISTED.items() for key in answers],
)
def test_a_kind_is_named_in_other_words(exercise_id, key, reword):
    exercise = replace(find(exercise_id))
    exercise.__dict__["mistakes"] = ()
    answer = UNLISTED[exercise_id][key]
    name = judge(exercise, answer).mistake
    reword(seed=key)
    assert judge(exercise, answer).mistake not in (name, None)
    names, _ = facts(answer, Oracle(exercise, 0))
    assert names[0][0] == key


def test_the_sample_has_names_for_all_cases_and_for_some():
    every = [x for name in EXERCISES for x in plain_facts(name)]
    named = [(len(names) > 1, everywhere) for names, everywhere in every]
    assert {(False, True), (False, False)} <= {*named}
