"""Exercise ``gqa-repeat_kv``: a copy of its head for each query head."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Generator, Tensor

from attn import functional
from attn.exercises.spec import Case, Exercise, Property


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    """The reference, with the task's own arguments."""
    return functional.repeat_kv(x, n_rep)


def _cases(g: Generator) -> Iterator[Case]:
    def randn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=g)

    stage = "there are batch, heads, positions and features: four axes"
    yield Case(stage, (randn(2, 3, 2, 1), 2))
    yield Case(stage, (randn(2, 3, 5, 4), 2))
    yield Case(stage, (randn(1, 4, 3, 2), 3))

    stage = "there are more copies than heads"
    yield Case(stage, (randn(2, 2, 5, 4), 3))
    yield Case(stage, (randn(1, 2, 3, 6), 5))

    stage = "axes have the same length"
    yield Case(stage, (randn(2, 2, 2, 2), 2))
    yield Case(stage, (randn(3, 3, 3, 3), 3))
    yield Case(stage, (randn(4, 2, 4, 2), 2))

    stage = "there is one head (multi-query attention)"
    yield Case(stage, (randn(2, 1, 5, 3), 4))

    stage = "n_rep is 1, so that nothing changes"
    yield Case(stage, (randn(2, 3, 5, 4), 1))

    stage = "there is no batch: three axes"
    yield Case(stage, (randn(2, 5, 4), 3))
    yield Case(stage, (randn(3, 1, 4), 2))

    stage = "there are two axes before the heads: five axes"
    yield Case(stage, (randn(2, 4, 3, 5, 6), 2))
    yield Case(stage, (randn(1, 2, 2, 3, 4), 3))

    stage = "x is a view of another tensor"
    yield Case(stage, (randn(2, 5, 3, 4).transpose(1, 2), 2))  # (B, S, Hkv, D)
    yield Case(stage, (randn(2, 2, 3, 7)[..., 1:5], 3))
    yield Case(stage, (randn(2, 3, 1, 4).expand(-1, -1, 5, -1), 2))

    stage = "gradients flow back, and add up over the copies"
    yield Case(stage, (randn(2, 3, 2, 4), 2), grad=True)
    yield Case(stage, (randn(2, 3, 4), 3), grad=True)


def _right_shape(case: Case, out: Tensor) -> bool:
    x, n_rep = case.args
    return out.shape == x.repeat_interleave(n_rep, -3).shape


def _neighbours(case: Case, out: Tensor) -> bool:
    x, n_rep = case.args
    if n_rep == 1 or not _right_shape(case, out):
        return True
    return torch.equal(out.select(-3, 0), out.select(-3, 1))


def _starts_as_x(case: Case, out: Tensor) -> bool:
    if not _right_shape(case, out):
        return True
    return torch.equal(out.select(-3, 0), case.args[0].select(-3, 0))


exercise = Exercise(
    id="gqa-repeat_kv",
    points=2,
    reference=repeat_kv,
    cases=_cases,
    hints=(
        "With two heads and n_rep = 3 the order is 0, 0, 0, 1, 1, 1. torch "
        "has two functions that repeat: one repeats the whole list, the "
        "other repeats each entry. Try both on torch.tensor([0, 1]).",
        "The heads are the third axis from the end, with a batch or "
        "without one: name it from there. By hand: make a new axis of "
        "length n_rep right after the heads, and merge the two.",
        "torch.repeat_interleave takes a number of copies and a dim. Or: "
        "unsqueeze(-3) gives (..., Hkv, 1, S, D), expand makes the 1 an "
        "n_rep, and flatten(-4, -3) merges it with the heads before it.",
    ),
    properties=(
        Property(
            "Only the number of heads may change: n_rep times as many on "
            "axis -3, and every other axis as it was.",
            _right_shape,
        ),
        Property(
            "Head 0 of the result must be head 0 of x, untouched.",
            _starts_as_x,
        ),
        Property(
            "Heads 0 and 1 of the result must be the same when n_rep is 2 "
            "or more, and here they differ: in which order do the copies "
            "stand?",
            _neighbours,
        ),
    ),
)


@exercise.misconception(
    "the whole row of heads is repeated (0, 1, 0, 1)",
    exposed_by="two heads or more, n_rep of 2 or more",
)
def tiled(x: Tensor, n_rep: int) -> Tensor:
    """The copies stand as 0, 1, 0, 1, and query heads 0 and 1 should both
    find head 0. A model that is trained like this never notices; a
    checkpoint that is loaded like this speaks nonsense, and so did a
    version of ONNX's own definition. What is the difference between
    repeat and repeat_interleave?"""
    return torch.cat([x] * n_rep, dim=-3)


@exercise.misconception(
    "axis 1 is repeated, whatever that is", exposed_by="three axes, or five"
)
def axis_one(x: Tensor, n_rep: int) -> Tensor:
    """dim=1 is the head axis only as long as there is exactly one axis
    before it. Without a batch it is the positions. Counted from which end
    do the heads keep their place?"""
    return x.repeat_interleave(n_rep, dim=1)


@exercise.misconception(
    "exactly four axes are expected", exposed_by="three axes, or five"
)
def four_axes(x: Tensor, n_rep: int) -> Tensor:
    """B, Hkv, S, D = x.shape is how Hugging Face writes it, because there a
    batch is never missing. This task's x is (..., Hkv, S, D): the dots may
    be nothing, or two axes. How do you name the last three axes, and leave
    the others alone?"""
    B, Hkv, S, D = x.shape  # noqa: N806
    x = x[:, :, None].expand(B, Hkv, n_rep, S, D)
    return x.reshape(B, Hkv * n_rep, S, D)


@exercise.misconception(
    "the positions are repeated, not the heads", exposed_by="any n_rep above 1"
)
def positions(x: Tensor, n_rep: int) -> Tensor:
    """dim=-2 is S: every token now stands there n_rep times, and the number
    of heads has not changed. Counting from the end: D is -1, S is -2, and
    the heads?"""
    return x.repeat_interleave(n_rep, dim=-2)


@exercise.misconception(
    "the whole text is repeated, not the heads", exposed_by="any n_rep above 1"
)
def text_again(x: Tensor, n_rep: int) -> Tensor:
    """The sequence is longer, each text n_rep times one after the other, and
    the number of heads has not changed. (Equal keys share their weight, so
    without a mask the result of attention would not even differ.) Which
    axis are the heads?"""
    return torch.cat([x] * n_rep, dim=-2)


@exercise.misconception(
    "the features are repeated, not the heads", exposed_by="any n_rep above 1"
)
def features(x: Tensor, n_rep: int) -> Tensor:
    """dim=-1 is D: the keys are now wider than the queries, and no dot
    product fits. Counting from the end: D is -1, S is -2, and the
    heads?"""
    return x.repeat_interleave(n_rep, dim=-1)


@exercise.misconception(
    "the batch is repeated, not the heads", exposed_by="any n_rep above 1"
)
def batch(x: Tensor, n_rep: int) -> Tensor:
    """Axis 0 is the batch: there are now n_rep times as many sequences, each
    with as few heads as before. Which axis are the heads?"""
    return x.repeat_interleave(n_rep, dim=0)


@exercise.misconception(
    "the whole batch is repeated, not the heads",
    exposed_by="any n_rep above 1",
)
def batch_again(x: Tensor, n_rep: int) -> Tensor:
    """The first number of repeat is for axis 0, the batch: there are now
    n_rep times as many sequences, each with as few heads as before. Which
    axis are the heads?"""
    return torch.cat([x] * n_rep, dim=0)


@exercise.misconception(
    "every number is repeated, and the axes are lost",
    exposed_by="any input with more than one axis",
)
def flat(x: Tensor, n_rep: int) -> Tensor:
    """repeat_interleave without dim takes x apart into one long row of
    numbers. Which argument tells it what to repeat?"""
    return x.repeat_interleave(n_rep)


@exercise.misconception(
    "the copies are put between the positions, then cut",
    exposed_by="more than one position",
)
def between_positions(x: Tensor, n_rep: int) -> Tensor:
    """The new axis stands behind S (or the features are there n_rep times side
    by side), and a reshape cuts the result into heads. The shape is right,
    but a "head" holds the first positions n_rep times, and the next one
    the rest. reshape merges neighbours only: behind which axis must the
    new one stand?"""
    shape = (*x.shape[:-3], x.shape[-3] * n_rep, *x.shape[-2:])
    return x.repeat_interleave(n_rep, dim=-2).reshape(shape)


@exercise.misconception(
    "the copies are put between the features, then cut",
    exposed_by="more than one feature",
)
def between_features(x: Tensor, n_rep: int) -> Tensor:
    """The new axis is the last one, or D is what was repeated, and a reshape
    cuts the result into heads. The shape is right, but each feature stands
    there n_rep times in a row. reshape merges neighbours only: behind
    which axis must the new one stand?"""
    shape = (*x.shape[:-3], x.shape[-3] * n_rep, *x.shape[-2:])
    return x.repeat_interleave(n_rep, dim=-1).reshape(shape)


@exercise.misconception(
    "n_rep is taken for the number of heads wanted",
    exposed_by="n_rep and Hkv that differ",
)
def wanted(x: Tensor, n_rep: int) -> Tensor:
    """You divide n_rep by Hkv. n_rep is how often each head is to be there,
    already divided: H // Hkv. How many heads should come out of 3 heads
    with n_rep = 2?"""
    return x.repeat_interleave(n_rep // x.shape[-3], dim=-3)


@exercise.misconception(
    "n_rep copies on top of the head itself", exposed_by="any n_rep"
)
def one_more(x: Tensor, n_rep: int) -> Tensor:
    """Each head is there n_rep + 1 times. n_rep counts query heads, and one
    of them gets the original. What should n_rep = 1 do?"""
    return x.repeat_interleave(n_rep + 1, dim=-3)


@exercise.misconception("one copy too few", exposed_by="any n_rep")
def one_less(x: Tensor, n_rep: int) -> Tensor:
    """Each head is there n_rep - 1 times; with n_rep = 1 nothing is left.
    Does your loop start at 1, or does the original get lost when the
    copies are made?"""
    return x.repeat_interleave(n_rep - 1, dim=-3)


@exercise.misconception(
    "the new axis is not merged with the heads", exposed_by="any input"
)
def not_merged(x: Tensor, n_rep: int) -> Tensor:
    """The result is (..., Hkv, n_rep, S, D), with one axis too many. The
    numbers are in the right order already. Which function makes one axis
    of two neighbours?"""
    return x.unsqueeze(-3).repeat_interleave(n_rep, dim=-3)


@exercise.misconception(
    "head h is taken from h // Hkv", exposed_by="n_rep and Hkv that differ"
)
def divided_by_heads(x: Tensor, n_rep: int) -> Tensor:
    """You divide by the number of key heads, where the size of a group
    belongs. It is the same as long as both are equal, as in a demo with 4
    heads and 2. With 6 query heads and 3 key heads: which key head should
    query head 2 read?"""
    heads = torch.arange(x.shape[-3] * n_rep) // x.shape[-3]
    return x.index_select(-3, heads)


@exercise.misconception(
    "every query head gets head 0", exposed_by="more than one head"
)
def head_zero(x: Tensor, n_rep: int) -> Tensor:
    """All heads of the result are copies of the first head of x, and the
    other key heads are never read: multi-query attention by accident. When
    h runs over the heads of the result, which head of x does h = n_rep
    need?"""
    first = x.narrow(-3, 0, 1)
    return first.repeat_interleave(x.shape[-3] * n_rep, dim=-3)


@exercise.misconception(
    "the copies of one sequence come from the next",
    exposed_by="a batch of more than one",
)
def merged_with_batch(x: Tensor, n_rep: int) -> Tensor:
    """The copies were made in front of the batch, or the batch was merged
    with them, and the reshape at the end deals them out wrongly: sequence
    0 holds heads of sequence 1. In a batch of one it is invisible. Which
    axes stand next to each other when you reshape?"""
    shape = (*x.shape[:-3], x.shape[-3] * n_rep, *x.shape[-2:])
    return torch.cat([x] * n_rep, dim=0).reshape(shape)


@exercise.misconception("the copies are zeros", exposed_by="any n_rep above 1")
def zeros(x: Tensor, n_rep: int) -> Tensor:
    """Only the first head of each group is filled, and the others stay
    zero: an attention over zeros is an even one, of nothing. Which line
    writes the other n_rep - 1?"""
    rest = torch.zeros_like(x).unsqueeze(-3)
    rest = rest.repeat_interleave(n_rep - 1, dim=-3)
    return torch.cat([x.unsqueeze(-3), rest], dim=-3).flatten(-4, -3)


@exercise.misconception(
    "the result is cut off from the gradient",
    exposed_by="an x that asks for its gradient",
)
def detached(x: Tensor, n_rep: int) -> Tensor:
    """The numbers are right and autograd knows nothing of them: .data,
    .detach(), .numpy(), torch.tensor(...) or no_grad cut the thread. The
    key and value projections would never learn. Which line leaves
    torch?"""
    return x.detach().repeat_interleave(n_rep, dim=-3)


@exercise.misconception(
    "only one copy passes its gradient on",
    exposed_by="an x that asks for its gradient",
)
def one_gradient(x: Tensor, n_rep: int) -> Tensor:
    """The numbers are right, but n_rep - 1 of the copies are detached, so
    that a key head learns from one of its query heads only. What does a
    plain copy, without .detach() or .data, do in the backward pass?"""
    rest = x.detach().unsqueeze(-3).repeat_interleave(n_rep - 1, dim=-3)
    return torch.cat([x.unsqueeze(-3), rest], dim=-3).flatten(-4, -3)


@exercise.equivalent("expand and flatten, nothing copied before the end")
def _expand(x, n_rep):
    shape = (*x.shape[:-2], n_rep, *x.shape[-2:])
    return x.unsqueeze(-3).expand(shape).flatten(-4, -3)


@exercise.equivalent("an index for each head")
def _index(x, n_rep):
    heads = torch.arange(x.shape[-3] * n_rep) // n_rep
    return x[..., heads, :, :]


@exercise.equivalent("stacked in a loop")
def _loop(x, n_rep):
    heads = x.unbind(-3)
    return torch.stack([h for h in heads for _ in range(n_rep)], dim=-3)


@exercise.equivalent("the early return of Hugging Face")
def _early(x, n_rep):
    if n_rep == 1:
        return x
    *lead, heads, s, d = x.shape
    copies = x[..., :, None, :, :].expand(*lead, heads, n_rep, s, d)
    return copies.reshape(*lead, heads * n_rep, s, d)


@exercise.equivalent("the text is repeated behind itself, then cut in heads")
def _along_the_text(x, n_rep):
    *lead, heads, s, d = x.shape
    return torch.cat([x] * n_rep, -2).reshape(*lead, heads * n_rep, s, d)


@exercise.equivalent("the heads filled in one stride after the other")
def _strides(x, n_rep):
    *lead, heads, s, d = x.shape
    out = torch.empty(*lead, heads * n_rep, s, d, dtype=x.dtype)
    for i in range(n_rep):
        out[..., i::n_rep, :, :] = x
    return out


@exercise.equivalent("a matrix product with ones and zeros")
def _matrix(x, n_rep):
    eye = torch.eye(x.shape[-3], dtype=x.dtype)
    pick = torch.kron(eye, torch.ones(n_rep, 1, dtype=x.dtype))
    return torch.einsum("hk,...ksd->...hsd", pick, x)
