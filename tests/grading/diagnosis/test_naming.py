"""A name is true in every case that ran; else there is no name."""

import random

import pytest
import torch

from attn.exercises.spec import find
from attn.grading.checks.clock import OutOfTime
from attn.grading.checks.failures import run_all
from attn.grading.checks.oracle import Oracle
from attn.grading.checks.problems import failures
from attn.grading.diagnosis.judge import judge, mutation_score
from attn.grading.diagnosis.mutants import mutants
from tests.grading.diagnosis.own_mistakes import (
    edited,
    rows,
    unlisted,
    with_mistakes,
)

NAMED = "this looks like: "

TILE_ORDER = "Values in tile order (0, 1, 0, 1), not (0, 0, 1, 1)"
TILED = "return torch.cat([x] * n_rep, dim=-3)"
TILED_TOO = "return x.repeat(*[1] * (x.dim() - 3), n_rep, 1, 1)"


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
    "exercise_id", ["sdp-attention_loops", "mask-causal", "gqa-pool_heads"]
)
def test_nonsense_has_no_name(exercise_id):
    exercise = find(exercise_id)

    def nonsense(*args, **kwargs):
        right = exercise.reference(*args, **kwargs)
        if right.dtype == torch.bool:
            number = torch.arange(right.numel()).view(right.shape)
            return right ^ (number % 7 == 3)
        return torch.sin(right * 3.7 + 0.3)

    verdict = judge(exercise, nonsense)
    assert not verdict.passed
    assert NAMED not in verdict.message


def loop(query, key, value, attn_mask=None):
    """The listed mistake repeats the keys; the loop copies nothing."""
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


#: Listed mistakes in other forms: of the first, a gradient that is 0 but for
#: rounding differs; of the second, page -1 is another. In the third, more
#: memory alone is not called a listed way to take it.
FORMS = """
mha-MultiHeadAttention | merge_heads(out)) => merge_heads(out)) + x\
 | The input is added in this layer, not in the block around it
serve-paged_attention | block_table.clamp(min=0).long() => block_table.long()\
 ; < seq_len[:, None] => <= seq_len[:, None]\
 | Slots after a row's last token are read, not masked
linear-chunked | ((end - c).exp() * k).mT @ v => torch.einsum(\
"...jd,...jv,...j->...dv", k, v, (end - c)[..., 0].exp())\
 | More is in memory at once than the task allows
"""


@pytest.mark.parametrize(
    ("exercise_id", "answer", "name"),
    [
        # With more memory or less than the listed one.
        ("gqa-grouped_attention", loop, TILE_ORDER),
        *((x, edited(x, edit), name) for x, edit, name in rows(FORMS)),
    ],
)
def test_an_answer_in_another_form_has_its_name(exercise_id, answer, name):
    assert judge(find(exercise_id), answer).mistake == name


#: Listed mistakes, and a name that is true, or false, when no list has them.
NAMES = """
cache-attention_cost | One of the two times is left out, edit 2 | false\
 | peak squared
rope-llama3_scaling | There is no mixed zone, but a cut at one of the\
 factors, edit 2 | false | -low_freq
why-soft_lookup | Divided by the root of D, not by the temperature alone,\
 edit 2 | false | applied twice
gqa-pool_heads | The mean runs over groups or rows, not a group's heads,\
 edit 1 | false | off by one
gqa-pool_heads | The mean runs over groups or rows, not a group's heads,\
 edit 2 | true | Along another axis
rope-apply_rope | Pairs rotate by -t, not by t | true\
 | Computed with -inv_freq
"""
MORE = """
cache-attention_cost | One of the two times is left out, edit 1 | false\
 | counts twice
flash-tiled_backward | The return is inside the loop, not after it | false\
 | wrong order
tfm-tie_and_init | The head is detached | false | factor
rope-permute_weights | The heads stay an axis instead of being joined with\
 rows | false | off by one
cache-attention_cost | One of the two times is left out, edit 1 | true\
 | A bound is missing
why-kernel_regression | The bandwidth is not squared | true\
 | An exponent is missing
tfm-tie_and_init | The embedding keeps size 1, not std | true\
 | Off by the factor 1 / std
"""
LONG = [pytest.param(*x, marks=pytest.mark.exhaustive) for x in rows(MORE)]


@pytest.mark.parametrize(
    ("exercise_id", "name", "kind", "part"), [*rows(NAMES), *LONG]
)
def test_a_true_name_is_given_and_no_false_one(exercise_id, name, kind, part):
    exercise, mistake = unlisted(exercise_id, name)
    found = judge(exercise, mistake.answer).mistake or ""
    assert (part in found) == (kind == "true")


@pytest.mark.exhaustive
def test_what_no_list_has_gets_the_name_of_a_kind():
    edit = "- logits / temperature\n+ logits / temperature**2"
    verdict = judge(find("tfm-sample"), edited("tfm-sample", edit))
    assert verdict.mistake == "A factor counts twice"


@pytest.mark.parametrize(
    ("exercise_id", "condition"),
    [
        ("serve-match_prefix", "the prompt is cached whole"),
        ("pos-alibi_slopes", "the number of heads is another power of two"),
    ],
)
def test_a_change_without_end_is_stopped_by_its_turns(exercise_id, condition):
    """Each would take five seconds of the learner's, and there are many."""
    oracle = Oracle(find(exercise_id), 0)
    errors = [
        oracle.run(x, i).error
        for x in mutants(oracle.exercise)
        for i, case in enumerate(oracle.cases)
        if case.condition == condition
    ]
    assert any(isinstance(x, OverflowError) for x in errors)
    assert not any(isinstance(x, OutOfTime) for x in errors)


@pytest.mark.parametrize("seed", range(2))
def test_names_in_the_order_of_a_set_are_not_called_sorted(seed):
    """The order of a set is drawn when Python starts: here, by a seed."""
    exercise = find("iface-Registry")
    (right, *_) = exercise.equivalents

    class Registry(right.answer):
        def names(self):
            names = sorted(super().names())
            return random.Random(seed).sample(names, len(names))

    assert "sorted" not in (judge(exercise, Registry).mistake or "")
