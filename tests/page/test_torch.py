"""The stand-in for PyTorch computes what PyTorch computes."""

import re

import pytest
import torch as real

from attn.page import torch as stand_in
from tests.page.torch_draws import double, draw, outcome, unequal
from tests.page.torch_rows import ROWS

EXPRESSIONS = [x for x in ROWS if not x.startswith("#")]
SEEDS = range(6)


def problem(expression: str, seed: int) -> str:
    """Return how the two differ for an expression, or nothing."""
    given = draw(seed)
    ours = outcome(stand_in, expression, given)
    theirs = outcome(real, expression, given)
    if theirs.error or ours.error:
        if type(ours.error) is not type(theirs.error):
            return f"{ours.error!r}, not {theirs.error or theirs.value!r}"
        if str(ours.error) != str(theirs.error):
            return f"{ours.error!s} | {theirs.error!s}"
        return ""
    exact = outcome(real, expression, double(given)).value
    if text := unequal(ours.value, theirs.value, exact):
        return text
    for one, other in zip(ours.inputs, theirs.inputs, strict=True):
        if one != other:
            return f"an input is afterwards {one}, not {other}"
    return ""
