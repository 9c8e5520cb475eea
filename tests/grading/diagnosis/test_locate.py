"""A refusal without a name says where: rows, heads, factors, conditions."""

import pytest
import torch

from attn.exercises.spec import every_exercise, find
from attn.grading.checks.evidence import Evidence, Failure
from attn.grading.checks.failures import failures, run_all
from attn.grading.checks.oracle import Oracle
from attn.grading.checks.problem import Part, Problem
from attn.grading.diagnosis.axes import Axes
from attn.grading.diagnosis.judge import judge
from attn.grading.diagnosis.mutation_testing import solution
from attn.grading.diagnosis.where import about, describe_indices, places


def described(exercise_id, answer):
    """Return what is said about a wrong answer, in one line."""
    oracle = Oracle(find(exercise_id), 0)
    outcomes = run_all(answer, oracle)
    wrong = failures(oracle, outcomes)
    assert wrong
    assert all(isinstance(f, Failure) for f in wrong)
    evidence = Evidence(oracle, outcomes, wrong, answer)
    return " ".join(places(evidence, wrong[0]) + about(evidence, wrong[0]))


def attention(query, key, value, scale=None):
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    scores = (query @ key.mT * scale).double()
    return (scores.softmax(-1) @ value.double()).to(value.dtype)


def spoiled(change):
    """Return an attention with another result."""

    def answer(query, key, value, scale=None):
        return change(attention(query, key, value, scale).clone())

    return answer


def last_query(out):
    out[..., -1, :] += 1 + torch.arange(out.shape[-1]) ** 2
    return out


def other_features(out):
    out[..., 1::2] = out[..., 1::2].sin() * 3 + 0.1
    return out


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (spoiled(last_query), "only the last query"),
        (spoiled(other_features), "only odd features, counted from 0"),
        (spoiled(lambda x: x * 0.3), "off by the factor 0.3"),
        (spoiled(lambda x: x + 0.25), "off by 0.25"),
        (spoiled(lambda x: -x), "right but for their sign"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_what_holds_in_every_wrong_case_is_described(answer, words):
    assert words in described("sdp-attention", answer)


def test_heads_that_changed_places_are_described():
    def swapped(x, n_rep):
        y = x.repeat_interleave(n_rep, -3).clone()
        n = y.shape[-3]
        return y[..., torch.arange(n).roll(1), :, :]

    text = described("gqa-repeat_kv", swapped)
    assert "holds what head" in text


def test_a_mask_that_allows_too_much_is_said_to():
    def one_more(q_len, kv_len, q_offset=0):
        return torch.ones(q_len, kv_len).tril(q_offset + 1).bool()

    text = described("mask-causal", one_more)
    assert "It allows too much: True where False is right" in text


def test_the_inputs_on_which_it_is_wrong_are_described():
    def square_only(q_len, kv_len, q_offset=0):
        right = find("mask-causal").reference(q_len, kv_len, q_offset)
        return right if q_len == kv_len else ~right

    text = described("mask-causal", square_only)
    assert "cases in which L is not S, and right in the other" in text


def test_right_entries_of_a_tuple_are_described():
    def lse_in_bits(first, second):
        out, lse = find("flash-merge_states").reference(first, second)
        return out, lse.sin()

    assert "out is right" in described("flash-merge_states", lse_in_bits)


def test_the_shapes_that_met_are_described():
    def product(query, key, value, scale=None):
        return query @ key

    text = described("sdp-attention", product)
    assert "There: query (" in text and "key (" in text


def test_a_length_that_belongs_to_another_axis_is_described():
    def square(q_len, kv_len, q_offset=0):
        return torch.ones(q_len, q_len).tril(q_offset).bool()

    assert "S should be 6 and is 2, as long as L" in described(
        "mask-causal", square
    )


@pytest.mark.parametrize(
    "exercise", every_exercise(), ids=lambda exercise: exercise.id
)
def test_the_axes_of_a_task_fit_its_inputs(exercise):
    """The letters of the docstring have one length each in every case."""
    axes = Axes(exercise)
    for case in exercise.generate(0):
        names = exercise.input_names(case)
        inputs = {**dict(zip(names, case.args, strict=False)), **case.kwargs}
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


def test_two_inputs_that_must_be_given_for_it_to_be_wrong_are_described():
    right = find("mha-MultiHeadAttention").reference

    class Forgets(right):
        def forward(self, x, kv_input=None, attn_mask=None):
            mask = attn_mask if kv_input is None else None
            return super().forward(x, kv_input, mask) + 0

    text = described("mha-MultiHeadAttention", Forgets)
    assert "in which attn_mask is given and kv_input is given" in text


def test_a_parameter_that_no_gradient_reaches_is_described():
    right = find("gqa-GroupedQueryAttention").reference

    class Cut(right):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.v_proj.register_forward_hook(lambda _m, _x, y: y.detach())

    text = described("gqa-GroupedQueryAttention", Cut)
    assert "gradient of x and v_proj.weight is wrong: none reaches" in text


def test_an_overflow_of_int32_is_described():
    def wrapped(*args, **kwargs):
        right = find("gqa-kv_cache_bytes").reference(*args, **kwargs)
        return (right + 2**31) % 2**32 - 2**31

    text = described("gqa-kv_cache_bytes", wrapped)
    assert "off by a multiple of 2**32: did an int32 overflow?" in text


def test_an_index_too_small_to_tell_is_not_called_right():
    """All keys are off by a factor, and one of them too little to be seen."""
    expected = torch.tensor([[1.0, 1e-6, 1.0, 1.0]])
    got = expected * 1.5
    wrong = torch.tensor([[True, False, True, True]])
    problem = Problem("value", "", got=got, expected=expected, wrong=wrong)
    assert describe_indices(problem, 1, "key") == []
    got = torch.where(wrong, got, expected)
    problem = Problem("value", "", got=got, expected=expected, wrong=wrong)
    assert describe_indices(problem, 1, "key") == ["only keys 0, 2 and 3"]


def test_one_index_of_three_is_not_called_odd():
    expected = torch.zeros(3, 2)
    wrong = torch.tensor([[False], [True], [False]]).expand(3, 2)
    got = expected + wrong.float()
    problem = Problem("value", "", got=got, expected=expected, wrong=wrong)
    assert describe_indices(problem, 0, "query")[0] == "only query 1"


def test_a_condition_is_said_once():
    def answer(weight, num_heads):
        if weight.dim() == 2:
            raise ValueError("no")
        return weight.unflatten(0, (num_heads, -1, 2)).mT.flatten()

    text = described("rope-permute_weights", answer)
    assert "in which the first input has 2 axes" in text
    assert "more than 1 axis" not in text


def test_results_in_another_order_are_named():
    right = solution(find("flash-tiled_backward"))

    def answer(*inputs, **options):
        dq, dk, dv = right(*inputs, **options)
        return dq, dv, dk

    verdict = judge(find("flash-tiled_backward"), answer)
    assert verdict.mistake == "The results are in another order"
