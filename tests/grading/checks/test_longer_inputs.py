"""A table or a mask that is made once is too short for a longer input."""

import pytest
import torch
import torch.nn.functional as F

from attn.exercises.spec import find
from attn.grading.diagnosis.judge import judge
from attn.grading.diagnosis.mutation_testing import solution

NAME = "Made for shorter inputs"
ROWS = torch.arange(128)


def padding(lengths, kv_len):
    return (ROWS[:kv_len] < lengths[:, None])[:, None, None]


class Grouped(solution(find("gqa-GroupedQueryAttention"))):
    def forward(self, x, attn_mask=None):
        return super().forward(x[:, : len(ROWS)], attn_mask)


class Block(solution(find("tfm-TransformerBlock"))):
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
        ("gqa-GroupedQueryAttention", Grouped),
        ("tfm-TransformerBlock", Block),
        ("why-soft_lookup", lookup),
    ],
)
def test_an_answer_made_for_fewer_tokens_is_refused_and_named(
    exercise, answer
):
    verdict = judge(find(exercise), answer)
    assert not verdict.passed
    assert verdict.condition == "it is called again, with a longer input"
    assert verdict.mistake == NAME, verdict.message


def test_a_table_that_grows_is_accepted():
    table = [torch.arange(1)]

    def grows(lengths, kv_len):
        if kv_len > len(table[0]):
            table[0] = torch.arange(kv_len)
        return (table[0][:kv_len] < lengths[:, None])[:, None, None]

    assert judge(find("mask-padding"), grows).passed
