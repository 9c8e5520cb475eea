"""A name is true in every case that ran; else there is no name."""

import re
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from attn.exercises.spec import every_exercise, find
from attn.grading.checks.failures import failures, run_all
from attn.grading.checks.oracle import Oracle
from attn.grading.diagnosis import kinds, mutants
from attn.grading.diagnosis.judge import judge
from attn.grading.diagnosis.mutation_testing import mutation_score
from attn.grading.diagnosis.naming import KINDS
from solutions.ch09_transformer import map_llama_weights

NAMED = "this looks like: "


def with_mistakes(exercise_id, *edits):
    """Return an exercise with a list of mistakes of its own."""
    exercise = replace(find(exercise_id))
    first = find(exercise_id).mistakes[0]
    exercise.__dict__["mistakes"] = [
        replace(first, name=name, why=f"Why {name}?", code=code, place=name)
        for name, code in edits
    ]
    return exercise


def first_line(verdict):
    return verdict.message.splitlines()[0]


TILED = "return torch.cat([x] * n_rep, dim=-3)"
TILED_TOO = "return x.repeat(*[1] * (x.dim() - 3), n_rep, 1, 1)"


def tiled(x, n_rep):
    return torch.cat([x for _ in range(n_rep)], dim=-3)


def test_the_one_mistake_that_gives_the_same_is_named():
    exercise = with_mistakes("gqa-repeat_kv", ("A", TILED))
    verdict = judge(exercise, tiled)
    assert verdict.mistake == "A"
    assert first_line(verdict) == NAMED + "A"


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
    score = mutation_score(exercise, quick=True)
    assert not score.failures and score.named == 3


def test_mistakes_that_cannot_be_told_apart_are_all_said():
    exercise = with_mistakes("gqa-repeat_kv", ("A", TILED), ("B", TILED_TOO))
    verdict = judge(exercise, tiled)
    assert first_line(verdict) == NAMED + "A — or: B"
    assert "Why A?" in verdict.message and "Why B?" in verdict.details


def test_a_mistake_of_one_special_case_is_no_name():
    def nothing_moves_with_one_head(weight, num_heads):
        pairs = weight.unflatten(0, (num_heads, -1, 2))
        return pairs.transpose(0, 1).flatten(0, 2)

    exercise = with_mistakes("rope-permute_weights", ("A", "return weight"))
    verdict = judge(exercise, nothing_moves_with_one_head)
    assert NAMED + "A" not in verdict.message
    assert "in this case it behaves like: A" in verdict.message


def test_the_same_error_text_is_not_the_same_mistake():
    """Shapes that do not fit read the same, wherever they meet."""

    def only_the_keys(
        q,
        k,
        v,
        attn_mask=None,
        dropout_p=0.0,
        is_causal=False,
        scale=None,
        enable_gqa=False,
    ):
        right = find("sdpa-scaled_dot_product_attention").reference
        if enable_gqa:
            k = k.repeat_interleave(q.shape[-3] // k.shape[-3], -3)
            scores = q @ k.mT * q.shape[-1] ** -0.5
            return scores.softmax(-1) @ v
        return right(q, k, v, attn_mask, dropout_p, is_causal, scale)

    exercise = find("sdpa-scaled_dot_product_attention")
    verdict = judge(exercise, only_the_keys)
    assert verdict.mistake != "enable_gqa is ignored"


def test_the_exercises_own_mistake_comes_before_a_kind():
    def numbers(q_len, kv_len, q_offset=0):
        return torch.ones(q_len, kv_len).tril(q_offset)

    kind = judge(with_mistakes("mask-causal"), numbers)
    assert kind.mistake == "Numbers instead of True and False"
    code = "return torch.ones(q_len, kv_len).tril(q_offset)"
    own = judge(with_mistakes("mask-causal", ("Own", code)), numbers)
    assert own.mistake == "Own"


def _view(x):
    x = x.transpose(-2, -3)
    return x.view(*x.shape[:-2], -1)


def _four_axes(x):
    B, H, L, D = x.shape
    return x.transpose(-2, -3).flatten(-2)


def _in_place(x):
    y = x.transpose(-2, -3).flatten(-2)
    x.zero_()
    return y


def _merged(x):
    return x.transpose(-2, -3).flatten(-2)


ANSWERS = {
    "view": _view,
    "axes_counted": _four_axes,
    "in_place": _in_place,
    "nothing_returned": lambda x: None,
    "no_gradient": lambda x: _merged(x).detach(),
    "wrong_dtype": lambda x: _merged(x).double(),
    "axes_of_one": lambda x: _merged(x).unsqueeze(0),
    "random": lambda x: F.dropout(_merged(x)),
    "another_type": lambda x: _merged(x).tolist(),
    "factor": lambda x: _merged(x) * 3,
    "flipped": lambda x: _merged(x).flip(-1),
    "never_written": lambda x: (
        torch.empty_like(_merged(x)).clone()
        if x.requires_grad is False
        else _merged(x)
    ),
    "all_zero": lambda x: _merged(x) * 0,
}


@pytest.mark.parametrize("key", ANSWERS)
def test_a_kind_of_mistake_is_named_in_any_exercise(key):
    exercise = with_mistakes("mha-merge_heads")
    verdict = judge(exercise, ANSWERS[key])
    name, _ = kinds.lines()[key]
    pattern = re.sub(r"\\{\w+\\}", ".+", re.escape(name))
    assert re.match(pattern, verdict.mistake or ""), verdict.message


def _grouped(query, key, value, mask=None):
    rows = query.unflatten(1, (key.shape[1], -1)).flatten(2, 3)
    scores = rows @ key.mT / query.shape[-1] ** 0.5
    scores = scores.view(*query.shape[:-1], -1)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    weights = scores.softmax(-1).nan_to_num(0)
    weights = weights.unflatten(1, (key.shape[1], -1))
    return (weights.flatten(2, 3) @ value).view(*query.shape[:-1], -1)


def _one_token_more(
    batch,
    seq_len,
    num_layers,
    num_kv_heads,
    head_dim,
    dtype=torch.bfloat16,
):
    heads = num_layers * num_kv_heads * head_dim
    return 2 * batch * (seq_len + 1) * heads * dtype.itemsize


def _float32_by_default(
    batch, seq_len, num_layers, num_kv_heads, head_dim, dtype=torch.float32
):
    heads = num_layers * num_kv_heads * head_dim
    return 2 * batch * seq_len * heads * dtype.itemsize


def _table_of_shapes():
    """Return a mask that keeps the first of each shape."""
    masks = {}

    def causal(q_len, kv_len, q_offset=0):
        mask = torch.ones(q_len, kv_len).tril(q_offset).bool()
        return masks.setdefault((q_len, kv_len), mask)

    return causal


@pytest.mark.parametrize(
    ("exercise_id", "answer", "name"),
    [
        (
            "sdpa-softcap",
            lambda s, cap, attn_mask=None: cap * torch.tanh(s / cap),
            "attn_mask is ignored",
        ),
        (
            "gqa-grouped_attention",
            lambda q, k, v, attn_mask=None: _grouped(
                q / q.shape[-1] ** 0.5, k, v, attn_mask
            ),
            "The scale is applied twice",
        ),
        (
            "gqa-grouped_attention",
            lambda q, k, v, attn_mask=None: _grouped(
                q, k, v, None if attn_mask is None else ~attn_mask
            ),
            "attn_mask is inverted",
        ),
        (
            "gqa-kv_cache_bytes",
            _one_token_more,
            "Off by one: computed with seq_len one more",
        ),
        (
            "gqa-kv_cache_bytes",
            _float32_by_default,
            "The default of dtype is torch.float32",
        ),
        (
            "rope-frequencies",
            lambda d, base=10000.0: (1 / base) ** -(torch.arange(0, d, 2) / d),
            "Computed with 1 / base",
        ),
        (
            "why-soft_lookup",
            lambda q, k, v, temperature=1.0: (
                (q @ k.mT / temperature).softmax(-1) @ k
            ),
            "key instead of value",
        ),
        (
            "sdp-attention_loops",
            lambda q, k, v: (
                (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)[:, :-1] @ v[:-1]
            ),
            "The last key of value is left out",
        ),
        (
            "mask-causal",
            _table_of_shapes(),
            "A result is remembered by part of the arguments",
        ),
    ],
)
def test_another_input_says_what_the_answer_does(exercise_id, answer, name):
    verdict = judge(with_mistakes(exercise_id), answer)
    assert verdict.mistake == name, verdict.message


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


@pytest.mark.parametrize(
    "exercise_id",
    [
        "sdp-attention_loops",
        "mask-causal",
        "gqa-pool_heads",
        "mha-merge_heads",
    ],
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


def test_every_kind_has_a_line_that_asks_a_question():
    lines = kinds.lines()
    assert {x.__name__ for x in KINDS} <= lines.keys()
    for name, why in lines.values():
        assert why.endswith("?"), name
        assert len(name) <= 70


def test_a_change_of_the_solution_has_a_line_and_shows_no_code():
    seen = set()
    for exercise in every_exercise():
        if not exercise.launch:
            seen |= {m.kind for m in mutants.mutants(exercise)}
    assert seen <= kinds.lines().keys()
    assert len(seen) > 15


@pytest.mark.parametrize("error", (1e-5, 1e-4))
def test_what_is_nearly_right_is_neither_moved_nor_scaled(error):
    def nearly(query, key, value, scale=None):
        scale = query.shape[-1] ** -0.5 if scale is None else scale
        out = (query @ key.mT * scale).softmax(-1) @ value
        out[..., 0, 0] *= 1 + error
        return out

    verdict = judge(find("sdp-attention"), nearly)
    assert verdict.mistake is None
    assert "sign" not in verdict.message


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


def test_a_finite_number_in_the_place_of_inf_is_named():
    def low(scores, mask):
        weights = scores.masked_fill(~mask, -10.0).softmax(-1)
        return weights.masked_fill(~mask.any(-1, keepdim=True), 0.0)

    verdict = judge(find("mask-apply_mask"), low)
    assert verdict.mistake == "A finite number where -inf is meant"


def test_what_is_off_by_less_than_rounding_gets_no_change_for_a_name():
    def low(scores, mask):
        filled = torch.where(mask, scores, scores.min() - 20)
        return filled.softmax(-1).masked_fill(~mask.any(-1, keepdim=True), 0)

    verdict = judge(find("mask-apply_mask"), low)
    assert verdict.mistake is None
    assert "behaves like" not in verdict.message


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


def with_names(change):
    """Return an answer that gives the right tensors other names."""

    def answer(state, num_heads, num_kv_heads, interleaved=False):
        right = map_llama_weights(state, num_heads, num_kv_heads, interleaved)
        return {change(name): x for name, x in right.items()}

    return answer


def test_wrong_names_of_a_dict_are_named_whatever_they_are():
    answer = with_names(lambda name: "final_norm" if name == "norm" else name)
    verdict = judge(find("tfm-map_llama_weights"), answer)
    assert verdict.mistake == "Names are missing, or others are there"
    message = " ".join(verdict.message.split())
    assert "it lacks norm; it has final_norm, which is superfluous" in message


def test_a_tensor_under_anothers_name_is_named_with_both():
    other = {"up_proj": "down_proj", "down_proj": "up_proj"}
    answer = with_names(
        lambda name: ".".join(other.get(x, x) for x in name.split("."))
    )
    verdict = judge(find("tfm-map_llama_weights"), answer)
    ffn = "blocks.*.feed_forward"
    name = f"{ffn}.up_proj.weight is what {ffn}.down_proj.weight should be"
    assert verdict.mistake == name


def test_a_tensor_of_another_layer_is_not_said_to_have_its_own_name():
    """A name holds for all layers, and has no number of one."""
    other = {"blocks.0": "blocks.1", "blocks.1": "blocks.0"}
    answer = with_names(lambda name: other.get(name[:8], name[:8]) + name[8:])
    exercise = with_mistakes("tfm-map_llama_weights")
    assert "should be" not in (judge(exercise, answer).mistake or "")


def test_a_factor_is_that_of_an_input_which_some_calls_leave_out():
    exercise = with_mistakes("tfm-tie_and_init")
    (mistake,) = (
        x
        for x in find("tfm-tie_and_init").mistakes
        if x.name == "The embedding keeps size 1"
    )
    assert (
        judge(exercise, mistake.answer).mistake == "Off by the factor 1 / std"
    )
