"""A kind of mistake is named in any exercise, without a list."""

import re

import pytest

from attn.exercises.spec import every_exercise, find
from attn.grading.diagnosis import kinds, mutants
from attn.grading.diagnosis.judge import judge
from attn.grading.diagnosis.naming import KINDS
from tests.grading.diagnosis.own_mistakes import edited, rows, with_mistakes

MERGED = "x.transpose(-3, -2).flatten(-2)"
NEVER_WRITTEN = f"""\
right = {MERGED}
return right if x.requires_grad else torch.empty_like(right).clone()"""
#: Answers to mha-merge_heads, by the key of their kind.
ANSWERS = {
    "view": "y = x.transpose(-2, -3)\nreturn y.view(*y.shape[:-2], -1)",
    "axes_counted": f"B, H, L, D = x.shape\nreturn {MERGED}",
    "in_place": f"y = {MERGED} + 0\nx.zero_()\nreturn y",
    "nothing_returned": f"y = {MERGED}",
    "no_gradient": f"return {MERGED}.detach()",
    "wrong_dtype": f"return {MERGED}.double()",
    "axes_of_one": f"return {MERGED}.unsqueeze(0)",
    "random": f"return F.dropout({MERGED})",
    "another_type": f"return {MERGED}.tolist()",
    "factor": f"return {MERGED} * 3",
    "flipped": f"return {MERGED}.flip(-1)",
    "never_written": NEVER_WRITTEN,
    "all_zero": f"return {MERGED} * 0",
    "more_returned": f"return {MERGED}, x",
}


@pytest.mark.parametrize("key", ANSWERS)
def test_a_kind_of_mistake_is_named_in_any_exercise(key):
    answer = edited("mha-merge_heads", ANSWERS[key])
    verdict = judge(with_mistakes("mha-merge_heads"), answer)
    name, _ = kinds.lines()[key]
    pattern = re.sub(r"\\{\w+\\}", ".+", re.escape(name))
    assert re.match(pattern, verdict.mistake or ""), verdict.message


def test_every_kind_has_a_line_that_asks_a_question():
    lines = kinds.lines()
    assert KINDS.keys() <= lines.keys()
    for name, why in lines.values():
        assert why.endswith("?"), name
        assert len(name) <= 70


FEW = ("sdpa-scaled_dot_product_attention", "tfm-sample", "iface-Registry")


@pytest.mark.parametrize(
    "exercises",
    [
        [find(x) for x in FEW],
        pytest.param(every_exercise(), marks=pytest.mark.exhaustive),
    ],
    ids=["some", "all"],
)
def test_a_change_of_the_solution_has_a_line_and_shows_no_code(exercises):
    seen = set()
    for exercise in exercises:
        if not exercise.launch:
            seen |= {m.kind for m in mutants.mutants(exercise)}
    assert seen <= kinds.lines().keys()
    assert len(seen) > 15


#: Exercises, edits of them, and the name that says what the answer does.
NAMES = """
sdpa-softcap | return cap * torch.tanh(scores / cap) | attn_mask is ignored
gqa-grouped_attention | math.sqrt(D) => D | The scale is applied twice
gqa-grouped_attention | ~attn_mask => attn_mask ; x(-1) => x(-1).nan_to_num(0)\
 | attn_mask is inverted
gqa-kv_cache_bytes | batch * seq_len => batch * (seq_len + 1)\
 | Off by one: computed with seq_len one more
gqa-kv_cache_bytes | = torch.bfloat16 => = torch.float32\
 | The default of dtype is torch.float32
gqa-kv_cache_bytes | return elements => return torch.tensor(elements)\
 | A tensor, where the task says an int
rope-frequencies | -exponent => exponent | Computed with 1 / base
why-soft_lookup | @ value => @ key | key instead of value
sdp-attention_loops | * value[j] => * value[j] * (j < S - 1)\
 | The last key of value is left out
mask-apply_mask | -torch.inf => -10.0 | A finite number where -inf is meant
flash-tiled_backward | return dq, dk, dv => return dq, dv, dk\
 | The results are in another order
mask-causal | torch.arange(kv_len) => torch.arange(q_len) | As long as L, not S
latent-top_k_keys | descending=True => descending=False\
 | A switch is the other way round
latent-latent_attention | 1e-6 => 1e-3 | Another small number
linear-chunked | g[..., rows].cumsum => (0 * g)[..., rows].cumsum\
 | Computed with 0 * g
tfm-map_llama_weights | "norm": state => "final_norm": state\
 | Names are missing, or others are there
ring-ring_backward | torch.zeros_like(x) => torch.zeros(x.shape)\
 ; parts[1], dv + parts[2] => parts[1].float(), dv + parts[2].float()\
 | The result is float32
ring-all_to_all_heads | torch.cat(parts, 1) => torch.cat(parts, 1), 0\
 | A tuple is returned, not the result alone
ring-shard_positions | return parts[rank] => return parts[rank].tolist()\
 | The result is a list, not a plain tensor
ring-shard_positions | torch.arange(length) => torch.arange(length).int()\
 | The result is int32
"""

K_PROJ = "self.k_proj = nn.Linear(embed_dim, head_dim, bias=False)"
V_PROJ = K_PROJ.replace("k_", "v_")
MIXED = "- attention(q, k, v)\n+ attention({})"
BIASED = f"- {K_PROJ}\n+ self.k_proj = nn.Linear(embed_dim, head_dim)"
RENAMED = "- self.k_proj =\n+ self.keys =\n- self.k_proj(x)\n+ self.keys(x)"
TIED = f"- {K_PROJ}\n+ self.k_proj = self.q_proj"
FROZEN = f"-     {V_PROJ}\n+     {V_PROJ}\n+     self.requires_grad_(False)"
#: Edits of sdp-SelfAttention: their name, and what is said with it.
LAYERS = [
    (MIXED.format("q, v, k"), "k_proj and v_proj are exchanged", ""),
    (MIXED.format("q, q, v"), "q_proj instead of k_proj", ""),
    (BIASED, "A bias that the task does not have", "not have: k_proj."),
    (RENAMED, "The parameters have other names", "finds keys.weight, and"),
    (TIED, "Two layers are one", ""),
    (FROZEN, "Cut off from the gradient", "q_proj.weight"),
]

MISSING = "- gather(*attend(\n+ gather(*block_gradients("
UNDEFINED = "block_gradients is not defined: its cell has not been run"
#: Of a helper of another cell, the cell.
CELL = "Have you run the cell below the heading"


@pytest.mark.parametrize(
    ("exercise_id", "edit", "name", "words"),
    [
        ("ring-decode_attention", MISSING, UNDEFINED, CELL),
        *((*x, "") for x in rows(NAMES)),
        *(("sdp-SelfAttention", *x) for x in LAYERS),
    ],
)
def test_a_name_says_what_the_answer_does(exercise_id, edit, name, words):
    answer = edited(exercise_id, edit)
    verdict = judge(with_mistakes(exercise_id), answer)
    assert verdict.mistake == name, verdict.message
    assert words in verdict.message + verdict.details
