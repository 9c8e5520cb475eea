"""Call a module with the values that its constructor gave it.

The weights of a case hide what a task says of initial values: ones, zeros.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from attn.exercises.case import Case
from attn.exercises.spec import Exercise
from attn.grading.checks.objects import parameters


def initial_values(
    exercise: Exercise, cases: Sequence[Case]
) -> Iterator[Case]:
    """Yield a case whose constant parameters are as they were made.

    Args:
        exercise: the exercise.
        cases: its plain ones, the plainest first.
    """
    for case in cases[:1]:
        if not case.state or case.init is None:
            continue
        if names := _constant(exercise.reference, case.init):
            have = "has its initial value"
            if len(names) > 1:
                have = "have their initial values"
            condition = f"{' and '.join(names)} {have}"
            yield replace(case, condition=condition, initial=names)


def _constant(
    make: Callable[..., Any], init: Mapping[str, Any]
) -> tuple[str, ...]:
    """Return the names of the parameters that no seed changes."""

    def made(seed: int) -> dict[str, Tensor]:
        torch.manual_seed(seed)
        return parameters(make(**init))

    with torch.random.fork_rng(devices=[]):
        first, second = made(0), made(1)
    return tuple(n for n, x in first.items() if torch.equal(x, second[n]))
