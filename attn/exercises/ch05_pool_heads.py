"""Exercise ``gqa-pool_heads``: from multi-head to grouped-query."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from attn import functional
from attn.exercises.spec import Case, Exercise, Property


def pool_heads(weight: Tensor, num_heads: int, num_kv_heads: int) -> Tensor:
    """The reference, with the task's own arguments."""
    return functional.pool_heads(weight, num_heads, num_kv_heads)


def _cases(g: Generator) -> Iterator[Case]:
    def weight(H: int, D: int, *rest: int) -> Tensor:  # noqa: N803
        """Each head has a level of its own, so that none passes for
        another."""
        level = torch.randperm(H, generator=g).float() * 3
        rows = torch.randn(H, D, *rest, generator=g)
        return (rows + level.view(-1, *[1] * (rows.dim() - 1))).flatten(0, 1)

    stage = "a head is one row (D = 1)"
    yield Case(stage, (weight(6, 1, 2), 6, 3))
    yield Case(stage, (weight(8, 1, 3), 8, 2))

    stage = "a head is several rows"
    yield Case(stage, (weight(6, 4, 5), 6, 3))
    yield Case(stage, (weight(6, 3, 7), 6, 2))
    yield Case(stage, (weight(12, 2, 5), 12, 3))

    stage = "one head is left (Hkv = 1)"
    yield Case(stage, (weight(4, 3, 5), 4, 1))
    yield Case(stage, (weight(2, 5, 4), 2, 1))

    stage = "H = Hkv, so that nothing changes"
    yield Case(stage, (weight(3, 4, 5), 3, 3))

    stage = "axes have the same length"
    yield Case(stage, (weight(4, 2, 8), 4, 2))
    yield Case(stage, (weight(4, 4, 4), 4, 2))
    yield Case(stage, (weight(9, 3, 3), 9, 3))

    stage = "it is a bias: one axis"
    yield Case(stage, (weight(6, 4), 6, 3))
    yield Case(stage, (weight(6, 3), 6, 2))
    yield Case(stage, (weight(4, 3), 4, 1))

    stage = "weight is a view of another tensor"
    yield Case(stage, (weight(6, 3, 7).mT.contiguous().mT, 6, 2))
    packed = torch.cat(
        [weight(6, 2, 5) for _ in range(3)]
    )  # query, key, value
    yield Case(stage, (packed[12:24], 6, 3))
    yield Case(stage, (torch.stack([weight(6, 2)] * 2, 1)[:, 0], 6, 2))

    stage = "gradients flow back, to every head that was averaged"
    yield Case(stage, (weight(6, 3, 4), 6, 2), grad=True)
    yield Case(stage, (weight(6, 2), 6, 3), grad=True)


def _right_shape(case: Case, out: Tensor) -> bool:
    weight, old, new = case.args
    return out.shape == (weight.shape[0] // old * new, *weight.shape[1:])


def _same_mean(case: Case, out: Tensor) -> bool:
    mean = case.args[0].mean(0)
    return not _right_shape(case, out) or torch.allclose(
        out.mean(0), mean, rtol=1e-3, atol=1e-3
    )


def _first_row(case: Case, out: Tensor) -> bool:
    weight, old, new = case.args
    if not _right_shape(case, out):
        return True
    rows = weight[:: len(weight) // old][: old // new]  # row 0 of its heads
    return torch.allclose(out[0], rows.mean(0), rtol=1e-3, atol=1e-3)


exercise = Exercise(
    id="gqa-pool_heads",
    points=2,
    reference=pool_heads,
    cases=_cases,
    hints=(
        "Head h owns rows h * D to (h + 1) * D - 1 of the weight. Which "
        "heads do the queries of group 0 read before the change, and so "
        "which must melt into new head 0?",
        "Take axis 0 apart into three: new heads, old heads in each, and "
        "rows. In which order? The neighbours that melt together are the "
        "middle one. A bias has axis 0 too, and nothing behind it.",
        "weight.unflatten(0, (num_kv_heads, G, -1)) leaves any further axis "
        "alone; a mean over axis 1 melts the old heads; and the first two "
        "axes of what is left are merged again.",
    ),
    properties=(
        Property(
            "Only axis 0 may change, from H * D rows to Hkv * D; a weight "
            "stays a matrix, a bias a vector.",
            _right_shape,
        ),
        Property(
            "Averaging heads does not change the mean of each column of "
            "weight, and here it does: is a sum divided by something else, "
            "or are heads left out?",
            _same_mean,
        ),
        Property(
            "Row 0 of new head 0 is the mean of row 0 of old heads 0 to "
            "G - 1, and here it is not: which rows were averaged?",
            _first_row,
        ),
    ),
)


def _grouped(weight: Tensor, num_heads: int, num_kv_heads: int) -> Tensor:
    """``(Hkv, G, D, ...)``."""
    group = num_heads // num_kv_heads
    return weight.unflatten(0, (num_kv_heads, group, -1))


@exercise.misconception(
    "heads h, h + Hkv, h + 2 Hkv … are averaged",
    exposed_by="two new heads or more, and two old ones to each",
)
def strided(weight, num_heads, num_kv_heads):
    """Axis 0 was taken apart as (G, Hkv, D), so that new head 0 is the mean
    of old heads 0, Hkv, 2 Hkv: but it is query heads 0 to G - 1 that will
    read it. The shape is right, and the model has to learn everything
    again. Which old heads do the queries of one group know?"""
    group = num_heads // num_kv_heads
    return weight.unflatten(0, (group, num_kv_heads, -1)).mean(0).flatten(0, 1)


@exercise.misconception(
    "the groups are averaged, not the heads in them",
    exposed_by="G and Hkv that differ",
)
def over_groups(weight, num_heads, num_kv_heads):
    """The mean runs over the Hkv groups, and the G heads of a group are
    kept: the wrong one of the two axes. With 4 heads and 2 the shape is
    right all the same. How many heads should be left?"""
    return _grouped(weight, num_heads, num_kv_heads).mean(0).flatten(0, 1)


@exercise.misconception(
    "num_kv_heads is taken for the size of a group",
    exposed_by="G and Hkv that differ",
)
def as_group_size(weight, num_heads, num_kv_heads):
    """Hkv heads melt into one, so that H // Hkv heads are left. It is the
    other way round: Hkv are wanted. With 4 heads and 2 it is the same. How
    many old heads melt into one when 8 become 2?"""
    group = num_heads // num_kv_heads
    heads = weight.unflatten(0, (group, num_kv_heads, -1))
    return heads.mean(1).flatten(0, 1)


@exercise.misconception(
    "neighbouring rows are averaged, not neighbouring heads",
    exposed_by="heads of several rows",
)
def rows_averaged(weight, num_heads, num_kv_heads):
    """G rows next to each other belong to one head: they are its features
    0, 1, 2, and have nothing in common. Rows that belong together are D
    apart. Where in weight does row 0 of head 1 stand?"""
    group = num_heads // num_kv_heads
    return weight.unflatten(0, (-1, group)).mean(1)


@exercise.misconception(
    "the rows of a head are averaged", exposed_by="heads of several rows"
)
def features_averaged(weight, num_heads, num_kv_heads):
    """The mean runs over the D features of each head: H rows are left, one
    for each old head. Features stay, heads melt. Which of your axes are
    the old heads of a group?"""
    return _grouped(weight, num_heads, num_kv_heads).mean(2).flatten(0, 1)


@exercise.misconception(
    "heads and their rows are averaged", exposed_by="heads of several rows"
)
def all_of_the_group(weight, num_heads, num_kv_heads):
    """Each group is one row now: its heads melted, and its D features too.
    A key of one number can hold very little. Over how many axes should
    the mean run?"""
    return _grouped(weight, num_heads, num_kv_heads).mean((1, 2))


@exercise.misconception("a sum, not a mean", exposed_by="G of 2 or more")
def summed(weight, num_heads, num_kv_heads):
    """The new head is G times too large: its scores too, and the softmax
    picks one key where it weighed them all. What happens to keys that were
    the same in all G heads, and what should?"""
    return _grouped(weight, num_heads, num_kv_heads).sum(1).flatten(0, 1)


@exercise.misconception(
    "the sum is divided by Hkv", exposed_by="G and Hkv that differ"
)
def divided_by_new(weight, num_heads, num_kv_heads):
    """You add G heads and divide by num_kv_heads. With 4 heads and 2 both
    are 2. How many heads were added up?"""
    return summed(weight, num_heads, num_kv_heads) / num_kv_heads


@exercise.misconception(
    "the sum is divided by H", exposed_by="two new heads or more"
)
def divided_by_old(weight, num_heads, num_kv_heads):
    """You add G heads and divide by num_heads: the new heads are Hkv times
    too small, and the attention is too even. How many heads were added
    up?"""
    return summed(weight, num_heads, num_kv_heads) / num_heads


@exercise.misconception(
    "the first head of each group is kept", exposed_by="G of 2 or more"
)
def first_of_group(weight, num_heads, num_kv_heads):
    """The other G - 1 heads are thrown away. That is a way to start, too,
    and the paper tried it: the mean needs less training to repair. What
    does the task ask for?"""
    return _grouped(weight, num_heads, num_kv_heads)[:, 0].flatten(0, 1)


@exercise.misconception(
    "the first Hkv heads are kept", exposed_by="G of 2 or more"
)
def cut_off(weight, num_heads, num_kv_heads):
    """The weight is cut to the right size, and the other heads are thrown
    away: most queries will meet keys that they were never trained on. What
    should become of old head H - 1?"""
    return weight[: weight.shape[0] // num_heads * num_kv_heads]


@exercise.misconception(
    "the mean of all heads, Hkv times", exposed_by="two new heads or more"
)
def mean_of_all(weight, num_heads, num_kv_heads):
    """All H heads melt into one that is then repeated: multi-query attention
    with copies. Over which heads does the mean of one group run?"""
    mean = weight.unflatten(0, (num_heads, -1)).mean(0)
    return torch.cat([mean] * num_kv_heads)


@exercise.misconception(
    "the means are repeated up to H heads", exposed_by="G of 2 or more"
)
def repeated(weight, num_heads, num_kv_heads):
    """There are as many heads as before, equal ones in each group: nothing
    is saved. The copies are made when attention is computed (or never),
    and not in the weights. How many rows should be left?"""
    mean = _grouped(weight, num_heads, num_kv_heads).mean(1, keepdim=True)
    group = num_heads // num_kv_heads
    return mean.repeat_interleave(group, 1).flatten(0, 2)


@exercise.misconception(
    "the heads are not merged", exposed_by="any input: an axis too many"
)
def not_merged(weight, num_heads, num_kv_heads):
    """The result is (Hkv, D, E), and a Linear wants (Hkv * D, E). Which two
    axes belong together?"""
    return _grouped(weight, num_heads, num_kv_heads).mean(1)


@exercise.misconception(
    "the rows of the new heads are mixed when they are merged",
    exposed_by="two new heads of several rows",
)
def merged_turned(weight, num_heads, num_kv_heads):
    """The means are right, and then they are merged as (D, Hkv): row 1 of
    the result belongs to head 1, where it should be row 1 of head 0. In
    which order does a Linear that is split by unflatten(-1, (Hkv, D)) hold
    its rows?"""
    mean = _grouped(weight, num_heads, num_kv_heads).mean(1)
    return mean.transpose(0, 1).flatten(0, 1)


@exercise.misconception(
    "the rows are taken to be in the order (D, H)",
    exposed_by="two new heads of several rows",
)
def features_first(weight, num_heads, num_kv_heads):
    """Axis 0 was taken apart with the features first, as if row 1 belonged
    to head 1. nn.Linear followed by unflatten(-1, (H, D)) has the D rows of
    head 0 first, then those of head 1. To which head does row 1
    belong?"""
    group = num_heads // num_kv_heads
    rows = weight.unflatten(0, (-1, num_kv_heads, group)).mean(2)
    return rows.transpose(0, 1).flatten(0, 1)


@exercise.misconception("a weight must have two axes", exposed_by="a bias")
def two_axes(weight, num_heads, num_kv_heads):
    """rows, E = weight.shape fails for a bias, which has one axis. Qwen's
    keys and values have biases, and they must be averaged like the
    weights. Can you take axis 0 apart without naming what stands behind
    it?"""
    rows, width = weight.shape
    return _grouped(weight, num_heads, num_kv_heads).mean(1).reshape(-1, width)


@exercise.misconception("weight.shape[1] is asked for", exposed_by="a bias")
def asks_for_width(weight, num_heads, num_kv_heads):
    """weight.shape[1] (or weight.size(1)) does not exist for a bias, which
    has one axis. Qwen's keys and values have biases, and they must be
    averaged like the weights. Can you take axis 0 apart without naming
    what stands behind it?"""
    width = weight.shape[1]
    return _grouped(weight, num_heads, num_kv_heads).mean(1).reshape(-1, width)


@exercise.misconception("a bias comes back as a matrix", exposed_by="a bias")
def bias_with_axis(weight, num_heads, num_kv_heads):
    """A reshape to four axes makes a column of the bias, and the result is
    (Hkv * D, 1): it does not fit into a Linear. What shape had the
    bias?"""
    pooled = _grouped(weight, num_heads, num_kv_heads).mean(1)
    return pooled.flatten(0, 1).reshape(pooled.shape[:2].numel(), -1)


@exercise.misconception(
    "D is taken to be E // H", exposed_by="a weight that is not square"
)
def width_from_embedding(weight, num_heads, num_kv_heads):
    """The width of a head is computed from the columns. Many models have
    H * D and E that differ (Gemma's heads are wider, for instance), and a
    bias has no columns. Which axis holds the H * D rows?"""
    group, width = num_heads // num_kv_heads, weight.shape[1]
    heads = weight.reshape(num_kv_heads, group, width // num_heads, width)
    return heads.mean(1).reshape(-1, width)


@exercise.misconception(
    "the result is cut off from the gradient",
    exposed_by="a weight that asks for its gradient",
)
def detached(weight, num_heads, num_kv_heads):
    """The numbers are right and autograd knows nothing of them: .data,
    .detach(), no_grad or torch.tensor(...) cut the thread. For a one-time
    conversion that would do; the check asks for the gradient, because a
    mean that can be trained through is worth more. Which line leaves
    autograd?"""
    pooled = _grouped(weight, num_heads, num_kv_heads).mean(1)
    return pooled.flatten(0, 1).detach()


@exercise.equivalent("reshape, a sum and a division")
def _reshape(weight, num_heads, num_kv_heads):
    width = len(weight) // num_heads
    group = num_heads // num_kv_heads
    heads = weight.reshape(num_kv_heads, group, width, *weight.shape[1:])
    total = heads.sum(dim=1) / group
    return total.reshape(num_kv_heads * width, *weight.shape[1:])


@exercise.equivalent("a loop over the new heads")
def _loop(weight, num_heads, num_kv_heads):
    group = num_heads // num_kv_heads
    heads = weight.chunk(num_heads, dim=0)
    return torch.cat(
        [
            sum(heads[i * group : (i + 1) * group]) / group
            for i in range(num_kv_heads)
        ]
    )


@exercise.equivalent("every G-th head, added up")
def _strides(weight, num_heads, num_kv_heads):
    group = num_heads // num_kv_heads
    heads = weight.unflatten(0, (num_heads, -1))
    total = heads[0::group] * 1.0
    for i in range(1, group):
        total = total + heads[i::group]
    return (total / group).flatten(0, 1)


@exercise.equivalent("a matrix product from the left")
def _matrix(weight, num_heads, num_kv_heads):
    group, width = num_heads // num_kv_heads, len(weight) // num_heads
    mean = torch.full((1, group), 1 / group)
    pool = torch.kron(torch.eye(num_kv_heads), mean)
    return torch.kron(pool, torch.eye(width)) @ weight


@exercise.equivalent("index_add into zeros")
def _index_add(weight, num_heads, num_kv_heads):
    group = num_heads // num_kv_heads
    heads = weight.unflatten(0, (num_heads, -1))
    out = weight.new_zeros(num_kv_heads, *heads.shape[1:])
    index = torch.arange(num_heads) // group
    return out.index_add(0, index, heads / group).flatten(0, 1)


@exercise.equivalent("torch's average pooling along the heads")
def _avg_pool(weight, num_heads, num_kv_heads):
    group, width = num_heads // num_kv_heads, len(weight) // num_heads
    flat = weight.reshape(num_heads, -1).T  # (D * E, H)
    pooled = F.avg_pool1d(flat[None], group)[0].T  # (Hkv, D * E)
    return pooled.reshape(num_kv_heads * width, *weight.shape[1:])
