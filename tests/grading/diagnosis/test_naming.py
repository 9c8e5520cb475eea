"""A name is true in every case that ran; else there is no name."""

import pytest
import torch

from attn.exercises.spec import find
from attn.grading.checks.failures import failures, run_all
from attn.grading.checks.oracle import Oracle
from attn.grading.diagnosis.judge import judge, mutation_score
from tests.grading.diagnosis.own_mistakes import (
    edited,
    judged,
    with_mistakes,
)

NAMED = "this looks like: "


TILED = "return torch.cat([x] * n_rep, dim=-3)"
TILED_TOO = "return x.repeat(*[1] * (x.dim() - 3), n_rep, 1, 1)"


def test_a_slot_too_many_is_named_whichever_page_minus_one_is():
    edit = (
        "- block_table.clamp(min=0).long()\n+ block_table.long()\n"
        "- < seq_len[:, None]\n+ <= seq_len[:, None]"
    )
    verdict = judged("serve-paged_attention", edit)
    assert verdict.mistake == "One slot too many"


def test_mutation_testing_runs_the_cases_that_tell_two_mistakes_apart():
    """They are the same in the first case that is wrong, and stop there."""
    exercise = with_mistakes(
        "gqa-repeat_kv",
        ("tiled", TILED),
        ("tiled, now and then", TILED + " if n_rep == 2 else x"),
        ("off by a little", "return x.repeat_interleave(n_rep, -3) + 1e-2"),
    )
    oracle = Oracle(exercise, 0)
    ran = [run_all(x.answer, oracle, quick=True) for x in exercise.mistakes]
    assert len({len(x) for x in ran[:2]}) == 1
    assert all(len(failures(oracle, x)) == 1 for x in ran)
    score = mutation_score(exercise)
    assert not score.failures and score.counts[:3] == (3, 3, 3)


def test_mistakes_that_cannot_be_told_apart_are_all_said():
    exercise = with_mistakes("gqa-repeat_kv", ("A", TILED), ("B", TILED_TOO))
    verdict = judge(exercise, edited("gqa-repeat_kv", TILED))
    assert verdict.message.startswith(f"{NAMED}A — or: B\n")
    assert "Why A?" in verdict.message and "Why B?" in verdict.details


def test_a_mistake_of_one_special_case_is_no_name():
    exercise = with_mistakes("rope-permute_weights", ("A", "return weight"))
    nothing_moves_with_one_head = "- transpose(1, 2)\n+ transpose(0, 1)"
    answer = edited("rope-permute_weights", nothing_moves_with_one_head)
    verdict = judge(exercise, answer)
    assert NAMED + "A" not in verdict.message
    assert "in this case it behaves like: A" in verdict.message


def test_the_same_error_text_is_not_the_same_mistake():
    """Shapes that do not fit read the same, wherever they meet."""

    def only_the_keys(q, k, v, *rest, enable_gqa=False, **options):
        right = find("sdpa-scaled_dot_product_attention").reference
        if enable_gqa:
            k = k.repeat_interleave(q.shape[-3] // k.shape[-3], -3)
            scores = q @ k.mT * q.shape[-1] ** -0.5
            return scores.softmax(-1) @ v
        return right(q, k, v, *rest, **options)

    exercise = find("sdpa-scaled_dot_product_attention")
    verdict = judge(exercise, only_the_keys)
    assert verdict.mistake != "enable_gqa is ignored"


def test_the_exercises_own_mistake_comes_before_a_kind():
    code = "return torch.ones(q_len, kv_len).tril(q_offset)"
    numbers = edited("mask-causal", code)
    kind = judge(with_mistakes("mask-causal"), numbers)
    assert kind.mistake == "Numbers instead of True and False"
    own = judge(with_mistakes("mask-causal", ("Own", code)), numbers)
    assert own.mistake == "Own"


@pytest.mark.parametrize(
    "exercise_id",
    ["sdp-attention_loops", "mask-causal", "gqa-pool_heads"],
)
def test_nonsense_has_no_name(exercise_id):
    exercise = find(exercise_id)

    def nonsense(*args, **kwargs):
        right = exercise.reference(*args, **kwargs)
        if right.dtype == torch.bool:
            return right ^ (
                torch.arange(right.numel()).view(right.shape) % 7 == 3
            )
        return torch.sin(right * 3.7 + 0.3)

    verdict = judge(exercise, nonsense)
    assert not verdict.passed
    assert NAMED not in verdict.message


def test_a_mistake_in_the_numbers_is_named_with_more_memory_or_less():
    """The listed mistake repeats the keys; the loop copies nothing."""

    def loop(query, key, value, attn_mask=None):
        heads, groups = query.shape[1], query.shape[1] // key.shape[1]
        shape = *query.shape[:3], key.shape[2]
        mask = torch.ones(shape).bool() if attn_mask is None else attn_mask
        mask, out = mask.expand(shape), []
        for h in range(heads):
            scores = query[:, h] @ key[:, h // groups].mT
            scores = scores / query.shape[-1] ** 0.5
            scores = scores.masked_fill(~mask[:, h], -torch.inf)
            out.append(scores.softmax(-1) @ value[:, h % key.shape[1]])
        return torch.stack(out, 1)

    verdict = judge(find("gqa-grouped_attention"), loop)
    assert verdict.mistake == "Only the values are in tile order"


def test_a_gradient_that_is_0_but_for_rounding_does_not_hide_a_name():
    """The gradient of k_proj.bias is 0: a softmax does not see it."""
    exercise = find("mha-MultiHeadAttention")

    class Residual(exercise.reference):
        def forward(self, x, kv_input=None, attn_mask=None):
            return super().forward(x, kv_input, attn_mask) + x

    verdict = judge(exercise, Residual)
    assert verdict.mistake == "The input is added to the result"
