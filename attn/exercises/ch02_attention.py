"""Exercise ``sdp-attention``: the same with matrices."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from attn import functional
from attn.exercises.spec import Case, Exercise, Property


def attention(
    query: Tensor, key: Tensor, value: Tensor, scale: float | None = None
) -> Tensor:
    """The reference, with the task's own arguments."""
    return functional.scaled_dot_product_attention(
        query, key, value, scale=scale
    )


def _cases(g: Generator) -> Iterator[Case]:
    def qkv(
        *lead: int, L: int = 3, S: int = 5, D: int = 8, Dv: int = 6
    ) -> tuple:  # noqa: N803
        sizes = (L, D), (S, D), (S, Dv)
        return tuple(torch.randn(*lead, *two, generator=g) for two in sizes)

    stage = "there is one key, so only its value counts"
    yield Case(stage, qkv(S=1))
    yield Case(stage, qkv(2, 3, S=1))

    stage = "the query is zero, so the result is the mean of the values"
    q, k, v = qkv()
    yield Case(stage, (torch.zeros_like(q), k, v))

    stage = "there is one sequence: two axes"
    yield Case(stage, qkv())
    yield Case(stage, qkv(L=7, S=4, D=9, Dv=5))

    stage = "there is a batch: three axes"
    yield Case(stage, qkv(2))
    yield Case(stage, qkv(1, L=1))

    stage = "there are batch and heads: four axes and more"
    yield Case(stage, qkv(2, 6, S=7))
    yield Case(stage, qkv(2, 1, 3, L=4))

    stage = "axes have the same length"
    yield Case(stage, qkv(L=4, S=4, D=4, Dv=4))
    yield Case(stage, qkv(3, L=3, S=3, D=3, Dv=3))
    yield Case(stage, qkv(2, 2, L=4, S=4, D=4, Dv=4))

    stage = "scale is given"
    yield Case(stage, qkv(), {"scale": 1.0})
    yield Case(stage, qkv(2, 3), {"scale": 0.2})
    yield Case(stage, qkv(2), {"scale": 2})
    yield Case(stage, qkv(), {"scale": -0.6})

    stage = "scale is 0.0, a number like any other"
    yield Case(stage, qkv(2), {"scale": 0.0})

    stage = "the scores are large"
    yield Case(stage, _far_apart(g))

    stage = "the inputs are views of other tensors"
    q, k, v = qkv(2, 3)
    heads_last = (x.transpose(1, 2).contiguous() for x in (q, k, v))
    yield Case(stage, tuple(x.transpose(1, 2) for x in heads_last))
    yield Case(stage, (q, k[:, :1].expand(-1, 3, -1, -1), v))

    stage = "the inputs are float64, and so is the precision"
    # D = 16: its root is exact, so a scale kept in float32 is right too.
    yield Case(stage, tuple(x.double() for x in qkv(2, D=16)))

    stage = "the inputs are bfloat16"
    yield Case(stage, tuple(x.bfloat16() for x in qkv(2, 3)))

    stage = "gradients flow back"
    yield Case(stage, qkv(2, 2), grad=True)
    yield Case(stage, qkv(), {"scale": 0.7}, grad=True)


def _far_apart(g: Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Scores above 1000 that are exact in float32 and never tie."""
    q = torch.randint(1, 5, (2, 3, 4), generator=g) * 32
    k = torch.randint(1, 5, (2, 1, 4), generator=g) * 32
    k = k + 32 * torch.randperm(5, generator=g)[:, None]
    q[1] *= -1
    return q.float(), k.float(), torch.randn(2, 5, 2, generator=g)


def _in_the_hull(case: Case, out: Tensor) -> bool:
    value = case.args[2]
    low, high = value.amin(-2, keepdim=True), value.amax(-2, keepdim=True)
    return bool((out <= high + 0.02).all() and (out >= low - 0.02).all())


exercise = Exercise(
    id="sdp-attention",
    points=3,
    reference=attention,
    cases=_cases,
    hints=(
        "All L times S dot products at once are one matrix product. Which "
        "of the two factors must be transposed so that (L, D) and (S, D) "
        "give (L, S)?",
        "key.mT swaps the last two axes, whatever stands before them "
        "(key.T does not). D is query.shape[-1]. Count axes from the end "
        "and the function works for any number of heads and batches.",
        "scale is None and scale is 0.0 are different: write `if scale is "
        "None`. Then scores = query @ key.mT * scale, a softmax over the "
        "last axis, and a product with value.",
    ),
    properties=(
        Property(
            "Every number of the result is a mean of one column of value, "
            "so it cannot leave the range of that column, and here it "
            "does: do the weights of each query sum to 1?",
            _in_the_hull,
        ),
    ),
)


def _default(query: Tensor, scale: float | None) -> float:
    return query.shape[-1] ** -0.5 if scale is None else scale


def _attend(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    return torch.softmax(q @ k.mT * scale, -1) @ v


@exercise.misconception("no scale by default", exposed_by="D = 8")
def no_scale(query, key, value, scale=None):
    """With scale=None the scores are used as they are. They grow with
    sqrt(D): at D = 64 one key takes nearly everything, and the gradient
    of the others dies. What should None stand for?"""
    return _attend(query, key, value, 1.0 if scale is None else scale)


@exercise.misconception("scaled by D, not by its root", exposed_by="D = 8")
def scaled_by_width(query, key, value, scale=None):
    """1 / D makes the attention too even. The variance of a sum of D terms
    is D: and its standard deviation?"""
    default = 1 / query.shape[-1]
    return _attend(query, key, value, default if scale is None else scale)


@exercise.misconception(
    "multiplied by the root of D, not divided", exposed_by="D = 8"
)
def multiplied(query, key, value, scale=None):
    """The factor goes the wrong way: the scores are D times as far apart as
    they should be. Should wide heads get larger scores, or the same as
    narrow ones?"""
    default = query.shape[-1] ** 0.5
    return _attend(query, key, value, default if scale is None else scale)


@exercise.misconception(
    "scaled by the number of keys", exposed_by="S and D that differ"
)
def scaled_by_keys(query, key, value, scale=None):
    """key.shape[-2] is S. With it, attention changes its temperature with
    the length of the text. How many terms does one dot product add?"""
    default = key.shape[-2] ** -0.5
    return _attend(query, key, value, default if scale is None else scale)


@exercise.misconception(
    "scaled by the number of queries", exposed_by="L and D that differ"
)
def scaled_by_queries(query, key, value, scale=None):
    """query.shape[-2] is L, the number of queries, and len(query) is only
    the first axis. A query's answer must not depend on how many others
    are asked with it. Which axis is summed in the dot product?"""
    default = query.shape[-2] ** -0.5
    return _attend(query, key, value, default if scale is None else scale)


@exercise.misconception(
    "scaled by the width of value", exposed_by="Dv and D that differ"
)
def scaled_by_values(query, key, value, scale=None):
    """The scale uses value's last axis. Nearly every model has Dv = D, so
    this sleeps until one does not (DeepSeek's, for instance). Which
    tensors are in the dot product?"""
    default = value.shape[-1] ** -0.5
    return _attend(query, key, value, default if scale is None else scale)


@exercise.misconception(
    "scaled by axis 1, whatever that is", exposed_by="four axes"
)
def scaled_by_axis_one(query, key, value, scale=None):
    """query.shape[1] is D as long as there are two axes; with three it is
    the length, with four the number of heads. The best key stays the best,
    so a demo still works. From which end does D have a fixed place?"""
    default = query.shape[1] ** -0.5
    return _attend(query, key, value, default if scale is None else scale)


@exercise.misconception("scaled twice", exposed_by="D = 8")
def scaled_twice(query, key, value, scale=None):
    """The queries are scaled, and then the scores again (torch's own
    function scales too, if you call it). The attention is almost even.
    How often does 1 / sqrt(D) appear on the way?"""
    factor = _default(query, scale)
    return _attend(query, key, value, factor * factor)


@exercise.misconception("scale is ignored", exposed_by="scale=1.0")
def scale_ignored(query, key, value, scale=None):
    """Whatever the caller asks for, 1 / sqrt(D) is used. Models that set
    their own scale (T5, Gemma, anything with normalised queries) load
    without an error and answer badly. Where does your code read scale?"""
    return _attend(query, key, value, query.shape[-1] ** -0.5)


@exercise.misconception("a scale of 0.0 is lost", exposed_by="scale=0.0")
def zero_lost(query, key, value, scale=None):
    """`scale or default` and `if not scale` take 0.0 for "not given",
    because 0.0 is false in Python. A scale of 0 means equal weights. How
    do you ask for None and nothing else?"""
    return _attend(query, key, value, scale or query.shape[-1] ** -0.5)


@exercise.misconception("divided by scale", exposed_by="scale=0.2")
def divided_by_scale(query, key, value, scale=None):
    """scale is a factor, and 1 / sqrt(D) its default: the scores are
    multiplied by it. Dividing works while nobody gives one. What happens
    to your scores when scale is 0.0?"""
    divisor = query.shape[-1] ** 0.5 if scale is None else scale
    return torch.softmax(query @ key.mT / divisor, -1) @ value


@exercise.misconception(
    "scale comes on top of 1 / sqrt(D)", exposed_by="scale=1.0"
)
def scale_on_top(query, key, value, scale=None):
    """A given scale replaces the default; here both apply, so scale=1.0
    still divides by sqrt(D). What should the caller write to get raw
    scores?"""
    factor = query.shape[-1] ** -0.5 * (1.0 if scale is None else scale)
    return _attend(query, key, value, factor)


@exercise.misconception(
    "the scale comes after the softmax", exposed_by="one key"
)
def scale_after(query, key, value, scale=None):
    """The weights are made from raw scores and scaled afterwards, so they
    no longer sum to 1 and every result shrinks. What is the scale meant
    to calm, the scores or the weights?"""
    weights = torch.softmax(query @ key.mT, -1)
    return weights * _default(query, scale) @ value


@exercise.misconception(
    "the softmax runs over the queries", exposed_by="one key, many queries"
)
def over_queries(query, key, value, scale=None):
    """dim=-2: each key hands out a total of 1 among the queries, and a query
    may get next to nothing. No shape is wrong, the loss falls, and one
    published model was trained like this. Add up the weights of one
    query: along which axis do they lie?"""
    scores = query @ key.mT * _default(query, scale)
    return torch.softmax(scores, -2) @ value


@exercise.misconception(
    "softmax with dim=1 in every case", exposed_by="three axes or more"
)
def hard_dim_one(query, key, value, scale=None):
    """Axis 1 holds the keys as long as there are two axes. With a batch it
    holds the queries, with heads the heads. Counted from which end do the
    keys keep their place?"""
    scores = query @ key.mT * _default(query, scale)
    return torch.softmax(scores, 1) @ value


@exercise.misconception(
    "softmax with dim=2 in every case", exposed_by="two or four axes"
)
def hard_dim_two(query, key, value, scale=None):
    """Axis 2 holds the keys as long as there are three axes. With one
    sequence there is no axis 2, with heads it holds the queries: the code
    breaks on the day that heads are added. Counted from which end do the
    keys keep their place?"""
    scores = query @ key.mT * _default(query, scale)
    return torch.softmax(scores, 2) @ value


@exercise.misconception(
    "key.T, which reverses all axes", exposed_by="three axes"
)
def all_axes_reversed(query, key, value, scale=None):
    """.T turns the order of all axes around, batch and heads included. For
    two axes that is what you want. Which of .T, .mT and transpose(-2, -1)
    swap the last two only?"""
    k = key.permute(*range(key.dim() - 1, -1, -1))
    return torch.softmax(query @ k * _default(query, scale), -1) @ value


@exercise.misconception(
    "key.transpose(1, 2) in every case", exposed_by="two or four axes"
)
def fixed_transpose(query, key, value, scale=None):
    """Axes 1 and 2 are the last two only when there are three. With heads,
    this swaps heads and positions. How do you name the last two axes
    without counting the others?"""
    scores = query @ key.transpose(1, 2) * _default(query, scale)
    return torch.softmax(scores, -1) @ value


@exercise.misconception(
    "key is reshaped, not transposed", exposed_by="more than one key"
)
def reshaped(query, key, value, scale=None):
    """reshape and view keep the numbers in their order and cut the rows
    elsewhere: a "key" is now made of pieces of several. The shape is
    right, the scores are nonsense. Try both on torch.arange(6) as (2, 3):
    which one turns rows into columns?"""
    k = key.reshape(*key.shape[:-2], key.shape[-1], key.shape[-2])
    return torch.softmax(query @ k * _default(query, scale), -1) @ value


@exercise.misconception("no softmax", exposed_by="one key")
def no_softmax(query, key, value, scale=None):
    """The raw scores multiply the values: they can be negative and sum to
    anything. With one key the result should be its value, untouched. What
    turns scores into weights?"""
    return query @ key.mT * _default(query, scale) @ value


@exercise.misconception(
    "no maximum is taken off", exposed_by="scores above 88"
)
def overflow(query, key, value, scale=None):
    """exp of a large score is inf, and inf / inf is NaN. You have solved
    this once already: can your softmax be used here?"""
    exps = (query @ key.mT * _default(query, scale)).exp()
    return exps / exps.sum(-1, keepdim=True) @ value


@exercise.misconception(
    "the keys are mixed, not the values", exposed_by="one key"
)
def keys_mixed(query, key, value, scale=None):
    """The weights multiply the keys, so value is never read. Keys say what
    a token can be found by; which tensor holds what it hands over?"""
    return _attend(query, key, key, _default(query, scale))


@exercise.misconception(
    "the weights come back too", exposed_by="any input: a tuple of two"
)
def weights_too(query, key, value, scale=None):
    """Many implementations return (output, weights); this one is asked for
    the output alone, so that it can be swapped for torch's. What does the
    Returns line say?"""
    weights = torch.softmax(query @ key.mT * _default(query, scale), -1)
    return weights @ value, weights


@exercise.misconception(
    "float64 goes through float32", exposed_by="float64 inputs"
)
def through_float(query, key, value, scale=None):
    """Half precision is better computed in float32; float64 is not: nine of
    its sixteen digits are gone, and a gradient check will fail. Which
    dtypes does your .float() mean to help?"""
    q, k, v = query.float(), key.float(), value.float()
    return _attend(q, k, v, _default(query, scale)).to(query.dtype)


@exercise.misconception(
    "bfloat16 comes back as float32", exposed_by="bfloat16 inputs"
)
def stays_float(query, key, value, scale=None):
    """The result is more precise than its inputs and of another dtype: the
    next matrix product, with bfloat16 weights, raises an error. What was
    query.dtype?"""
    is_half = query.dtype == torch.bfloat16
    q, k, v = (x.float() if is_half else x for x in (query, key, value))
    return _attend(q, k, v, _default(query, scale))


@exercise.misconception(
    "the result is cut off from the gradient",
    exposed_by="inputs that ask for their gradient",
)
def detached(query, key, value, scale=None):
    """The numbers are right and autograd knows nothing of them: .item(),
    .data, .detach(), .numpy(), torch.tensor(...) or no_grad cut the
    thread. Nothing before this layer would learn. Which line leaves
    torch?"""
    factor = _default(query, scale)
    return _attend(query.detach(), key.detach(), value.detach(), factor)


@exercise.equivalent("torch's own")
def _sdpa(query, key, value, scale=None):
    return F.scaled_dot_product_attention(query, key, value, scale=scale)


@exercise.equivalent("einsum")
def _einsum(query, key, value, scale=None):
    scale = 1 / math.sqrt(key.size(-1)) if scale is None else scale
    scores = torch.einsum("...ld,...sd->...ls", query, key) * scale
    return torch.einsum("...ls,...sv->...lv", scores.softmax(dim=-1), value)


@exercise.equivalent("transpose, the query scaled, softmax by hand")
def _by_hand(query, key, value, scale=None):
    q = query * _default(query, scale)
    scores = torch.matmul(q, key.transpose(-2, -1))
    exps = torch.exp(scores - scores.max(-1, keepdim=True).values)
    return torch.matmul(exps, value) / exps.sum(-1, keepdim=True)


@exercise.equivalent("flattened to three axes and bmm")
def _bmm(query, key, value, scale=None):
    q, k, v = (x.reshape(-1, *x.shape[-2:]) for x in (query, key, value))
    scores = torch.bmm(q, k.permute(0, 2, 1)).mul_(_default(query, scale))
    out = torch.bmm(F.softmax(scores, 2), v)
    return out.reshape(*query.shape[:-1], value.shape[-1])


@exercise.equivalent("keys down, queries across")
def _transposed(query, key, value, scale=None):
    scores = key @ query.mT * _default(query, scale)  # (..., S, L)
    return (value.mT @ scores.softmax(-2)).mT


@exercise.equivalent("one query at a time")
def _row_by_row(query, key, value, scale=None):
    rows = []
    for i in range(query.shape[-2]):
        products = query[..., i : i + 1, :] * key  # (..., S, D)
        weights = (products.sum(-1) * _default(query, scale)).softmax(-1)
        rows.append((weights[..., None] * value).sum(-2))
    return torch.stack(rows, -2)
