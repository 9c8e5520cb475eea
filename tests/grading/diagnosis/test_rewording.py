"""A diagnosis reads facts: whatever the messages say, it stays the same."""

import random
import string
from dataclasses import replace
from functools import cache

import pytest
import torch
from torch import nn

from attn.exercises.guard import OutOfBounds
from attn.exercises.spec import find
from attn.grading.checks.clock import OutOfTime
from attn.grading.checks.evidence import Evidence
from attn.grading.checks.failures import failures, run_all
from attn.grading.checks.forbidden import Forbidden
from attn.grading.checks.gradients import NoGradient
from attn.grading.checks.inputs import Once
from attn.grading.checks.oracle import Oracle
from attn.grading.checks.parameters import WrongParameters
from attn.grading.checks.problem import Part, Problem
from attn.grading.checks.side_effects import SideEffect
from attn.grading.diagnosis import naming
from attn.grading.diagnosis.axes import distinguishing_inputs
from attn.grading.diagnosis.judge import judge
from attn.grading.diagnosis.kinds import Kind

MERGE_HEADS = "mha-merge_heads"
TEXTS = (
    *((Problem, "text"), (Part, "name"), (SideEffect, "text")),
    *((Kind, "name"), (Kind, "why")),
)
ERRORS = (Forbidden, NoGradient, OutOfBounds, OutOfTime, WrongParameters)
#: Exercises whose mistakes are judged with every other one on the list.
LISTED = (
    *("mask-causal", "gqa-repeat_kv", "pos-alibi_slopes"),
    *("sdp-attention", "cache-decode_step"),
)


def cipher(seed):
    """Return a function that reads every letter of a text as another."""
    letters = list(string.ascii_letters)
    random.Random(seed).shuffle(letters)
    table = str.maketrans(string.ascii_letters, "".join(letters))
    return lambda text: text.translate(table)


@pytest.fixture
def reword(monkeypatch):
    """Return a function that rewords each message of a check at random."""

    def reword(seed):
        write = cipher(seed)
        for owner, name in TEXTS:
            plain = vars(owner)[name]
            is_property = isinstance(plain, property)
            read = plain.fget if is_property else plain

            def new(self, *words, read=read):
                return write(read(self, *words))

            new = property(new) if is_property else new
            monkeypatch.setattr(owner, name, new)
        for error in ERRORS:
            init = error.__init__

            def reworded(self, text, *args, init=init, **options):
                init(self, write(text), *args, **options)

            monkeypatch.setattr(error, "__init__", reworded)
        init = Problem.__init__

        def problem(self, kind, message, *args, **fields):
            init(self, kind, write(message), *args, **fields)

        monkeypatch.setattr(Problem, "__init__", problem)

        def gone(self, index):
            raise TypeError(write(f"block {index} of {self.name} is gone"))

        monkeypatch.setattr(Once, "_gone", gone)

    return reword


class _Layer(nn.Module):
    def __init__(self, embed_dim, head_dim, k_bias=False, shared=False):
        super().__init__()
        self.q_proj = nn.Linear(embed_dim, head_dim, bias=False)
        self.k_proj = nn.Linear(embed_dim, head_dim, bias=k_bias)
        self.v_proj = nn.Linear(embed_dim, head_dim, bias=False)
        if shared:
            self.k_proj = self.q_proj


class _Biased(_Layer):
    def __init__(self, embed_dim, head_dim):
        super().__init__(embed_dim, head_dim, k_bias=True)


class _Shared(_Layer):
    def __init__(self, embed_dim, head_dim):
        super().__init__(embed_dim, head_dim, shared=True)


def _merged(x):
    return x.transpose(-2, -3).flatten(-2)


def _in_place(x):
    y = _merged(x) + 0
    x.zero_()
    return y


#: Answers that are on no list, and the keys of their kinds.
UNLISTED = {
    MERGE_HEADS: {
        "another_type": lambda x: _merged(x).detach().numpy(),
        "in_place": _in_place,
        "random": lambda x: _merged(x) + 0 * torch.rand(1),
        "no_gradient": lambda x: _merged(x).detach(),
        "wrong_dtype": lambda x: _merged(x).double(),
        "nothing_returned": lambda x: None,
    },
    "sdp-softmax": {
        "forbidden": lambda x, dim=-1: torch.softmax(x, dim),
    },
    "sdp-SelfAttention": {"extra_bias": _Biased, "one_parameter": _Shared},
}


EXERCISES = (*LISTED, *UNLISTED)


def observed(answer, oracle):
    outcomes = run_all(answer, oracle)
    wrong = failures(oracle, outcomes)
    assert wrong
    return Evidence(oracle, outcomes, wrong, answer)


def facts(answer, oracle):
    """Return what a diagnosis says, but for blanks that hold a message."""
    diagnosis = naming.diagnose(observed(answer, oracle))
    names = [
        (x.key, {k: word for k, word in x.words if k != "bad"})
        if isinstance(x, Kind)
        else x.name
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


@pytest.mark.parametrize("exercise_id", EXERCISES)
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


def test_two_inputs_that_must_be_present_are_the_same_in_other_words(reword):
    exercise = find("mha-MultiHeadAttention")

    class Forgets(exercise.reference):
        def forward(self, x, kv_input=None, attn_mask=None):
            mask = attn_mask if kv_input is None else None
            return super().forward(x, kv_input, mask) + 0

    evidence = observed(Forgets, Oracle(exercise, 0))
    plain = distinguishing_inputs(evidence)
    assert plain == ["attn_mask is given", "kv_input is given"]
    reword(seed=0)
    assert distinguishing_inputs(evidence) == plain


def test_the_sample_has_names_for_all_cases_and_for_some():
    every = [x for name in EXERCISES for x in plain_facts(name)]
    named = [(len(names) > 1, everywhere) for names, everywhere in every]
    assert {(False, True), (True, True), (False, False)} <= {*named}
