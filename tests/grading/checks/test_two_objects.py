"""Two objects of one class are used in turns, and share nothing."""

import pytest
import torch
from torch import nn

from attn.exercises.spec import find
from attn.grading.diagnosis.judge import judge
from attn.grading.diagnosis.mutation_testing import solution

NAME = "Two objects share what they keep"
GATED = solution(find("tfm-SwiGLU"))
STATIC = solution(find("cache-StaticCache"))
HEADS = solution(find("mha-MultiHeadAttention"))


class LayersMadeOnce(GATED):
    made: dict = {}

    def __init__(self, embed_dim, hidden_dim):
        super().__init__(embed_dim, hidden_dim)
        layers = (self.gate_proj, self.up_proj, self.down_proj)
        kept = self.made.setdefault((embed_dim, hidden_dim), layers)
        self.gate_proj, self.up_proj, self.down_proj = kept


class MemoryOfTheClass(STATIC):
    rooms: dict = {}

    def __init__(self, batch, num_kv_heads, capacity, head_dim):
        super().__init__(batch, num_kv_heads, capacity, head_dim)
        self.key = self.rooms.setdefault(self.key.shape, self.key)


class HeadsOfTheClass(HEADS):
    def __init__(self, embed_dim, num_heads):
        super().__init__(embed_dim, num_heads)
        del self.num_heads
        HeadsOfTheClass.num_heads = num_heads


class WeightsOfTheClass(HEADS):
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


SHARING = {
    "tfm-SwiGLU": LayersMadeOnce,
    "cache-StaticCache": MemoryOfTheClass,
    "cache-KVCache": ListOfTheClass,
    "mha-MultiHeadAttention": HeadsOfTheClass,
}


@pytest.mark.parametrize("exercise", SHARING)
def test_objects_that_share_what_they_keep_are_refused_and_named(exercise):
    verdict = judge(find(exercise), SHARING[exercise])
    assert not verdict.passed
    assert "used in turns" in " ".join(verdict.message.split())
    assert verdict.mistake == NAME


def test_weights_that_another_object_has_loaded_are_refused():
    verdict = judge(find("mha-MultiHeadAttention"), WeightsOfTheClass)
    assert verdict.mistake == NAME


def test_constants_of_the_class_may_be_shared():
    class Constant(STATIC):
        slots: dict = {}

        def forward(self, query, key, value, position):
            slots = torch.arange(self.key.shape[2])
            self.slots.setdefault(len(slots), slots)
            return super().forward(query, key, value, position)

    assert judge(find("cache-StaticCache"), Constant).passed
