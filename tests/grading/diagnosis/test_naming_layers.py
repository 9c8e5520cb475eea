"""What is wrong with the maps of a layer is named."""

import pytest
import torch
import torch.nn.functional as F

from attn.exercises.spec import find
from attn.grading.diagnosis import kinds
from attn.grading.diagnosis.judge import judge
from tests.grading.diagnosis.own_mistakes import with_mistakes


class _Projected(torch.nn.Module):
    """Three maps with what the task gives them, or with more or less."""

    def __init__(self, embed_dim, head_dim, **biased):
        super().__init__()
        for name in ("q_proj", "k_proj", "v_proj"):
            bias = biased.get(name, False)
            layer = torch.nn.Linear(embed_dim, head_dim, bias=bias)
            setattr(self, name, layer)

    def forward(self, x):
        q, k, v = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        return F.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) @ v


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda q, k, v: (q, v, k), "k_proj and v_proj are exchanged"),
        (lambda q, k, v: (q, q, v), "q_proj instead of k_proj"),
    ],
)
def test_maps_of_a_layer_that_are_mixed_up_are_named(change, name):
    class Mixed(_Projected):
        def forward(self, x):
            q, k, v = change(self.q_proj(x), self.k_proj(x), self.v_proj(x))
            return F.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) @ v

    verdict = judge(with_mistakes("sdp-SelfAttention"), Mixed)
    assert verdict.mistake == name


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda x: x.reshape(1, -1, x.shape[-1]), "one_sequence"),
        (lambda x: x, "causal"),
    ],
)
def test_tokens_that_see_too_much_or_too_little_are_named(change, name):
    class Other(_Projected):
        def forward(self, x):
            y = change(x)
            q, k, v = self.q_proj(y), self.k_proj(y), self.v_proj(y)
            scores = q @ k.mT / q.shape[-1] ** 0.5
            if name == "causal":
                future = torch.ones(scores.shape[-2:]).triu(1).bool()
                scores = scores.masked_fill(future, -torch.inf)
            out = scores.softmax(-1) @ v
            return out.reshape(*x.shape[:-1], out.shape[-1])

    verdict = judge(with_mistakes("sdp-SelfAttention"), Other)
    assert verdict.mistake == kinds.lines()[name][0]


def test_a_bias_too_many_is_named_with_its_map():
    class Biased(_Projected):
        def __init__(self, embed_dim, head_dim):
            super().__init__(embed_dim, head_dim, k_proj=True)

    verdict = judge(find("sdp-SelfAttention"), Biased)
    assert verdict.mistake == "A bias that the task does not have"
    assert "a bias that the task does not have: k_proj." in verdict.details


def test_other_names_of_parameters_are_told():
    class Renamed(_Projected):
        def __init__(self, embed_dim, head_dim):
            super().__init__(embed_dim, head_dim)
            self.keys = self.k_proj
            del self.k_proj

    verdict = judge(find("sdp-SelfAttention"), Renamed)
    assert verdict.mistake == "The parameters have other names"
    assert "finds keys.weight, and looks for k_proj.weight" in verdict.details


def test_two_maps_that_are_one_object_are_named_as_such():
    class Tied(_Projected):
        def __init__(self, embed_dim, head_dim):
            super().__init__(embed_dim, head_dim)
            self.k_proj = self.q_proj

    verdict = judge(find("sdp-SelfAttention"), Tied)
    assert verdict.mistake == "Two layers are one"


def test_parameters_that_are_frozen_get_no_gradient():
    class Frozen(_Projected):
        def __init__(self, embed_dim, head_dim):
            super().__init__(embed_dim, head_dim)
            self.requires_grad_(False)

    verdict = judge(find("sdp-SelfAttention"), Frozen)
    assert verdict.mistake == "Cut off from the gradient"
    assert "q_proj.weight" in verdict.message


def test_axes_that_are_counted_from_the_front_are_named():
    class ThreeAxes(_Projected):
        def forward(self, x):
            q, k, v = self.q_proj(x), self.k_proj(x), self.v_proj(x)
            scores = torch.bmm(q, k.transpose(1, 2)) / q.shape[-1] ** 0.5
            return torch.bmm(scores.softmax(2), v)

    verdict = judge(find("sdp-SelfAttention"), ThreeAxes)
    assert verdict.mistake == "Written for exactly 3 axes"
