"""Cases and properties of ``rope-llama3_scaling``."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from attn.exercises.draw import Draw
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.symmetry import argument


def llama3_scaling(
    inv_freq: Tensor,
    factor: float = 8.0,
    low_freq_factor: float = 1.0,
    high_freq_factor: float = 4.0,
    original_max_position_embeddings: int = 8192,
) -> Tensor:
    """Scale pair by pair, in the words of the task: the reference."""
    context = original_max_position_embeddings
    found = []
    for theta in inv_freq:
        wavelength = 2 * math.pi / theta
        if wavelength < context / high_freq_factor:
            found.append(theta)
        elif wavelength > context / low_freq_factor:
            found.append(theta / factor)
        else:
            turns = context / wavelength
            span = high_freq_factor - low_freq_factor
            s = (turns - low_freq_factor) / span
            found.append((1 - s) * theta / factor + s * theta)
    return torch.stack(found)


def _cases(g: Draw) -> Iterator[Case]:
    def freq(pairs: int, base: float) -> Tensor:
        nudge = 1 + 0.02 * torch.rand((), generator=g)
        return nudge * base ** (-torch.arange(pairs) / pairs)

    when = "all pairs are fast, so nothing changes"
    fast = freq(4, 3.0)
    yield Case(when, (fast,), {"original_max_position_embeddings": 512})

    when = "all pairs are slow, so all rotate factor times slower"
    slow = freq(4, 3.0) / 100
    yield Case(when, (slow,), {"original_max_position_embeddings": 50})
    yield Case(when, (slow, 3.0), {"original_max_position_embeddings": 50})

    when = "all pairs are in the mixed zone"
    middle = torch.linspace(3.8, 1.2, 6) * 2 * math.pi / 64
    middle = middle * (1 + 0.01 * torch.rand((), generator=g))
    yield Case(when, (middle,), {"original_max_position_embeddings": 64})

    when = "there are pairs of every kind"
    yield Case(when, (freq(32, 1000.0), 8.0, 1.0, 4.0, 128))
    short = {"original_max_position_embeddings": 64}
    yield Case(when, (freq(16, 400.0),), short)

    when = "the other arguments are not those of Llama"
    yield Case(when, (freq(32, 1000.0), 32.0, 1.0, 4.0, 96))
    yield Case(when, (freq(24, 600.0), 4.0, 2.0, 5.0, 128))
    yield Case(when, (freq(24, 600.0), 2.5, 0.5, 8.0, 200))

    yield Case(when, (freq(24, 600.0), 6.0, 1.5, 3.0, 150))
    yield Case(when, (freq(24, 600.0), 13.0, 0.7, 6.0, 180))

    when = "the defaults apply: Llama 3.1"
    yield Case(when, (freq(64, 500000.0) * 0.01,))
    yield Case(when, (freq(64, 500000.0),))


def _never_faster(case: Case, out: object) -> bool:
    inv_freq = case.args[0]
    if not isinstance(out, Tensor) or out.shape != inv_freq.shape:
        return False
    return bool((out <= inv_freq * 1.0001).all())


exercise = Exercise(
    id="rope-llama3_scaling",
    points=2,
    reference=llama3_scaling,
    cases=_cases,
    properties=(
        Property(
            "No pair may rotate faster than before, and each pair has one "
            "frequency.",
            _never_faster,
        ),
    ),
    breaks={
        "weight = 1": lambda c: argument(c, 1, "factor") not in (None, 8),
    },
)
