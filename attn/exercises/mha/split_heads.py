"""Cases and properties of ``mha-split_heads``."""

from collections.abc import Iterator

import torch
from torch import Generator, Tensor

from attn import functional
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.symmetry import all_sizes_differ, argument, is_view


def _cases(g: Generator) -> Iterator[Case]:
    def randn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=g)

    when = "there is one token, so only the order of its features counts"
    yield Case(when, (randn(1, 6), 3))
    yield Case(when, (randn(2, 1, 12), 2))

    when = "there is one head"
    yield Case(when, (randn(4, 6), 1))
    yield Case(when, (randn(3, 2, 5), 1))

    when = "there is a batch: three axes"
    yield Case(when, (randn(2, 5, 12), 3))
    yield Case(when, (randn(3, 4, 10), 5))
    yield Case(when, (randn(2, 6, 3), 3))

    when = "there is one sequence: two axes"
    yield Case(when, (randn(5, 12), 4))
    yield Case(when, (randn(7, 6), 2))

    when = "there are more axes in front"
    yield Case(when, (randn(2, 3, 4, 10), 2))
    yield Case(when, (randn(2, 1, 3, 5, 6), 3))

    when = "axes have the same length"
    yield Case(when, (randn(3, 3, 9), 3))
    yield Case(when, (randn(2, 4, 16), 4))
    yield Case(when, (randn(2, 2, 2, 4), 2))

    when = "the input is a view of another tensor"
    yield Case(when, (randn(12, 5, 2).transpose(0, 2), 3))
    yield Case(when, (randn(1, 4, 6).expand(3, 4, 6), 2))
    yield Case(when, (randn(3, 2, 5, 6).transpose(0, 1), 2))

    when = "gradients flow back"
    yield Case(when, (randn(2, 5, 12), 3), grad=True)


def _has_the_shape(case: Case, out: object) -> bool:
    want = functional.split_heads(*case.args).shape
    return getattr(out, "shape", None) == want


def _keeps_tokens_together(case: Case, out: Tensor) -> bool:
    if not _has_the_shape(case, out):
        return True
    rows = out.movedim(-3, -2).flatten(-2)  # (..., L, H * D)
    return torch.equal(rows.sort(-1)[0], case.args[0].sort(-1)[0])


exercise = Exercise(
    id="mha-split_heads",
    points=1,
    reference=functional.split_heads,
    cases=_cases,
    properties=(
        Property(
            "The result should have shape (..., H, L, D): the heads in "
            "front of the tokens, D features for each.",
            _has_the_shape,
        ),
        Property(
            "One token's features have ended up in the rows of another: "
            "reshape and view never move an element. Which step of yours "
            "moves them?",
            _keeps_tokens_together,
        ),
    ),
    breaks={
        "H = 1": lambda c: argument(c, 1, "num_heads") > 1,
        "L = S": all_sizes_differ,
        "contiguous strides": is_view,
    },
)
