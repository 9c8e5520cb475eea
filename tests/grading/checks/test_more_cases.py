"""A call differs from an earlier one in its object, an argument, or length.

And a constructor gives the initial values that the task says.
"""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from attn.exercises.spec import find
from attn.grading.diagnosis.judge import judge, solution

Heads = solution(find("mha-MultiHeadAttention"))
Gated = solution(find("tfm-SwiGLU"))
Static = solution(find("cache-StaticCache"))
Block = solution(find("tfm-TransformerBlock"))


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


@pytest.mark.parametrize(
    ("exercise", "answer", "in_turns"),
    [
        ("tfm-SwiGLU", LayersMadeOnce, True),
        ("cache-KVCache", ListOfTheClass, True),
        ("mha-MultiHeadAttention", HeadsOfTheClass, True),
        ("mha-MultiHeadAttention", WeightsOfTheClass, False),
    ],
)
def test_objects_that_share_what_they_keep_are_refused_and_named(
    exercise, answer, in_turns
):
    verdict = judge(find(exercise), answer)
    assert not verdict.passed
    assert verdict.mistake == "Two objects share what they keep"
    if in_turns:  # else a case before those is wrong, too
        assert "used in turns" in " ".join(verdict.message.split())


def test_constants_of_the_class_may_be_shared():
    class Constant(Static):
        slots: dict = {}

        def forward(self, query, key, value, position):
            slots = torch.arange(self.key.shape[2])
            self.slots.setdefault(len(slots), slots)
            return super().forward(query, key, value, position)

    assert judge(find("cache-StaticCache"), Constant).passed


# --- one other argument ------------------------------------------------------


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


@pytest.mark.parametrize(
    ("exercise", "left_out"),
    [
        ("pos-sinusoidal", "base"),
        ("why-soft_lookup", "value"),
        ("why-soft_lookup", "temperature"),
        ("sdp-attention", "scale"),
        ("tfm-rms_norm", "eps"),
        ("mha-split_heads", "num_heads"),
        ("mask-apply_mask", "mask"),
    ],
)
def test_a_result_remembered_by_part_of_the_arguments_is_named(
    exercise, left_out
):
    verdict = judge(find(exercise), remembering(exercise, left_out))
    assert not verdict.passed
    name = "A result is remembered by part of the arguments"
    assert verdict.mistake == name
    if left_out not in ("scale", "value"):  # wrong in a derived case, too
        words = " ".join(verdict.message.split())
        assert f"only {left_out} is another" in words


@pytest.mark.parametrize(
    "exercise", ["pos-sinusoidal", "rope-frequencies", "mask-causal"]
)
def test_a_result_remembered_by_all_arguments_is_accepted(exercise):
    assert judge(find(exercise), remembering(exercise, None)).passed


def test_names_listed_before_a_pair_is_registered_are_not_remembered():
    class Remembers(solution(find("iface-Registry"))):
        listed = None

        def names(self):
            self.listed = self.listed or super().names()
            return self.listed

    verdict = judge(find("iface-Registry"), Remembers)
    assert not verdict.passed
    assert "names are listed" in " ".join(verdict.message.split())


# --- a longer input ----------------------------------------------------------


ROWS = torch.arange(128)


def padding(lengths, kv_len):
    return (ROWS[:kv_len] < lengths[:, None])[:, None, None]


class ShortBlock(Block):
    def forward(self, x, cos, sin):
        return super().forward(x[:, :64], cos[:64], sin[:64])


def lookup(query, key, value, temperature=1.0):
    key, value = key[..., :128, :], value[..., :128, :]
    scores = query @ key.mT / temperature
    return F.softmax(scores, -1) @ value


@pytest.mark.parametrize(
    ("exercise", "answer"),
    [
        ("mask-padding", padding),
        ("tfm-TransformerBlock", ShortBlock),
        ("why-soft_lookup", lookup),
    ],
)
def test_an_answer_made_for_fewer_tokens_is_refused_and_named(
    exercise, answer
):
    verdict = judge(find(exercise), answer)
    assert not verdict.passed
    assert verdict.condition == "it is called again, with a longer input"
    assert verdict.mistake == "Made for shorter inputs", verdict.message


def test_a_table_that_grows_is_accepted():
    table = [torch.arange(1)]

    def grows(lengths, kv_len):
        if kv_len > len(table[0]):
            table[0] = torch.arange(kv_len)
        return (table[0][:kv_len] < lengths[:, None])[:, None, None]

    assert judge(find("mask-padding"), grows).passed


# --- initial values ----------------------------------------------------------


@pytest.mark.parametrize("make", [torch.zeros_like, torch.randn_like])
def test_other_initial_values_than_the_task_says_are_refused(make):
    class Other(Block):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.feed_forward_norm.data = make(self.feed_forward_norm)

    verdict = judge(find("tfm-TransformerBlock"), Other)
    assert "have their initial values" in verdict.condition
    assert verdict.mistake == "Other initial values"
