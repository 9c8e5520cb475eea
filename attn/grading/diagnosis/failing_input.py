"""Write the input of a failing case: in a line, or an argument a line."""

from __future__ import annotations

from numbers import Number

import torch
from torch import Tensor

from attn.exercises.case import Case
from attn.exercises.spec import Exercise
from attn.grading.checks.show import WIDTH, brief, describe, wrapped


def in_a_line(exercise: Exercise, case: Case) -> list[str]:
    """Return the input in one line; a long one lacks tensors."""
    inputs = {
        n: x
        for n, x in exercise.inputs(case).items()
        if x is not None and not isinstance(x, torch.Generator)
    }
    start = f"  {_made(exercise, case)}: " if case.init else "  "
    more = ""
    while True:
        words = [brief(n, x) for n, x in inputs.items()]
        line = f"{start}{', '.join(words)}{more}"
        tensors = [n for n, x in inputs.items() if isinstance(x, Tensor)]
        if len(line) <= WIDTH - 2 or not tensors:
            return [line] if len(wrapped(line, "  ")) <= 2 else []
        del inputs[tensors[-1]]
        more = ", …" if len(inputs) else "…"


def line_by_line(exercise: Exercise, case: Case) -> list[str]:
    """Return the input, one argument a line, and earlier calls."""
    inputs = exercise.inputs(case)
    lines = [f"  {_made(exercise, case)}"] if case.init else []
    for earlier in case.before:
        words = ", ".join(
            brief(n, x)
            for n, x in exercise.inputs(earlier).items()
            if x is None or isinstance(x, Tensor | Number)
        )
        b = "b " if earlier.another else ""
        lines.append(f"  {b}called earlier with  {words}")
    width = max([8, *map(len, inputs)])
    return lines + [
        f"  {n:<{width}}  {describe(x)}" for n, x in inputs.items()
    ]


def _made(exercise: Exercise, case: Case) -> str:
    words = ", ".join(f"{k}={v!r}" for k, v in (case.init or {}).items())
    return f"{exercise.name}({words})"
