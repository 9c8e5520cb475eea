"""Exercise ``mha-merge_heads``: from heads back to features."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Generator, Tensor

from attn import functional
from attn.exercises.spec import Case, Exercise, Property


def merge_heads(x: Tensor) -> Tensor:
    """The reference, with the task's own arguments."""
    return functional.merge_heads(x)


def _cases(g: Generator) -> Iterator[Case]:
    def randn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=g)

    stage = "there is one token, so only the order of its features counts"
    yield Case(stage, (randn(3, 1, 2),))
    yield Case(stage, (randn(2, 4, 1, 3),))

    stage = "there is one head"
    yield Case(stage, (randn(1, 4, 6),))
    yield Case(stage, (randn(2, 1, 3, 5),))

    stage = "there is a batch: four axes"
    yield Case(stage, (randn(2, 3, 5, 4),))
    yield Case(stage, (randn(3, 5, 2, 1),))
    yield Case(stage, (randn(1, 2, 7, 6),))

    stage = "there is one sequence: three axes"
    yield Case(stage, (randn(3, 5, 4),))
    yield Case(stage, (randn(2, 6, 3),))

    stage = "there are more axes in front"
    yield Case(stage, (randn(2, 3, 2, 4, 5),))

    stage = "axes have the same length"
    yield Case(stage, (randn(3, 3, 3, 3),))
    yield Case(stage, (randn(2, 4, 4, 2),))
    yield Case(stage, (randn(2, 2, 2),))

    stage = "the input is a view of another tensor"
    yield Case(stage, (randn(2, 5, 3, 4).transpose(1, 2),))
    yield Case(stage, (randn(2, 3, 1, 4).expand(2, 3, 5, 4),))

    stage = "gradients flow back"
    yield Case(stage, (randn(2, 3, 5, 4),), grad=True)


def _has_the_shape(case: Case, out: object) -> bool:
    *lead, heads, length, size = case.args[0].shape
    want = (*lead, length, heads * size)
    return isinstance(out, Tensor) and tuple(out.shape) == want


def _keeps_tokens_together(case: Case, out: Tensor) -> bool:
    x = case.args[0]
    if not _has_the_shape(case, out):
        return True
    rows = x.movedim(-3, -2).flatten(-2).sort(-1).values
    return bool((out.sort(-1).values == rows).all())


exercise = Exercise(
    id="mha-merge_heads",
    points=1,
    reference=merge_heads,
    cases=_cases,
    hints=(
        "Walk split_heads backwards: first bring the heads back behind the "
        "tokens, then glue the last two axes together.",
        "x.transpose(-3, -2) gives (..., L, H, D). Only then are a token's "
        "numbers neighbours.",
        "flatten(-2) glues the last two axes, and copies when it has to. "
        "(view would complain: a transposed tensor is not contiguous.)",
    ),
    properties=(
        Property(
            "The result should have shape (..., L, H * D): one row for each "
            "token, its heads side by side.",
            _has_the_shape,
        ),
        Property(
            "A row of the result holds numbers of several tokens: reshape "
            "and view never move a number. What has to happen before them?",
            _keeps_tokens_together,
        ),
    ),
)


@exercise.misconception(
    "reshaped without bringing the heads back",
    exposed_by="more than one head and more than one token",
)
def straight(x):
    """(H, L, D) reshaped to (L, H * D) puts the first tokens of head 0 side
    by side and calls them one token. The shape is right; the output mixes
    positions, and no error will tell. Which axis must be next to D before
    they are glued?"""
    *lead, heads, length, size = x.shape
    return x.reshape(*lead, length, heads * size)


@exercise.misconception(
    "the heads' features are shuffled together",
    exposed_by="two heads of two",
)
def dealt(x):
    """Glued as (D, H): feature 0 of every head, then feature 1 of every
    head. It does not undo split_heads, and trained weights of the last map
    expect the heads side by side. Which axis should run fastest, D or
    H?"""
    return x.movedim(-3, -1).flatten(-2)


@exercise.misconception(
    "the heads are put one below the other",
    exposed_by="any shape: (..., H * L, D)",
)
def stacked(x):
    """flatten(-3, -2) glues heads and tokens: a sequence H times as long.
    Each token should get wider instead. Which two axes should be glued?"""
    return x.flatten(-3, -2)


@exercise.misconception(
    "the heads are added up", exposed_by="any shape: (..., L, D)"
)
def summed(x):
    """A sum over the heads loses who said what; concatenation keeps it and
    leaves the mixing to the last linear map. How many features should a
    token have in the end?"""
    return x.sum(-3)


@exercise.misconception(
    "the heads are averaged", exposed_by="any shape: (..., L, D)"
)
def averaged(x):
    """The mean over the heads makes one blurred head of all, which is what
    several heads were meant to avoid. How many features should a token
    have in the end?"""
    return x.mean(-3)


@exercise.misconception(
    "transpose(1, 2) in every case", exposed_by="three or five axes"
)
def fixed_axes(x):
    """Axes 1 and 2 are heads and tokens as long as there is exactly one
    batch axis. From which end do they have a fixed place?"""
    return x.transpose(1, 2).flatten(-2)


@exercise.misconception(
    "view after a transpose", exposed_by="more than one head and token"
)
def viewed(x):
    """A transpose leaves the numbers in memory where they are, so view
    cannot glue the axes and says so. Which of reshape, flatten and
    contiguous() may copy?"""
    *lead, heads, length, size = x.shape
    return x.transpose(-3, -2).view(*lead, length, heads * size)


@exercise.misconception(
    "tokens and features are swapped before the gluing",
    exposed_by="L and D that differ",
)
def wrong_pair(x):
    """transpose(-2, -1) turns each head on its side; what is glued then are
    features with heads. Write (..., H, L, D) down: which two axes have to
    change places so that H stands next to D?"""
    *lead, heads, length, size = x.shape
    return x.transpose(-2, -1).reshape(*lead, length, heads * size)


@exercise.misconception(
    "the heads come in reverse order", exposed_by="two heads"
)
def reversed_heads(x):
    """The last head comes first. The output has all the right numbers in
    the wrong columns, so the last map multiplies them with another head's
    weights. Where does head 0 belong?"""
    return x.flip(-3).transpose(-3, -2).flatten(-2)


@exercise.misconception(
    "the heads stay an axis of their own",
    exposed_by="any shape: (..., L, H, D)",
)
def not_glued(x):
    """The heads are back behind the tokens, and the last two axes are not
    glued: (..., L, H, D). What shape does the Returns line ask for?"""
    return x.transpose(-3, -2)


@exercise.misconception(
    "the result is cut off from the gradient",
    exposed_by="inputs that ask for their gradient",
)
def detached(x):
    """The numbers are right and autograd knows nothing of them: .detach(),
    .data, .numpy(), torch.tensor(...) or no_grad cut the thread. Which line
    leaves torch?"""
    return x.detach().transpose(-3, -2).flatten(-2)


@exercise.equivalent("permute, contiguous, view")
def _permute(x):
    *lead, heads, length, size = x.shape
    n = len(lead)
    back = x.permute(*range(n), n + 1, n, n + 2).contiguous()
    return back.view(*lead, length, heads * size)


@exercise.equivalent("cat over the heads")
def _cat(x):
    return torch.cat(x.unbind(-3), dim=-1)


@exercise.equivalent("filled in place")
def _filled(x):
    *lead, heads, length, size = x.shape
    out = x.new_zeros(*lead, length, heads * size)
    for h in range(heads):
        out[..., h * size : (h + 1) * size] = x[..., h, :, :]
    return out


@exercise.equivalent("reshape copies when it must")
def _reshape(x):
    *lead, heads, length, size = x.shape
    return x.movedim(-3, -2).reshape(*lead, length, heads * size)


@exercise.equivalent("token by token")
def _tokens(x):
    return torch.stack([t.flatten(-2) for t in x.unbind(-2)], -2)
