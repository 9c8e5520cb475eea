"""An answer is called again, and keeps nothing that changes its result.

A call differs from an earlier one in elements, mode, object, an argument, or
length. And a constructor gives the initial values that the task says.
"""

import functools

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from attn.exercises.spec import every_exercise, find
from attn.grading.checks.oracle import Oracle
from attn.grading.diagnosis.judge import judge, solution

HEADS, SDP = "mha-MultiHeadAttention", "sdp-attention"
Heads, attention = solution(find(HEADS)), solution(find(SDP))
Gated = solution(find("tfm-SwiGLU"))
Static = solution(find("cache-StaticCache"))
Block = solution(find("tfm-TransformerBlock"))

AGAIN = "wrong when it is called again, with other inputs"
TRAINING = "wrong when it is in training mode"
SHARED = "Two objects share what they keep"
REMEMBERED = "A result is remembered by part of the arguments"
LONGER = "wrong when it is called again, with a longer input:"


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


def first_default(query, key, value, scale=None, held=[]):  # noqa: B006
    held.append(scale or query.shape[-1] ** -0.5)
    return attention(query, key, value, held[0])


def reuses(*args, room={}, **kwargs):  # noqa: B006
    out = attention(*args, **kwargs)
    key = out.shape, out.dtype
    kept = room.setdefault(key, torch.empty_like(out.detach()))
    return kept.detach().copy_(out)


class LayersMadeOnce(Gated):
    made: dict = {}

    def __init__(self, embed_dim, hidden_dim):
        super().__init__(embed_dim, hidden_dim)
        layers = (self.gate_proj, self.up_proj, self.down_proj)
        kept = self.made.setdefault((embed_dim, hidden_dim), layers)
        self.gate_proj, self.up_proj, self.down_proj = kept


class HeadsOfTheClass(Heads):
    def __init__(self, embed_dim, num_heads):
        super().__init__(embed_dim, num_heads)
        del self.num_heads
        HeadsOfTheClass.num_heads = num_heads


class WeightsOfTheClass(Heads):
    kept: dict = {}

    def load_state_dict(self, state_dict, *args, **kwargs):
        self.kept.update(state_dict)
        return super().load_state_dict(state_dict, *args, **kwargs)

    def forward(self, x, kv_input=None, attn_mask=None):
        self.q_proj.weight.data = self.kept["q_proj.weight"]
        return super().forward(x, kv_input, attn_mask)


class ListOfTheClass(nn.Module):
    """Empty at each start, so that one object alone is right."""

    chunks: list = []

    def __init__(self):
        super().__init__()
        self.chunks.clear()

    def forward(self, key, value):
        before = sum(k.shape[2] for k, _ in self.chunks)
        self.chunks.append((key, value))
        keys, values = (torch.cat(x, 2) for x in zip(*self.chunks))  # noqa: B905
        return keys, values, before


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


class RemembersNames(solution(find("iface-Registry"))):
    listed = None

    def names(self):
        self.listed = self.listed or super().names()
        return self.listed


ROWS = torch.arange(128)


def padding(lengths, kv_len):
    return (ROWS[:kv_len] < lengths[:, None])[:, None, None]


class ShortBlock(Block):
    def forward(self, x, cos, sin):
        return super().forward(x[:, :64], cos[:64], sin[:64])


def starting_with(make):
    class Other(Block):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.feed_forward_norm.data = make(self.feed_forward_norm)

    return Other


REFUSED = [
    (HEADS, keeps_the_mask, AGAIN, None),
    (HEADS, keeps_results, "it returns an earlier call's result", None),
    (HEADS, drops, f"{TRAINING}: it draws random numbers", None),
    (HEADS, unmasked, TRAINING, None),
    (HEADS, switches_itself, f"{TRAINING}: it switches itself", None),
    (HEADS, changes_its_weights, "changes its parameter q_proj.weight", None),
    (SDP, first_default, "", None),
    (SDP, reuses, "it changes what it returned earlier", None),
    ("tfm-SwiGLU", LayersMadeOnce, "used in turns", SHARED),
    ("cache-KVCache", ListOfTheClass, "used in turns", SHARED),
    (HEADS, HeadsOfTheClass, "used in turns", SHARED),
    (HEADS, WeightsOfTheClass, "", SHARED),
    ("iface-Registry", RemembersNames, "names are listed", None),
    *(
        (exercise, remembering(exercise, name), words, REMEMBERED)
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
    ("mask-padding", padding, LONGER, "Made for shorter inputs"),
    ("tfm-TransformerBlock", ShortBlock, LONGER, "Made for shorter inputs"),
    *(
        (
            "tfm-TransformerBlock",
            starting_with(make),
            "have their initial values",
            "Other initial values",
        )
        for make in (torch.zeros_like, torch.randn_like)
    ),
]


def test_the_details_have_the_inputs_of_the_earlier_call():
    says = "called earlier with  x ("
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


class ConstantOfTheClass(Static):
    slots: dict = {}

    def forward(self, query, key, value, position):
        slots = torch.arange(self.key.shape[2])
        self.slots.setdefault(len(slots), slots)
        return super().forward(query, key, value, position)


TABLE = [torch.arange(1)]


def grows(lengths, kv_len):
    if kv_len > len(TABLE[0]):
        TABLE[0] = torch.arange(kv_len)
    return (TABLE[0][:kv_len] < lengths[:, None])[:, None, None]


ACCEPTED = [
    (HEADS, buffered),
    (SDP, cached),
    ("cache-StaticCache", ConstantOfTheClass),
    ("mask-padding", grows),
    *(
        (x, remembering(x, None))
        for x in ("pos-sinusoidal", "rope-frequencies", "mask-causal")
    ),
]


@pytest.mark.parametrize(
    ("exercise", "answer", "words", "mistake"),
    [*REFUSED, *((*x, None, None) for x in ACCEPTED)],
    ids=lambda x: "",
)
def test_what_makes_a_later_call_wrong_is_refused_and_no_more(
    exercise, answer, words, mistake
):
    verdict = judge(find(exercise), answer)
    assert verdict.passed == (words is None)
    assert (words or "") in " ".join(verdict.message.split())
    assert mistake in (None, verdict.mistake)


@pytest.mark.parametrize("exercise", every_exercise(), ids=lambda x: x.id)
def test_every_exercise_calls_an_answer_again_at_the_end(exercise):
    oracle, usual = Oracle(exercise, 0), len(exercise.generate(0))
    added = oracle.cases[usual:]
    assert any(case.before for case in added) or exercise.launch
    if exercise.id == HEADS:
        assert not any(case.before for case in oracle.cases[:usual])
        assert {case.train for case in added} == {False, True}
        assert any(case.kwargs.get("attn_mask") is not None for case in added)
