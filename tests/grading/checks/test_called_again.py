"""An answer is called again, and keeps nothing that changes its result."""

import functools

import pytest
import torch
import torch.nn.functional as F

from attn.exercises.spec import every_exercise, find
from attn.grading.checks.oracle import Oracle
from attn.grading.diagnosis.judge import judge, solution

Heads = solution(find("mha-MultiHeadAttention"))
attention = solution(find("sdp-attention"))


def heads(do):
    """Return a right module, but that a call of it does this."""

    class Answer(Heads):
        kept = None

        def forward(self, x, kv_input=None, attn_mask=None):
            return do(self, super().forward, x, kv_input, attn_mask)

    return Answer


@heads
def keeps_the_mask(self, call, x, kv_input, mask):
    self.kept = self.kept if mask is None else mask
    return call(x, kv_input, self.kept)


@heads
def keeps_the_keys(self, call, x, kv_input, mask):
    if self.kept is None or self.kept.shape != x.shape:
        self.kept = x if kv_input is None else kv_input
    return call(x, self.kept, mask)


@heads
def keeps_results(self, call, x, kv_input, mask):
    shapes = x.shape, getattr(kv_input, "shape", 0), mask is None
    self.kept = self.kept or {}
    if shapes not in self.kept:
        self.kept[shapes] = call(x, kv_input, mask)
    return self.kept[shapes]


@heads
def piles_up(self, call, *inputs):
    self.kept = (self.kept or 0) + 1
    return call(*inputs) * self.kept


@heads
def drops(self, call, x, *others):
    return call(F.dropout(x, 0.1, self.training), *others)


@heads
def wrong_in_training(self, call, x, kv_input, mask):
    return call(x, kv_input, None if self.training else mask)


@heads
def switches_itself(self, call, *inputs):
    self.eval()
    return call(*inputs)


@heads
def changes_its_weights(self, call, *inputs):
    out = call(*inputs)
    with torch.no_grad():
        self.q_proj.weight.mul_(0.5)
    return out


AGAIN = "wrong when it is called again, with other inputs"
TRAINING = "wrong when it is in training mode"


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
        (keeps_the_mask, AGAIN),
        (keeps_the_keys, AGAIN),
        (keeps_results, "it returns an earlier call's result"),
        (piles_up, AGAIN),
        (drops, f"{TRAINING}: it draws random numbers"),
        (wrong_in_training, TRAINING),
        (switches_itself, f"{TRAINING}: it switches itself"),
        (changes_its_weights, "it changes its parameter q_proj.weight"),
        (_by_shape, ""),
        (_first_default, ""),
        (_reuses, "it changes what it returned earlier"),
    ],
    ids=range(11),
)
def test_what_is_wrong_when_called_again_or_in_training_is_refused(
    answer, words
):
    is_module = isinstance(answer, type)
    name = "mha-MultiHeadAttention" if is_module else "sdp-attention"
    verdict = judge(find(name), answer)
    assert not verdict.passed
    assert words in " ".join(verdict.message.split())
    if is_module:
        says = "called earlier with  x (" in verdict.details
        condition = verdict.condition
        assert says == ("called again" in condition or "mode" in condition)


def test_buffers_and_caches_that_leave_the_result_right_are_accepted():
    @heads
    def buffered(self, call, x, *others):
        self.register_buffer("calls", torch.zeros(()))
        self.kept = x @ x.mT  # to be looked at later
        return call(x, *others)

    @functools.cache
    def root(width):
        return width**0.5

    def cached(query, key, value, scale=None):
        usual = 1 / root(query.shape[-1])
        return attention(query, key, value, usual if scale is None else scale)

    assert judge(find("mha-MultiHeadAttention"), buffered).passed
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
