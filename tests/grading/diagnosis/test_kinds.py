"""A kind of mistake is named in any exercise, without a list."""

import re

import pytest
import torch
import torch.nn.functional as F

from attn.exercises.spec import every_exercise, find
from attn.grading.diagnosis import kinds, mutants
from attn.grading.diagnosis.judge import judge, solution
from attn.grading.diagnosis.naming import KINDS
from tests.grading.diagnosis.own_mistakes import with_mistakes


def merged(x):
    return x.transpose(-2, -3).flatten(-2)


def view(x):
    x = x.transpose(-2, -3)
    return x.view(*x.shape[:-2], -1)


def four_axes(x):
    B, H, L, D = x.shape
    return merged(x)


def in_place(x):
    y = merged(x) + 0
    x.zero_()
    return y


def never_written(x):
    right = merged(x)
    return right if x.requires_grad else torch.empty_like(right).clone()


#: Answers to mha-merge_heads, by the key of their kind.
ANSWERS = {
    "view": view,
    "axes_counted": four_axes,
    "in_place": in_place,
    "nothing_returned": lambda x: None,
    "no_gradient": lambda x: merged(x).detach(),
    "wrong_dtype": lambda x: merged(x).double(),
    "axes_of_one": lambda x: merged(x).unsqueeze(0),
    "random": lambda x: F.dropout(merged(x)),
    "another_type": lambda x: merged(x).tolist(),
    "factor": lambda x: merged(x) * 3,
    "flipped": lambda x: merged(x).flip(-1),
    "never_written": never_written,
    "all_zero": lambda x: merged(x) * 0,
    "more_returned": lambda x: (merged(x), x),
}


@pytest.mark.parametrize("key", ANSWERS)
def test_a_kind_of_mistake_is_named_in_any_exercise(key):
    verdict = judge(with_mistakes("mha-merge_heads"), ANSWERS[key])
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


def grouped(query, key, value, mask=None):
    rows = query.unflatten(1, (key.shape[1], -1)).flatten(2, 3)
    scores = rows @ key.mT / query.shape[-1] ** 0.5
    scores = scores.view(*query.shape[:-1], -1)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    weights = scores.softmax(-1).nan_to_num(0)
    weights = weights.unflatten(1, (key.shape[1], -1))
    return (weights.flatten(2, 3) @ value).view(*query.shape[:-1], -1)


def cache_bytes(more=0, default=torch.bfloat16, made=int):
    """Return a size of the cache, of more tokens or by another default."""

    def answer(
        batch, seq_len, num_layers, num_kv_heads, head_dim, dtype=default
    ):
        sizes = [2, batch, seq_len + more, num_layers, num_kv_heads, head_dim]
        return made(torch.tensor([*sizes, dtype.itemsize]).prod())

    return answer


def low(scores, mask):
    weights = scores.masked_fill(~mask, -10.0).softmax(-1)
    return weights.masked_fill(~mask.any(-1, keepdim=True), 0.0)


def reordered(right):
    def answer(*inputs, **options):
        dq, dk, dv = right(*inputs, **options)
        return dq, dv, dk

    return answer


#: Exercises, answers to them, and the name that says what an answer does.
NAMES = [
    (
        "sdpa-softcap",
        lambda s, cap, attn_mask=None: cap * torch.tanh(s / cap),
        "attn_mask is ignored",
    ),
    (
        "gqa-grouped_attention",
        lambda q, k, v, attn_mask=None: grouped(
            q / q.shape[-1] ** 0.5, k, v, attn_mask
        ),
        "The scale is applied twice",
    ),
    (
        "gqa-grouped_attention",
        lambda q, k, v, attn_mask=None: grouped(
            q, k, v, None if attn_mask is None else ~attn_mask
        ),
        "attn_mask is inverted",
    ),
    (
        "gqa-kv_cache_bytes",
        cache_bytes(more=1),
        "Off by one: computed with seq_len one more",
    ),
    (
        "gqa-kv_cache_bytes",
        cache_bytes(default=torch.float32),
        "The default of dtype is torch.float32",
    ),
    (
        "gqa-kv_cache_bytes",
        cache_bytes(made=torch.clone),
        "A tensor, where the task says an int",
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
    ("mask-apply_mask", low, "A finite number where -inf is meant"),
    (
        "flash-tiled_backward",
        reordered(solution(find("flash-tiled_backward"))),
        "The results are in another order",
    ),
]


@pytest.mark.parametrize(("exercise_id", "answer", "name"), NAMES)
def test_a_name_says_what_the_answer_does(exercise_id, answer, name):
    verdict = judge(with_mistakes(exercise_id), answer)
    assert verdict.mistake == name, verdict.message


def test_a_factor_is_that_of_an_input_which_some_calls_leave_out():
    exercise = with_mistakes("tfm-tie_and_init")
    listed = find(exercise.id).mistakes
    (own,) = (x for x in listed if x.name == "The embedding keeps size 1")
    assert judge(exercise, own.answer).mistake == "Off by the factor 1 / std"


class Projected(torch.nn.Module):
    """Three maps with what the task gives them, or with more or less."""

    biased = ()

    def __init__(self, embed_dim, head_dim):
        super().__init__()
        for name in ("q_proj", "k_proj", "v_proj"):
            bias = name in self.biased
            layer = torch.nn.Linear(embed_dim, head_dim, bias=bias)
            setattr(self, name, layer)
        self.change()

    def change(self):
        """Change the maps."""

    def mixed(self, q, k, v):
        return q, k, v

    def forward(self, x):
        maps = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        q, k, v = self.mixed(*maps)
        return F.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) @ v


class Swapped(Projected):
    def mixed(self, q, k, v):
        return q, v, k


class Shared(Projected):
    def mixed(self, q, k, v):
        return q, q, v


class OneSequence(Projected):
    def forward(self, x):
        out = super().forward(x.reshape(1, -1, x.shape[-1]))
        return out.reshape(*x.shape[:-1], -1)


class Causal(Projected):
    def forward(self, x):
        q, k, v = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        scores = q @ k.mT / q.shape[-1] ** 0.5
        future = torch.ones(scores.shape[-2:]).triu(1).bool()
        return scores.masked_fill(future, -torch.inf).softmax(-1) @ v


class Biased(Projected):
    biased = ("k_proj",)


class Renamed(Projected):
    def change(self):
        self.keys = self.k_proj
        del self.k_proj


class Tied(Projected):
    def change(self):
        self.k_proj = self.q_proj


class Frozen(Projected):
    def change(self):
        self.requires_grad_(False)


#: Answers to sdp-SelfAttention: their name, and what is said with it.
LAYERS = [
    (Swapped, "k_proj and v_proj are exchanged", ""),
    (Shared, "q_proj instead of k_proj", ""),
    (OneSequence, "The batch is one long sequence", ""),
    (Causal, "Causal, where every token may see all others", ""),
    (Biased, "A bias that the task does not have", "not have: k_proj."),
    (Renamed, "The parameters have other names", "finds keys.weight, and"),
    (Tied, "Two layers are one", ""),
    (Frozen, "Cut off from the gradient", "q_proj.weight"),
]


@pytest.mark.parametrize(("answer", "name", "words"), LAYERS)
def test_what_is_wrong_with_the_maps_of_a_layer_is_named(answer, name, words):
    verdict = judge(with_mistakes("sdp-SelfAttention"), answer)
    assert verdict.mistake == name, verdict.message
    assert words in verdict.message + verdict.details


def with_names(change):
    """Return an answer that gives the right tensors other names."""
    right = solution(find("tfm-map_llama_weights"))
    return lambda *args, **options: {
        change(n): x for n, x in right(*args, **options).items()
    }


ffn = "blocks.*.feed_forward"
OTHER = {"up_proj": "down_proj", "down_proj": "up_proj"}
#: Changes of the names of a dict of weights, and the mistake's name.
WEIGHTS = [
    (
        lambda name: "final_norm" if name == "norm" else name,
        "Names are missing, or others are there",
        "it lacks norm; it has final_norm, which is superfluous",
    ),
    (
        lambda name: ".".join(OTHER.get(x, x) for x in name.split(".")),
        f"{ffn}.up_proj.weight is what {ffn}.down_proj.weight should be",
        "",
    ),
]


@pytest.mark.parametrize(("change", "name", "words"), WEIGHTS)
def test_a_wrong_name_in_a_dict_of_weights_is_named(change, name, words):
    verdict = judge(find("tfm-map_llama_weights"), with_names(change))
    assert verdict.mistake == name
    assert words in " ".join(verdict.message.split())


def test_a_tensor_of_another_layer_is_not_said_to_have_its_own_name():
    """A name holds for all layers, and has no number of one."""
    other = {"blocks.0": "blocks.1", "blocks.1": "blocks.0"}
    answer = with_names(lambda name: other.get(name[:8], name[:8]) + name[8:])
    exercise = with_mistakes("tfm-map_llama_weights")
    assert "should be" not in (judge(exercise, answer).mistake or "")
