"""An answer is called again, and keeps nothing that changes its result."""

import functools

import pytest
import torch
import torch.nn.functional as F

from attn.exercises.spec import every_exercise, find
from attn.grading.checks.oracle import Oracle
from attn.grading.diagnosis.judge import judge
from attn.grading.diagnosis.mutation_testing import solution

Heads = solution(find("mha-MultiHeadAttention"))
attention = solution(find("sdp-attention"))


class KeepsTheMask(Heads):
    mask = None

    def forward(self, x, kv_input=None, attn_mask=None):
        self.mask = self.mask if attn_mask is None else attn_mask
        return super().forward(x, kv_input, self.mask)


class KeepsTheKeys(Heads):
    keys = None

    def forward(self, x, kv_input=None, attn_mask=None):
        if self.keys is None or self.keys.shape != x.shape:
            self.keys = x if kv_input is None else kv_input
        return super().forward(x, self.keys, attn_mask)


class KeepsResults(Heads):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.results = {}

    def forward(self, x, kv_input=None, attn_mask=None):
        shapes = x.shape, getattr(kv_input, "shape", 0), attn_mask is None
        if shapes not in self.results:
            self.results[shapes] = super().forward(x, kv_input, attn_mask)
        return self.results[shapes]


class PilesUp(Heads):
    total = 0.0

    def forward(self, x, kv_input=None, attn_mask=None):
        self.total = self.total + 1
        return super().forward(x, kv_input, attn_mask) * self.total


class KeepsWeights(Heads):
    first = None

    def forward(self, x, kv_input=None, attn_mask=None):
        if self.first is None:
            self.first = self.q_proj.weight.detach().clone()
        self.q_proj.weight.data = self.first.clone()
        return super().forward(x, kv_input, attn_mask)


class SizedByTheFirstCall(Heads):
    seen = None

    def forward(self, x, kv_input=None, attn_mask=None):
        S = (x if kv_input is None else kv_input).shape[1]
        if self.seen is None:
            self.seen = torch.ones(S)
        kept = self.seen[:S]
        if kv_input is None:
            return super().forward(x * kept[:, None], None, attn_mask)
        return super().forward(x, kv_input * kept[:, None], attn_mask)


class Drops(Heads):
    def forward(self, x, kv_input=None, attn_mask=None):
        x = F.dropout(x, 0.1, self.training)
        return super().forward(x, kv_input, attn_mask)


class WrongInTraining(Heads):
    def forward(self, x, kv_input=None, attn_mask=None):
        mask = None if self.training else attn_mask
        return super().forward(x, kv_input, mask)


class SwitchesItself(Heads):
    def forward(self, x, kv_input=None, attn_mask=None):
        self.eval()
        return super().forward(x, kv_input, attn_mask)


class ChangesItsWeights(Heads):
    def forward(self, x, kv_input=None, attn_mask=None):
        out = super().forward(x, kv_input, attn_mask)
        with torch.no_grad():
            self.q_proj.weight.mul_(0.5)
        return out


AGAIN = "wrong when it is called again, with other inputs"
TRAINING = "wrong when it is in training mode"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (KeepsTheMask, AGAIN),
        (KeepsTheKeys, AGAIN),
        (KeepsResults, "it returns an earlier call's result"),
        (PilesUp, AGAIN),
        (SizedByTheFirstCall, AGAIN),
        (KeepsWeights, AGAIN),
        (Drops, f"{TRAINING}: it draws random numbers"),
        (WrongInTraining, TRAINING),
        (SwitchesItself, f"{TRAINING}: it switches itself"),
        (ChangesItsWeights, "it changes its parameter q_proj.weight"),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_a_module_wrong_when_called_again_or_in_training_is_refused(
    answer, words
):
    verdict = judge(find("mha-MultiHeadAttention"), answer)
    assert not verdict.passed
    assert words in " ".join(verdict.message.split())
    assert ("called earlier with  x (" in verdict.details) == (
        "called again" in verdict.condition or "mode" in verdict.condition
    )


def _by_shape(*args, kept={}, **kwargs):  # noqa: B006
    shapes = *(x.shape for x in args), str(kwargs), args[0].dtype
    if shapes not in kept:
        kept[shapes] = attention(*args, **kwargs)
    return kept[shapes]


def _first_default(query, key, value, scale=None, held=[]):  # noqa: B006
    held.append(scale or query.shape[-1] ** -0.5)
    return attention(query, key, value, held[0])


def _reuses(*args, room={}, **kwargs):  # noqa: B006
    out = attention(*args, **kwargs)
    key = out.shape, out.dtype
    kept = room.setdefault(key, torch.empty_like(out.detach()))
    return kept.detach().copy_(out)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (_by_shape, ""),
        (_first_default, ""),
        (_reuses, "it changes what it returned earlier"),
    ],
)
def test_a_function_that_keeps_what_it_returned_is_refused(answer, words):
    verdict = judge(find("sdp-attention"), answer)
    assert not verdict.passed and words in verdict.message


def test_buffers_and_caches_that_leave_the_result_right_are_accepted():
    class Buffered(Heads):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.register_buffer("calls", torch.zeros(()))
            self.scores = None  # to be looked at later

        def forward(self, x, kv_input=None, attn_mask=None):
            self.calls += 1
            self.scores = x @ x.mT
            return super().forward(x, kv_input, attn_mask)

    @functools.cache
    def root(width):
        return width**0.5

    def cached(query, key, value, scale=None):
        usual = 1 / root(query.shape[-1])
        return attention(query, key, value, usual if scale is None else scale)

    assert judge(find("mha-MultiHeadAttention"), Buffered).passed
    assert judge(find("sdp-attention"), cached).passed


@pytest.mark.parametrize("exercise", every_exercise(), ids=lambda x: x.id)
def test_every_exercise_calls_an_answer_again(exercise):
    added = Oracle(exercise, 0).cases[len(exercise.generate(0)) :]
    assert any(case.before for case in added) or exercise.launch


def test_cases_that_call_an_answer_again_come_last():
    exercise = find("mha-MultiHeadAttention")
    oracle, usual = Oracle(exercise, 0), len(exercise.generate(0))
    assert not any(case.before for case in oracle.cases[:usual])
    added = oracle.cases[usual:]
    assert {case.train for case in added} == {False, True}
    assert any(case.kwargs.get("attn_mask") is not None for case in added)
