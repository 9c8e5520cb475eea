"""Exercise ``rope-frequencies``: how far each pair turns in one step."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Generator, Tensor

from attn.exercises.spec import Case, Exercise, Property
from attn.positions import rope_frequencies


def frequencies(head_dim: int, base: float = 10000.0) -> Tensor:
    """The reference, with the task's own arguments."""
    return rope_frequencies(head_dim, base).inv_freq


def _cases(g: Generator) -> Iterator[Case]:
    def a_base() -> float:
        return float(torch.randint(50, 5000, (1,), generator=g))

    stage = "there is one pair"
    yield Case(stage, (2,))
    yield Case(stage, (2, a_base()))

    stage = "there are two pairs"
    yield Case(stage, (4,))

    stage = "there are many pairs"
    yield Case(stage, (8,))
    yield Case(stage, (64,))
    yield Case(stage, (10,))

    stage = "base is given"
    yield Case(stage, (8, 100.0))
    yield Case(stage, (128,), {"base": 500000.0})
    yield Case(stage, (12, a_base()))
    yield Case(stage, (6, 7.0))


def _one_for_each_pair(case: Case, out: object) -> bool:
    want = (case.args[0] // 2,)
    return isinstance(out, Tensor) and tuple(out.shape) == want


def _first_is_one(case: Case, out: Tensor) -> bool:
    return abs(float(out[0]) - 1) < 1e-6


exercise = Exercise(
    id="rope-frequencies",
    points=1,
    reference=frequencies,
    cases=_cases,
    hints=(
        "Write the exponents for D = 8 down: pair 0 has 0, pair 1 has "
        "-2/8, pair 2 -4/8, pair 3 -6/8.",
        "torch.arange(0, head_dim, 2) is 0, 2, 4, …: that is 2i for every "
        "pair. Divide by head_dim.",
        "base ** (-exponent) works with a Python number and a tensor: the "
        "result is float32, because arange divided by an int is.",
    ),
    properties=(
        Property(
            "There should be one number for each pair: D / 2 of them.",
            _one_for_each_pair,
        ),
        Property(
            "Pair 0 turns by base ** 0 = 1 radian a token, whatever the base.",
            _first_is_one,
        ),
    ),
)


def _even(head_dim: int) -> Tensor:
    return torch.arange(0, head_dim, 2).float()


@exercise.misconception("the exponent is i / D", exposed_by="two pairs")
def half_exponent(head_dim, base=10000.0):
    """Pair i stands for features 2i and 2i + 1, so the exponent is
    2i / D. With i / D the slowest pair turns a hundred times too fast for
    a base of 10000. What is the exponent of the last pair, for D = 8?"""
    return base ** (-torch.arange(head_dim // 2) / head_dim)


@exercise.misconception("the exponent is 4i / D", exposed_by="two pairs")
def double_exponent(head_dim, base=10000.0):
    """2i was divided by the number of pairs, D / 2, instead of D (or the
    step of 2 was counted twice). What is the exponent of the last pair, for
    D = 8?"""
    return base ** (-_even(head_dim) / (head_dim // 2))


@exercise.misconception("the exponent is positive", exposed_by="two pairs")
def positive(head_dim, base=10000.0):
    """base ** (2i / D) grows: these are wavelengths (over two pi), and not
    angles. Later pairs should turn slower. Where does the minus, or the
    1 / …, belong?"""
    return base ** (_even(head_dim) / head_dim)


@exercise.misconception("the pairs are counted from 1", exposed_by="one pair")
def from_one(head_dim, base=10000.0):
    """The paper writes theta_i with 2(i - 1), and i from 1. If you start at
    1 and do not subtract, every pair is one step too slow. By how much does
    the first pair turn in one step?"""
    return base ** (-(_even(head_dim) + 2) / head_dim)


@exercise.misconception(
    "the last pair turns by 1 / base", exposed_by="two pairs"
)
def linspace(head_dim, base=10000.0):
    """linspace(0, 1, D / 2) ends at exponent 1, because it divides by one
    step less: D - 2 instead of D. Nearly the same for D = 128, and another
    model. What is the exponent of the last pair, for D = 8?"""
    return base ** -torch.linspace(0, 1, head_dim // 2)


@exercise.misconception(
    "each number stands twice, one half after the other",
    exposed_by="any size: D numbers",
)
def twice(head_dim, base=10000.0):
    """The tables of Llama repeat the angles for the second half of the
    head; that comes later, and depends on the layout. How many pairs does a
    head of D features have?"""
    out = frequencies(head_dim, base)
    return torch.cat([out, out])


@exercise.misconception(
    "each number stands twice, side by side",
    exposed_by="any size: D numbers",
)
def repeated(head_dim, base=10000.0):
    """Repeating the angle for both features of a pair comes later, and
    depends on the layout. How many pairs does a head of D features
    have?"""
    return frequencies(head_dim, base).repeat_interleave(2)


@exercise.misconception(
    "there is a frequency for every feature",
    exposed_by="any size: D numbers",
)
def every_feature(head_dim, base=10000.0):
    """arange(D) / D gives D different speeds; two features that turn
    together need one. Which step does arange need?"""
    return base ** (-torch.arange(head_dim) / head_dim)


@exercise.misconception("base is always 10000", exposed_by="base=100")
def fixed_base(head_dim, base=10000.0):
    """Llama 3 has a base of 500000, CodeLlama a million. A model that is
    loaded with another reads its own positions wrong. Where does your code
    read base?"""
    return 10000.0 ** (-_even(head_dim) / head_dim)


@exercise.misconception("wavelengths instead of angles", exposed_by="one pair")
def wavelengths(head_dim, base=10000.0):
    """2 pi / theta is the number of tokens for a full turn. The task asks
    for the angle of one token. Which is larger for a slow pair?"""
    return 2 * math.pi * base ** (_even(head_dim) / head_dim)


@exercise.misconception("turns instead of radians", exposed_by="one pair")
def benchmark_interleaved(head_dim, base=10000.0):
    """Divided by 2 pi: full turns a token. cos and sin want radians. By
    how many radians does the first pair turn?"""
    return base ** (-_even(head_dim) / head_dim) / (2 * math.pi)


@exercise.misconception("the slow pairs come first", exposed_by="two pairs")
def slow_first(head_dim, base=10000.0):
    """The order is turned around: pair 0 is the slowest. A model trained
    like this would not mind; weights from elsewhere do. Which pair turns by
    one radian?"""
    return frequencies(head_dim, base).flip(0)


@exercise.misconception(
    "float64 instead of float32", exposed_by="any size: the dtype"
)
def double(head_dim, base=10000.0):
    """NumPy and .double() count in float64. Tables of a model are float32:
    exact enough, half the size, and the same on every machine. Which dtype
    does the Returns line ask for?"""
    return base ** (-_even(head_dim).double() / head_dim)


@exercise.misconception(
    "the exponent is rounded to an integer", exposed_by="two pairs"
)
def floor_division(head_dim, base=10000.0):
    """2 * i // D is 0 for every pair: all turn by one radian. Which of /
    and // keeps the fraction?"""
    return base ** -(torch.arange(0, head_dim, 2) // head_dim).float()


@exercise.equivalent("one over a power")
def _one_over(head_dim, base=10000.0):
    exponent = torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim
    return 1.0 / (base**exponent)


@exercise.equivalent("exp of a logarithm")
def _exp(head_dim, base=10000.0):
    i = torch.arange(head_dim // 2)
    return torch.exp(-math.log(base) * 2 * i / head_dim)


@exercise.equivalent("a list of Python numbers")
def _list(head_dim, base=10000.0):
    pairs = range(head_dim // 2)
    return torch.tensor([base ** (-2 * i / head_dim) for i in pairs])


@exercise.equivalent("in float64, rounded once")
def _double(head_dim, base=10000.0):
    i = torch.arange(0, head_dim, 2, dtype=torch.float64)
    wide = torch.tensor(base, dtype=torch.float64)
    return torch.pow(wide, -i / head_dim).to(torch.float32)


@exercise.equivalent("logspace")
def _logspace(head_dim, base=10000.0):
    n = head_dim // 2
    last = -2 * (n - 1) / head_dim
    return torch.logspace(0, last, n, base=base, dtype=torch.float64).float()


@exercise.equivalent("a running product")
def _running(head_dim, base=10000.0):
    step = base ** (-2 / head_dim)
    steps = torch.full((head_dim // 2,), step, dtype=torch.float64)
    steps[0] = 1.0
    return steps.cumprod(0).float()
