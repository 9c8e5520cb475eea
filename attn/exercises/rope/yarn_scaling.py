"""Cases and properties of ``rope-yarn_scaling``."""

from collections.abc import Iterator

import torch
from torch import Tensor

from attn.exercises.draw import Draw
from attn.exercises.spec import Case, Exercise, Property
from attn.positions import rope_frequencies


def yarn_scaling(
    head_dim: int,
    base: float,
    factor: float,
    original_max_position_embeddings: int,
    beta_fast: float = 32.0,
    beta_slow: float = 1.0,
) -> tuple[Tensor, float]:
    """Apply ``attn``'s YaRN: the reference."""
    found = rope_frequencies(
        head_dim,
        base,
        "yarn",
        factor=factor,
        original_max_position_embeddings=original_max_position_embeddings,
        beta_fast=beta_fast,
        beta_slow=beta_slow,
    )
    return found.inv_freq, found.attention_factor


def _cases(g: Draw) -> Iterator[Case]:
    def a_factor() -> float:
        return 2.0 + int(torch.randint(1, 60, (1,), generator=g)) / 10

    when = "factor is 1: nothing changes"
    yield Case(when, (32, 10000.0, 1.0, 4096))

    when = "the ramp has both ends within the pairs"
    yield Case(when, (64, 10000.0, 4.0, 4096))
    yield Case(when, (128, 100.0, a_factor(), 1024))
    yield Case(when, (40, 300.0, a_factor(), 700))

    when = "beta_fast and beta_slow are given"
    yield Case(when, (64, 500.0, 4.0, 512, 16.0, 2.0))
    yield Case(when, (48, 200.0, a_factor(), 400, 20.0, 0.5))

    yield Case(when, (64, 3000.0, a_factor(), 900, 27.0, 1.3))
    yield Case(when, (48, 70000.0, 13.0, 5000, 37.0, 0.7))

    when = "the ramp would begin before the first pair"
    yield Case(when, (32, 50.0, 1.6, 100))
    yield Case(when, (64, 100.0, a_factor(), 150))

    when = "the ramp would end after the last pair"
    yield Case(when, (32, 10.0, 4.0, 2000))
    yield Case(when, (24, 20.0, a_factor(), 40000, 64.0, 1.0))
    yield Case(when, (32, 10.0, a_factor(), 800))  # and begins among them

    when = "a published model: Qwen2.5 with four times its context"
    yield Case(when, (128, 1000000.0, 4.0, 32768))


def _two_things(case: Case, out: object) -> bool:
    if not isinstance(out, tuple | list) or len(out) != 2:
        return False
    table = out[0]
    return isinstance(table, Tensor) and len(table) == case.args[0] // 2


exercise = Exercise(
    id="rope-yarn_scaling",
    points=3,
    reference=yarn_scaling,
    cases=_cases,
    returns=("inv_freq", "the factor"),
    properties=(
        Property(
            "The result should be two things: D / 2 frequencies, and a "
            "number.",
            _two_things,
        ),
        Property(
            "The first pair is the fastest, and should (nearly) keep its "
            "speed of 1 radian: is the ramp the right way round?",
            lambda case, out: (
                not _two_things(case, out) or abs(float(out[0][0]) - 1) < 0.2
            ),
        ),
    ),
    breaks={
        "weight = 1": lambda c: c.args[2] != 1 and len(c.args) > 4,
    },
)
