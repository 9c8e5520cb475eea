"""The same answer gets one diagnosis, whatever the words and the machine."""

import os
import string
import subprocess
import sys
from dataclasses import replace

import pytest

from attn.exercises.out_of_bounds import OutOfBounds
from attn.exercises.outcome import Forbidden, SideEffect
from attn.exercises.spec import find
from attn.grading.checks.clock import OutOfTime
from attn.grading.checks.compare import Part, Problem
from attn.grading.checks.inputs import Once
from attn.grading.checks.objects import WrongParameters
from attn.grading.checks.oracle import Oracle
from attn.grading.checks.result import NoGradient
from attn.grading.diagnosis.judge import judge
from attn.grading.diagnosis.kinds import lines
from attn.grading.diagnosis.naming import diagnose
from tests.grading.diagnosis.own_mistakes import edited, evidence, unlisted
from tests.grading.diagnosis.test_kinds import ANSWERS, BIASED, TIED
from tests.processes import run_python

ERRORS = (Forbidden, NoGradient, OutOfBounds, OutOfTime, WrongParameters)
LETTERS = string.ascii_letters
TABLE = str.maketrans(LETTERS, LETTERS[7:] + LETTERS[:7])
#: Exercises whose mistakes are judged with every other one on the list.
LISTED = ("mask-causal", "gqa-repeat_kv", "pos-alibi_slopes")
KINDS = ("another_type", "in_place", "random", "no_gradient", "wrong_dtype")
#: Edits that are on no list, and the keys of their kinds.
UNLISTED = {
    "mha-merge_heads": {key: ANSWERS[key] for key in KINDS},
    "sdp-softmax": {"forbidden": "return x.softmax(dim)"},
    "sdp-SelfAttention": {"extra_bias": BIASED, "one_parameter": TIED},
}


def other(text):
    return text.translate(TABLE)


def reword(patch):
    """Reword each message of a check."""
    for error in ERRORS:

        def says(self, text, *args, old=error.__init__, **options):
            old(self, other(text), *args, **options)

        patch.setattr(error, "__init__", says)
    init = Problem.__init__

    def problem(self, kind, message, *args, **fields):
        init(self, kind, other(message), *args, **fields)

    patch.setattr(Problem, "__init__", problem)
    name, text, gone = Part.name, SideEffect.text.fget, Once._gone
    patch.setattr(SideEffect, "text", property(lambda x: other(text(x))))
    patch.setattr(Part, "name", lambda *x: other(name(*x)))

    def raises(once, index):
        try:
            gone(once, index)
        except TypeError as error:
            raise TypeError(other(str(error))) from None

    patch.setattr(Once, "_gone", raises)


def diagnoses(exercise_id):
    """Return what is wrong, in words, and the diagnosis of each answer."""
    exercise = replace(find(exercise_id))
    edits = UNLISTED.get(exercise_id, {}).values()
    answers = [edited(exercise_id, x) for x in edits]
    exercise.__dict__["mistakes"] = ()
    if not answers:
        full = find(exercise_id).mistakes
        answers = [x.answer for x in full[:6]]
        exercise.__dict__["mistakes"] = full[::2]
    oracle, words, found = Oracle(exercise, 0), [], []
    for answer in answers:
        shown, wrong = evidence(oracle, answer)
        words.append(wrong[0].problem.message)
        found.append(diagnose(shown))
    return words, found


@pytest.mark.parametrize("exercise_id", (*LISTED, *UNLISTED))
def test_reworded_messages_leave_a_diagnosis_as_is(exercise_id, monkeypatch):
    words, plain = diagnoses(exercise_id)
    reword(monkeypatch)
    reworded, found = diagnoses(exercise_id)
    assert found == plain
    assert not {*words} & {*reworded}
    if exercise_id in UNLISTED:
        for key, what in zip(UNLISTED[exercise_id], plain, strict=True):
            begins = lines()[key][0].partition("{")[0]
            assert what.names[0].name.startswith(begins), key
    assert any(x.name for x in plain)


SQUARED = "The cost grows as a square or a logarithm, not linearly, edit 1"
SOME = [("pos-alibi_bias", SQUARED)]
EVERY = [
    *SOME,
    ("sdp-attention_loops", "Every key gets the weight 1, not a share of 1"),
    ("tfm-sample", "One token too many stays in top_k"),
    ("cache-decode_step", "Nothing is masked, not even the future in a chunk"),
]


def messages(answers):
    """Return how answers that no list names are refused."""
    pairs = [unlisted(*x) for x in answers]
    return [judge(x, mistake.answer).message for x, mistake in pairs]


@pytest.mark.parametrize(
    ("answers", "times"),
    [(SOME, 1), pytest.param(EVERY, 5, marks=pytest.mark.exhaustive)],
    ids=["some", "all"],
)
def test_the_same_answer_gives_the_same_message_under_load(answers, times):
    """In this process once more, and in others with other hashes."""
    plain = messages(answers)
    code = f"from {__name__} import messages; print(messages({answers}))"
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        try:
            assert messages(answers) == plain
        finally:
            busy.kill()
    for seed in range(times):
        hashes = os.environ | {"PYTHONHASHSEED": str(seed)}
        out = run_python(code, env=hashes, check=True).stdout
        assert out.strip() == str(plain)
