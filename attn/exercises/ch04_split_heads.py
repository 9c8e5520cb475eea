"""Exercise ``mha-split_heads``: from features to heads."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Generator, Tensor

from attn import functional
from attn.exercises.spec import Case, Exercise, Property


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """The reference, with the task's own arguments."""
    return functional.split_heads(x, num_heads)


def _cases(g: Generator) -> Iterator[Case]:
    def randn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=g)

    stage = "there is one token, so only the order of its features counts"
    yield Case(stage, (randn(1, 6), 3))
    yield Case(stage, (randn(2, 1, 12), 2))

    stage = "there is one head"
    yield Case(stage, (randn(4, 6), 1))
    yield Case(stage, (randn(3, 2, 5), 1))

    stage = "there is a batch: three axes"
    yield Case(stage, (randn(2, 5, 12), 3))
    yield Case(stage, (randn(3, 4, 10), 5))
    yield Case(stage, (randn(2, 6, 3), 3))

    stage = "there is one sequence: two axes"
    yield Case(stage, (randn(5, 12), 4))
    yield Case(stage, (randn(7, 6), 2))

    stage = "there are more axes in front"
    yield Case(stage, (randn(2, 3, 4, 10), 2))
    yield Case(stage, (randn(2, 1, 3, 5, 6), 3))

    stage = "axes have the same length"
    yield Case(stage, (randn(3, 3, 9), 3))
    yield Case(stage, (randn(2, 4, 16), 4))
    yield Case(stage, (randn(2, 2, 2, 4), 2))

    stage = "the input is a view of another tensor"
    yield Case(stage, (randn(12, 5, 2).transpose(0, 2), 3))
    yield Case(stage, (randn(1, 4, 6).expand(3, 4, 6), 2))

    stage = "gradients flow back"
    yield Case(stage, (randn(2, 5, 12), 3), grad=True)


def _has_the_shape(case: Case, out: object) -> bool:
    x, heads = case.args
    *lead, length, size = x.shape
    want = (*lead, heads, length, size // heads)
    return isinstance(out, Tensor) and tuple(out.shape) == want


def _keeps_tokens_together(case: Case, out: Tensor) -> bool:
    """Head h of token t holds numbers of token t only."""
    x, heads = case.args
    if not _has_the_shape(case, out):
        return True
    rows = out.movedim(-3, -2).flatten(-2).sort(-1).values
    return bool((rows == x.sort(-1).values).all())


exercise = Exercise(
    id="mha-split_heads",
    points=1,
    reference=split_heads,
    cases=_cases,
    hints=(
        "Two steps. First cut the last axis into H pieces of D numbers: the "
        "shape is then (..., L, H, D) and no number has moved. Then bring H "
        "in front of L.",
        "x.unflatten(-1, (num_heads, -1)) is the first step. The second "
        "must move numbers, so it is a transpose, not a reshape.",
        "After the first step H and L are the third and the second axis "
        "from the end, whatever stands before them (before the transpose: "
        "L is -3 and H is -2). Swap these two.",
    ),
    properties=(
        Property(
            "The result should have shape (..., H, L, D): the heads in "
            "front of the tokens, D features for each.",
            _has_the_shape,
        ),
        Property(
            "One token's features have ended up in the rows of another: "
            "reshape and view never move a number. Which step of yours "
            "moves them?",
            _keeps_tokens_together,
        ),
    ),
)


def _cut(x: Tensor, num_heads: int) -> Tensor:
    return x.unflatten(-1, (num_heads, -1))  # (..., L, H, D)


@exercise.misconception(
    "reshaped straight to (H, L, D)", exposed_by="more than one token"
)
def straight(x, num_heads):
    """view and reshape cut the same row of numbers at other places: head 0
    now holds the first tokens whole, and not the first features of each
    token. Every shape fits, and models train with it. Try it on
    torch.arange(8) as two tokens of four features: what is in head 0?"""
    *lead, length, size = x.shape
    return x.reshape(*lead, num_heads, length, size // num_heads)


@exercise.misconception(
    "each head takes every H-th feature", exposed_by="two heads of two"
)
def strided(x, num_heads):
    """Cut as (D, H) instead of (H, D), the features are dealt out like
    cards: head 0 gets features 0, H, 2H, … A model that learns from
    scratch does not mind; trained weights do. Which features does the task
    give to head h?"""
    return x.unflatten(-1, (-1, num_heads)).movedim(-1, -3)


@exercise.misconception(
    "the heads stay behind the tokens", exposed_by="any shape: (..., L, H, D)"
)
def not_moved(x, num_heads):
    """The features are cut, and the axes left as they are: (..., L, H, D).
    A matrix product works on the last two axes, so the heads of one token
    would attend to each other. Which two axes should be last?"""
    return _cut(x, num_heads)


@exercise.misconception(
    "tokens and features of a head are swapped",
    exposed_by="any shape: (..., H, D, L)",
)
def transposed_heads(x, num_heads):
    """The result is (..., H, D, L): each head lies on its side. That is how
    the keys will be turned for the scores, later, and only there. In which
    order does the task want L and D?"""
    return _cut(x, num_heads).movedim(-3, -1)


@exercise.misconception(
    "heads and features are swapped, tokens stay",
    exposed_by="any shape: (..., L, D, H)",
)
def wrong_pair(x, num_heads):
    """transpose(-1, -2) swaps H and D here, because the heads are still
    the second axis from the end: (..., L, D, H). Write the three last axes
    down: which two have to change places?"""
    return _cut(x, num_heads).transpose(-1, -2)


@exercise.misconception(
    "transpose(1, 2) in every case", exposed_by="two or four axes"
)
def fixed_axes(x, num_heads):
    """Axes 1 and 2 are L and H as long as there is exactly one batch axis.
    With one sequence, or two batch axes, they are something else. From
    which end do L and H have a fixed place?"""
    return _cut(x, num_heads).transpose(1, 2)


@exercise.misconception(
    "num_heads is taken for the size of a head",
    exposed_by="H and D that differ",
)
def heads_for_size(x, num_heads):
    """The last axis is cut into pieces of num_heads numbers, so that there
    are as many heads as a head should have features. Which of (H, -1) and
    (-1, H) makes H pieces?"""
    return x.unflatten(-1, (-1, num_heads)).transpose(-3, -2)


@exercise.misconception(
    "the tokens are divided, not the features",
    exposed_by="a length that H does not divide",
)
def tokens_divided(x, num_heads):
    """Each head gets a part of the sequence, with all its features. But a
    head should see every token, through D of its features. Which axis
    becomes shorter?"""
    *lead, length, size = x.shape
    return x.reshape(*lead, num_heads, length // num_heads, size)


@exercise.misconception(
    "every head gets all features", exposed_by="more than one head"
)
def all_features(x, num_heads):
    """The heads are copies of the whole input. Several full attentions
    would cost H times as much; the trick of multi-head attention is that
    each head works on a slice. How large is D, in terms of E and H?"""
    return x.unsqueeze(-3).repeat_interleave(num_heads, -3)


@exercise.misconception(
    "transposed first, then reshaped to (H, L, D)",
    exposed_by="more than one token, and D above 1",
)
def turned_first(x, num_heads):
    """After x.mT the features are rows, and the heads would be (H, D, L).
    Reshaping that to (H, L, D) mixes tokens with features. What does the
    second step have to be instead of reshape?"""
    *lead, length, size = x.shape
    return x.mT.reshape(*lead, num_heads, length, size // num_heads)


@exercise.misconception(
    "batch and heads are folded into one axis", exposed_by="a batch"
)
def folded(x, num_heads):
    """Older code has (B * H, L, D), because batched matrix products took
    three axes only. It works, and masks then need the same folding. What
    shape does the Returns line ask for?"""
    out = _cut(x, num_heads).transpose(-3, -2)
    return out.flatten(0, -3) if x.dim() > 2 else out


@exercise.misconception(
    "the result is cut off from the gradient",
    exposed_by="inputs that ask for their gradient",
)
def detached(x, num_heads):
    """The numbers are right and autograd knows nothing of them: .detach(),
    .data, .numpy(), torch.tensor(...) or no_grad cut the thread. Nothing
    before this layer would learn. Which line leaves torch?"""
    return _cut(x.detach(), num_heads).transpose(-3, -2)


@exercise.equivalent("view and permute, spelt out")
def _permute(x, num_heads):
    *lead, length, size = x.shape
    cut = x.reshape(*lead, length, num_heads, size // num_heads)
    front = list(range(len(lead)))
    n = len(lead)
    return cut.permute(*front, n + 1, n, n + 2).contiguous()


@exercise.equivalent("chunks, stacked")
def _chunks(x, num_heads):
    return torch.stack(x.chunk(num_heads, -1), -3)


@exercise.equivalent("slices, one head at a time")
def _slices(x, num_heads):
    D = x.shape[-1] // num_heads  # noqa: N806
    heads = [x[..., h * D : (h + 1) * D] for h in range(num_heads)]
    return torch.stack(heads, dim=-3)


@exercise.equivalent("filled in place")
def _filled(x, num_heads):
    D = x.shape[-1] // num_heads  # noqa: N806
    out = x.new_empty(*x.shape[:-2], num_heads, x.shape[-2], D)
    for h in range(num_heads):
        out[..., h, :, :] = x[..., h * D : (h + 1) * D]
    return out


@exercise.equivalent("an index")
def _index(x, num_heads):
    D = x.shape[-1] // num_heads  # noqa: N806
    features = torch.arange(num_heads * D).view(num_heads, 1, D)
    tokens = torch.arange(x.shape[-2]).view(1, -1, 1)
    return x[..., tokens, features]


@exercise.equivalent("movedim")
def _movedim(x, num_heads):
    return x.unflatten(-1, (num_heads, -1)).movedim(-2, -3)
