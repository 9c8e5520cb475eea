"""Exercise ``rope-permute_weights``: from one layout to the other."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Generator, Tensor

from attn.exercises.spec import Case, Exercise, Property
from attn.positions import convert_pairing


def permute_weights(weight: Tensor, num_heads: int) -> Tensor:
    """The reference, with the task's own arguments."""
    head_dim = len(weight) // num_heads
    return convert_pairing(weight, "half", dim=0, head_dim=head_dim)


def _cases(g: Generator) -> Iterator[Case]:
    def randn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=g)

    stage = "there is one head of one pair: nothing moves"
    yield Case(stage, (randn(2, 5), 1))

    stage = "there is one head"
    yield Case(stage, (randn(8, 5), 1))
    yield Case(stage, (torch.arange(12.0)[:, None].expand(12, 3), 1))
    yield Case(stage, (randn(6, 6), 1))

    stage = "there are several heads"
    yield Case(stage, (randn(24, 7), 3))
    yield Case(stage, (randn(20, 4), 2))
    yield Case(stage, (randn(40, 3), 4))

    stage = "axes have the same length"
    yield Case(stage, (randn(16, 16), 2))
    yield Case(stage, (randn(36, 6), 6))

    stage = "it is a bias"
    yield Case(stage, (randn(24), 3))
    yield Case(stage, (randn(8), 1))

    stage = "the weight is a view of another tensor"
    yield Case(stage, (randn(5, 16).mT, 2))

    stage = "gradients flow back"
    yield Case(stage, (randn(16, 3), 2), grad=True)


def _same_rows(case: Case, out: object) -> bool:
    """Each head has its own rows still, in some order."""
    weight, heads = case.args
    if not isinstance(out, Tensor) or out.shape != weight.shape:
        return False
    a, b = (
        x.reshape(heads, len(weight) // heads, -1).sum(-1).sort(-1).values
        for x in (weight, out)
    )
    return torch.allclose(a, b, atol=1e-4)


exercise = Exercise(
    id="rope-permute_weights",
    points=2,
    reference=permute_weights,
    cases=_cases,
    hints=(
        "Take one head of D = 6: its rows 0 1 2 3 4 5 are the pairs (0, 1), "
        "(2, 3), (4, 5). In the half layout row i is paired with row i + 3. "
        "In which order must the six stand?",
        "0 2 4 1 3 5: first the first rows of all pairs, then the second "
        "ones. That is a transpose of (D / 2, 2).",
        "weight.unflatten(0, (num_heads, -1, 2)) is (H, D / 2, 2, ...). "
        "Swap axes 1 and 2, and flatten axes 0 to 2. The axis behind, where "
        "there is one, stays.",
    ),
    properties=(
        Property(
            "Rows have left their head, or were changed: the rows of each "
            "head should be the same as before, in another order.",
            _same_rows,
        ),
    ),
)


@exercise.misconception("nothing moves", exposed_by="one head of two pairs")
def unchanged(weight, num_heads):
    """The weight comes back as it was. It loads, its shapes fit, and the
    scores are wrong from position 1 on. Which rows does apply_rope take for
    a pair?"""
    return weight.clone()


@exercise.misconception(
    "the other direction: from half to interleaved",
    exposed_by="one head of four pairs",
)
def inverse(weight, num_heads):
    """view(H, 2, D / 2) undoes the permutation that is asked for: it takes
    a weight of transformers to Meta's layout. With two pairs a head the two
    are the same. Which of (2, -1) and (-1, 2) finds *neighbours*?"""
    halves = weight.unflatten(0, (num_heads, 2, -1))
    return halves.transpose(1, 2).flatten(0, 2)


@exercise.misconception(
    "the whole matrix is permuted, not each head", exposed_by="several heads"
)
def across_heads(weight, num_heads):
    """Even rows first, odd rows last, over all heads at once: half of head
    0 ends up in another head. The rotation pairs rows within a head. Where
    is num_heads in your code?"""
    return torch.cat([weight[0::2], weight[1::2]])


@exercise.misconception("the odd rows come first", exposed_by="one head")
def odd_first(weight, num_heads):
    """The second rows of the pairs stand before the first ones: each pair
    (a, b) has become (b, a), and turns the other way. Which of the two does
    apply_rope expect in the first half?"""
    pairs = weight.unflatten(0, (num_heads, -1, 2)).flip(2)
    return pairs.transpose(1, 2).flatten(0, 2)


@exercise.misconception(
    "columns are permuted, not rows", exposed_by="a square weight"
)
def columns(weight, num_heads):
    """nn.Linear computes x @ weight.T: output features are rows. Columns
    belong to the input, whose order has not changed. Which axis of the
    weight has H · D entries?"""
    pairs = weight.unflatten(-1, (num_heads, -1, 2))
    return pairs.transpose(-1, -2).flatten(-3)


@exercise.misconception(
    "num_heads is taken for the size of a head",
    exposed_by="H and D that differ",
)
def heads_for_size(weight, num_heads):
    """The rows are cut into pieces of num_heads rows, and not into
    num_heads pieces. How many rows has one head?"""
    heads = len(weight) // num_heads
    pairs = weight.unflatten(0, (heads, -1, 2))
    return pairs.transpose(1, 2).flatten(0, 2)


@exercise.misconception(
    "the halves of each head are exchanged", exposed_by="one head"
)
def exchanged(weight, num_heads):
    """The second half of the rows now stands first; neighbours are still
    neighbours. Where do the two rows of a pair have to be?"""
    heads = weight.unflatten(0, (num_heads, 2, -1))
    return heads.flip(1).flatten(0, 2)


@exercise.misconception(
    "the rows of each head are turned around", exposed_by="one head"
)
def reversed_rows(weight, num_heads):
    """The last row of each head stands first; neighbours are still
    neighbours, in the other order. Where do the two rows of a pair have to
    be?"""
    return weight.unflatten(0, (num_heads, -1)).flip(1).flatten(0, 1)


@exercise.misconception("a bias has no second axis", exposed_by="a bias")
def weights_only(weight, num_heads):
    """weight.shape[1] raises an IndexError for a bias, and models with a
    bias (Qwen2, for one) need it permuted too. How can you cut the first
    axis and leave whatever stands behind it?"""
    width = weight.shape[1]
    pairs = weight.reshape(num_heads, -1, 2, width).transpose(1, 2)
    return pairs.reshape(-1, width)


@exercise.misconception(
    "the heads are an axis of the result", exposed_by="any weight"
)
def heads_kept(weight, num_heads):
    """(H, D, E) is one axis too many for nn.Linear. Which axes belong
    together again in the end?"""
    pairs = weight.unflatten(0, (num_heads, -1, 2))
    return pairs.transpose(1, 2).flatten(1, 2)


@exercise.equivalent("an index")
def _index(weight, num_heads):
    size = weight.shape[0] // num_heads
    one = torch.cat([torch.arange(0, size, 2), torch.arange(1, size, 2)])
    start = torch.arange(num_heads)[:, None] * size
    return weight[(start + one).flatten()]


@exercise.equivalent("as in the conversion script of transformers")
def _view(weight, num_heads):
    rows, rest = weight.shape[0], weight.shape[1:]
    cut = weight.reshape(num_heads, rows // num_heads // 2, 2, *rest)
    return cut.transpose(1, 2).reshape(rows, *rest)


@exercise.equivalent("head by head")
def _heads(weight, num_heads):
    parts = []
    for head in weight.chunk(num_heads):
        parts += [head[0::2], head[1::2]]
    return torch.cat(parts)


@exercise.equivalent("row by row")
def _rows(weight, num_heads):
    size = len(weight) // num_heads
    rows = []
    for h in range(num_heads):
        rows += [weight[h * size + i] for i in range(0, size, 2)]
        rows += [weight[h * size + i] for i in range(1, size, 2)]
    return torch.stack(rows)


@exercise.equivalent("a permutation matrix")
def _matrix(weight, num_heads):
    size = len(weight) // num_heads
    order = torch.arange(size).view(-1, 2).T.flatten()
    swap = torch.block_diag(*[torch.eye(size)[order]] * num_heads)
    return swap.to(weight.dtype) @ weight
