"""A refusal without a name says where, and what is right in part."""

import pytest
import torch

from attn.exercises.spec import every_exercise, find
from attn.grading.checks.compare import Part, Problem
from attn.grading.diagnosis.axes import Axes
from attn.grading.diagnosis.judge import judge
from attn.grading.diagnosis.where import about, describe_indices, places
from tests.exercises.oracles import oracle
from tests.grading.diagnosis.own_mistakes import edited, evidence, judged, rows

INT32 = "(elements * dtype.itemsize + 2**31) % 2**32 - 2**31"
#: Exercises, edits of the solution, and what is said of them.
SAID = rows(f"""
sdp-attention | return softmax(scores) => out = softmax(scores)\
 ; @ value => @ value; last = torch.arange(out.shape[-1]) ** 2;\
 out[..., -1, :] += 1 + last; return out | only the last query
sdp-attention | return softmax(scores) => out = softmax(scores)\
 ; @ value => @ value; out[..., 1::2] = out[..., 1::2].sin() * 3 + 0.1;\
 return out | only odd features, coun
mha-MultiHeadAttention | attn_mask is not None\
 => attn_mask is not None and kv_input is None\
 | in which attn_mask is given and kv_input is given
gqa-GroupedQueryAttention | self.v_proj(x) => self.v_proj(x).detach()\
 | gradient of x and v_proj.weight is wrong: none reaches
sdp-attention | @ value => @ value * 0.3 | off by the factor 0.3
sdp-attention | @ value => @ value + 0.25 | off by 0.25
sdp-attention | return softmax => return -softmax | right but for their sign
sdp-attention | return query @ key | There: query (
gqa-repeat_kv | return x.repeat_interleave(n_rep, -3).roll(1, -3)\
 | holds what head
mask-causal | <= q_idx => <= q_idx + 1\
 | It allows too much: True where False is right
mask-causal | kv_idx <= q_idx => (kv_idx <= q_idx) ^ (q_len != kv_len)\
 | cases in which L is not S, and right in the other
flash-merge_states | [0], lse => [0], lse.sin() | out is right
gqa-kv_cache_bytes | elements * dtype.itemsize => {INT32}\
 | off by a multiple of 2**32: did an int32 overflow?
rope-permute_weights | pairs = => assert weight.dim() != 2; pairs =\
 | in which the first input has 2 axes
""")


@pytest.mark.parametrize(("exercise_id", "edit", "words"), SAID)
def test_where_an_answer_is_wrong_is_described(exercise_id, edit, words):
    answer = edited(exercise_id, edit)
    found, [wrong, *_] = evidence(oracle(exercise_id), answer)
    text = " ".join(places(found, wrong) + about(found, wrong))
    assert words in text
    assert "more than 1 axis" not in text, "it says so twice"


@pytest.mark.parametrize("exercise", every_exercise(), ids=lambda x: x.id)
def test_the_axes_of_a_task_fit_its_inputs(exercise):
    """The letters of the docstring have one length each in every case."""
    axes = Axes(exercise)
    for case in exercise.generate(0):
        inputs = exercise.inputs(case)
        sizes = axes.sizes(inputs)
        for name, x in inputs.items():
            if not isinstance(x, torch.Tensor):
                continue
            letters = axes.of_input(name, x.shape)
            assert len(letters) == x.dim()
            for letter, n in zip(letters, x.shape, strict=True):
                broadcast = n == 1 or "mask" in name
                assert broadcast or sizes.get(letter, n) == n


@pytest.mark.parametrize(
    ("name", "part", "axes"),
    [
        ("delta", Part(), ("H", "L")),
        ("dkdv", Part(entry=(1,)), ("Hkv", "S", "D")),
        ("dq", Part(), ("H", "L", "D")),
    ],
)
def test_the_axes_of_a_kernels_results_are_those_of_its_task(name, part, axes):
    shape = range(2, 2 + len(axes))
    assert Axes(find(f"bwd-{name}_kernel")).of_part(part, shape) == axes


def described(wrong, expected, got, word, axis):
    """Return what is said of the wrong indices along an axis."""
    wrong, expected, got = map(torch.tensor, (wrong, expected, got))
    problem = Problem("value", "", got=got, expected=expected, wrong=wrong)
    return describe_indices(problem, axis, word)


def test_an_index_too_small_to_tell_is_not_called_right():
    """All keys are off by a factor, and one of them too little to be seen."""
    wrong, expected = [[True, False, True, True]], [[1.0, 1e-6, 1.0, 1.0]]
    got = [[1.5, 1.5e-6, 1.5, 1.5]]
    assert described(wrong, expected, got, "key", 1) == []
    got[0][1] = 1e-6
    found = described(wrong, expected, got, "key", 1)
    assert found == ["only keys 0, 2 and 3"]


def test_one_index_of_three_is_not_called_odd():
    wrong, got = [[False], [True], [False]], [[0.0], [1.0], [0.0]]
    found = described(wrong, [[0.0]] * 3, got, "query", 0)
    assert found[0] == "only query 1"


#: An attention of which one element is nearly right.
NEARLY = """\
- return softmax(scores) @ value
+ out = softmax(scores) @ value
+ out[..., 0, 0] *= 1 + {}
+ return out"""
WITHOUT_A_MESSAGE = """\
if num_heads & (num_heads - 1):
    raise AssertionError
return 2 ** (-8 * torch.arange(1, num_heads + 1) / num_heads)"""
MOVED = "(back - out).norm(dim=-1) / out.norm(dim=-1)"
#: Exercises, answers to them, and what is never said, or said, of these.
PARTS = [
    *(("sdp-attention", NEARLY.format(x), "sign", "") for x in (1e-5, 1e-4)),
    (
        "pos-alibi_slopes",
        WITHOUT_A_MESSAGE,
        "this looks like",
        "raised AssertionError in the line",
    ),
    (
        "pos-alibi_slopes",
        "import json\nreturn json.loads(f'{num_heads}]')",
        "raw_decode",
        "in the line return json.loads",
    ),
    *rows(f"""
mask-apply_mask | -torch.inf => (scores.min() - 20).item() | behaves like | it
pos-permutation_test | {MOVED} => torch.where({MOVED} < 0.1, 0.0, {MOVED})\
 | The result is 0 throughout | wrong elements are 0
linear-gated_delta_chunked | key = F.normalize(key, dim=-1) => key = key\
 / key.norm(dim=-1, keepdim=True) ; return torch.cat(outs, -2), S => return\
 torch.cat(outs, -2), S * (2 if g.min() < -20 else 1) | behaves like | NaN
latent-indexer_loss | .sum(-1).mean() => .sum(-1).mean()\
 / (weights.sum(-1).min() > 0.9) | times the right number | it
latent-indexer_loss | .sum(-1).mean() => .sum(-1).mean()\
 * (1.0 if attn_mask.all() else 1.0004) | times the right number | it
"""),
]


@pytest.mark.parametrize(("exercise_id", "edit", "never", "said"), PARTS)
def test_what_is_right_in_part_gets_no_name(exercise_id, edit, never, said):
    """Other mistakes give NaN as well, and infinity and 1 are no factor."""
    verdict = judged(exercise_id, edit)
    assert verdict.mistake is None
    message = " ".join(verdict.message.split())
    assert said in message and never not in message


def test_a_step_computed_in_float32_is_suspected(monkeypatch):
    """Mistakes that are right in this case agree with what is nearly so."""
    exercise = find("why-causal_average")
    others = [x for x in exercise.mistakes if "float32" not in x.name]
    monkeypatch.setitem(vars(exercise), "mistakes", others)
    edit = "- x.cumsum(-2) / count[:, None]\n"
    edit += "+ (x.float().cumsum(-2) / count.float()[:, None]).to(x.dtype)"
    text = judge(exercise, edited(exercise.id, edit)).message
    assert "is a step computed in float32?" in " ".join(text.split())
    assert "behaves like" not in text
