"""A refusal without a name says where: rows, heads, factors, conditions."""

import pytest
import torch

from attn.exercises.spec import every_exercise, find
from attn.grading.checks.compare import Part, Problem
from attn.grading.checks.evidence import Evidence
from attn.grading.checks.failures import failures, run_all
from attn.grading.checks.oracle import Oracle
from attn.grading.diagnosis.axes import Axes
from attn.grading.diagnosis.where import about, describe_indices, places


def right(exercise_id):
    return find(exercise_id).reference


def spoiled(change):
    """Return an attention with another result."""

    def answer(query, key, value, scale=None):
        scale = query.shape[-1] ** -0.5 if scale is None else scale
        scores = (query @ key.mT * scale).double()
        out = (scores.softmax(-1) @ value.double()).to(value.dtype)
        return change(out.clone())

    return answer


def last_query(out):
    out[..., -1, :] += 1 + torch.arange(out.shape[-1]) ** 2
    return out


def other_features(out):
    out[..., 1::2] = out[..., 1::2].sin() * 3 + 0.1
    return out


def swapped_heads(x, n_rep):
    y = x.repeat_interleave(n_rep, -3).clone()
    return y[..., torch.arange(y.shape[-3]).roll(1), :, :]


def square_only(q_len, kv_len, q_offset=0):
    mask = right("mask-causal")(q_len, kv_len, q_offset)
    return mask if q_len == kv_len else ~mask


def other_lse(first, second):
    out, lse = right("flash-merge_states")(first, second)
    return out, lse.sin()


def int32(*args, **kwargs):
    size = right("gqa-kv_cache_bytes")(*args, **kwargs)
    return (size + 2**31) % 2**32 - 2**31


def of_three_axes(weight, num_heads):
    if weight.dim() == 2:
        raise ValueError("no")
    return weight.unflatten(0, (num_heads, -1, 2)).mT.flatten()


class Forgets(right("mha-MultiHeadAttention")):
    def forward(self, x, kv_input=None, attn_mask=None):
        mask = attn_mask if kv_input is None else None
        return super().forward(x, kv_input, mask) + 0


class Cut(right("gqa-GroupedQueryAttention")):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.v_proj.register_forward_hook(lambda _m, _x, y: y.detach())


ATTENTION = "sdp-attention"
#: Wrong answers, and what is said of them.
SAID = [
    (ATTENTION, spoiled(last_query), "only the last query"),
    (ATTENTION, spoiled(other_features), "only odd features, counted from 0"),
    (ATTENTION, spoiled(lambda x: x * 0.3), "off by the factor 0.3"),
    (ATTENTION, spoiled(lambda x: x + 0.25), "off by 0.25"),
    (ATTENTION, spoiled(lambda x: -x), "right but for their sign"),
    (ATTENTION, lambda q, k, v, scale=None: q @ k, "There: q ("),
    ("gqa-repeat_kv", swapped_heads, "holds what head"),
    (
        "mask-causal",
        lambda q, k, q_offset=0: torch.ones(q, k).tril(q_offset + 1).bool(),
        "It allows too much: True where False is right",
    ),
    (
        "mask-causal",
        square_only,
        "cases in which L is not S, and right in the other",
    ),
    (
        "mask-causal",
        lambda q, k, q_offset=0: torch.ones(q, q).tril(q_offset).bool(),
        "S should be 6 and is 2, as long as L",
    ),
    ("flash-merge_states", other_lse, "out is right"),
    (
        "mha-MultiHeadAttention",
        Forgets,
        "in which attn_mask is given and kv_input is given",
    ),
    (
        "gqa-GroupedQueryAttention",
        Cut,
        "gradient of x and v_proj.weight is wrong: none reaches",
    ),
    (
        "gqa-kv_cache_bytes",
        int32,
        "off by a multiple of 2**32: did an int32 overflow?",
    ),
    (
        "rope-permute_weights",
        of_three_axes,
        "in which the first input has 2 axes",
    ),
]


@pytest.mark.parametrize(("exercise_id", "answer", "words"), SAID)
def test_where_an_answer_is_wrong_is_described(exercise_id, answer, words):
    oracle = Oracle(find(exercise_id), 0)
    outcomes = run_all(answer, oracle)
    wrong = failures(oracle, outcomes)
    evidence = Evidence(oracle, outcomes, wrong, answer)
    text = " ".join(places(evidence, wrong[0]) + about(evidence, wrong[0]))
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
