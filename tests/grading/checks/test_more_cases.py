"""An answer is called again, and keeps nothing that changes its result.

A call differs from an earlier one in elements, mode, object, an argument, or
length. And a constructor gives the initial values that the task says.
"""

import functools

import pytest
import torch
import torch.nn.functional as F

from attn.exercises.solution import solution
from attn.exercises.spec import every_exercise, find
from attn.grading.checks.oracle import Oracle
from attn.grading.diagnosis.judge import judge
from tests.grading.diagnosis.own_mistakes import edited, rows

HEADS, SDP = "mha-MultiHeadAttention", "sdp-attention"
Heads, attention = solution(find(HEADS)), solution(find(SDP))

AGAIN = "wrong when it is called again, with other inputs"
TRAINING = "wrong when it is in training mode"
REMEMBERED = "A result is remembered by part of the arguments"


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
def keeps_results(self, call, x, kv_input, mask):
    shapes = x.shape, getattr(kv_input, "shape", 0), mask is None
    self.kept = self.kept or {}
    if shapes not in self.kept:
        self.kept[shapes] = call(x, kv_input, mask)
    return self.kept[shapes]


drops = heads(
    lambda self, call, x, *y: call(F.dropout(x, 0.1, self.training), *y)
)
unmasked = heads(
    lambda self, call, x, y, mask: call(x, y, None if self.training else mask)
)


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


class WeightsOfTheClass(Heads):
    kept: dict = {}

    def load_state_dict(self, state_dict, *args, **kwargs):
        self.kept.update(state_dict)
        return super().load_state_dict(state_dict, *args, **kwargs)

    def forward(self, x, kv_input=None, attn_mask=None):
        self.q_proj.weight.data = self.kept["q_proj.weight"]
        return super().forward(x, kv_input, attn_mask)


def remembering(exercise, left_out):
    """Return an answer that looks results up without one argument."""
    right, kept = solution(find(exercise)), {}
    names = list(find(exercise).parameters)

    def told_apart(x):
        if not isinstance(x, torch.Tensor):
            return x
        return x.shape, x.dtype, x.requires_grad, tuple(x.flatten().tolist())

    def answer(*args, **kwargs):
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        given.pop(left_out, None)
        key = tuple((name, told_apart(x)) for name, x in given.items())
        if key not in kept:
            kept[key] = right(*args, **kwargs)
        return kept[key]

    return answer


#: Edits of solutions; the mistake's name, and words of the message.
EDITS = """
sdp-attention | = None, => = None, held=[], ; scores = => held.append(scale);\
 scores = ; * scale => * held[0] | None | wrong when
sdp-attention | = None, => = None, room={},\
 ; return softmax(scores) @ value => out = softmax(scores) @ value;\
 key = out.shape, out.dtype; new = torch.empty_like(out.detach());\
 return room.setdefault(key, new).detach().copy_(out)\
 | An earlier result is changed | it changes what it returned earlier
iface-Registry | return list => self.listed = vars(self).get("listed") or list\
 ; self.pairs])) => self.pairs])); return self.listed\
 | None | names are listed
tfm-SwiGLU | int): => int, made={}):\
 ; self.down_proj = => key = embed_dim, hidden_dim;\
 self.up_proj = made.setdefault(key, self.up_proj); self.down_proj =\
 | Two objects share what they keep | used in turns
cache-KVCache | super().__init__() => super().__init__();\
 type(self).kept = None, None\
 ; q_offset = 0 => q_offset = 0; self.key, self.value = self.kept\
 ; self.key, self.value = key, value => type(self).kept = key, value\
 | Two objects share what they keep | used in turns
mha-MultiHeadAttention | self.num_heads = => type(self).num_heads =\
 | Two objects share what they keep | used in turns
mask-padding | torch.arange(kv_len) => torch.arange(128)[:kv_len]\
 | Made for shorter inputs\
 | wrong when it is called again, with a longer input:
tfm-TransformerBlock | h = rms_norm(x, self.attention_norm =>\
 x, cos, sin = x[:, :64], cos[:64], sin[:64];\
 h = rms_norm(x, self.attention_norm\
 | Made for shorter inputs\
 | wrong when it is called again, with a longer input:
tfm-TransformerBlock | forward_norm = nn.Parameter(torch.ones\
 => forward_norm = nn.Parameter(torch.zeros\
 | Other initial values | have their initial values
tfm-TransformerBlock | forward_norm = nn.Parameter(torch.ones\
 => forward_norm = nn.Parameter(torch.randn\
 | Other initial values | have their initial values
"""
REFUSED = [
    (HEADS, keeps_the_mask, None, AGAIN),
    (HEADS, keeps_results, None, "it returns an earlier call's result"),
    (HEADS, drops, None, f"{TRAINING}: it draws random numbers"),
    (HEADS, unmasked, None, TRAINING),
    (HEADS, switches_itself, None, f"{TRAINING}: it switches itself"),
    (HEADS, changes_its_weights, None, "changes its parameter q_proj.weight"),
    (HEADS, WeightsOfTheClass, "Two objects share what they keep", ""),
    *(
        (exercise, remembering(exercise, name), REMEMBERED, words)
        for exercise, name, words in (
            ("pos-sinusoidal", "base", "only base is another"),
            ("why-soft_lookup", "temperature", "only temperature is another"),
            ("tfm-rms_norm", "eps", "only eps is another"),
            ("mha-split_heads", "num_heads", "only num_heads is another"),
            ("mask-apply_mask", "mask", "only mask is another"),
            # Wrong in a derived case, too.
            ("why-soft_lookup", "value", ""),
            (SDP, "scale", ""),
        )
    ),
    *((x, edited(x, edit), *said) for x, edit, *said in rows(EDITS)),
]


def test_the_details_have_the_inputs_of_the_earlier_call():
    says = "called earlier:  MultiHeadAttention(embed_dim="
    assert says in judge(find(HEADS), keeps_the_mask).details
    assert says not in judge(find(HEADS), changes_its_weights).details


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


CONSTANTS = """
cache-StaticCache | position: Tensor, => position: Tensor, kept={}, ; slots =\
 torch.arange(self.key.shape[2]) => S = self.key.shape[2]; slots =\
 kept.setdefault(S, torch.arange(S))
mask-padding | int) => int, kept=[torch.arange(1)])\
 ; real = torch.arange(kv_len)\
 => new = torch.arange(kv_len); kept[0] = max(kept[0], new, key=len);\
 real = kept[0][:kv_len]
"""
REMEMBERED_WHOLE = ("pos-sinusoidal", "rope-frequencies", "mask-causal")
ACCEPTED = [
    (HEADS, buffered),
    (SDP, cached),
    *((x, edited(x, edit)) for x, edit in rows(CONSTANTS)),
    *((x, remembering(x, None)) for x in REMEMBERED_WHOLE),
]


@pytest.mark.parametrize(
    ("exercise", "answer", "mistake", "words"),
    [*REFUSED, *((*x, None, None) for x in ACCEPTED)],
    ids=lambda x: "",
)
def test_what_makes_a_later_call_wrong_is_refused_and_no_more(
    exercise, answer, mistake, words
):
    verdict = judge(find(exercise), answer)
    assert verdict.passed == (words is None)
    assert (words or "") in " ".join(verdict.message.split())
    assert mistake in (None, str(verdict.mistake))


@pytest.mark.parametrize("exercise", every_exercise(), ids=lambda x: x.id)
def test_every_exercise_calls_an_answer_again_at_the_end(exercise):
    oracle, usual = Oracle(exercise, 0), len(exercise.generate(0))
    added = oracle.cases[usual:]
    assert any(case.before for case in added) or exercise.launch
    if exercise.id == HEADS:
        assert not any(case.before for case in oracle.cases[:usual])
        assert {case.train for case in added} == {False, True}
        assert any(case.kwargs.get("attn_mask") is not None for case in added)
