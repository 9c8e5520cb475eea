"""Cases, properties and correct variants of ``pos-alibi_slopes``."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from attn import positions
from attn.exercises.draw import Draw, entries
from attn.exercises.spec import Case, Exercise, Property


def alibi_slopes(num_heads: int) -> Tensor:
    """Return the slopes of ``attn``: the reference."""
    return positions.alibi_slopes(num_heads)


HEADS = {
    "there are 8 heads": [8],
    "the number of heads is another power of two": [2, 4, 16, 32, 1],
    "the number of heads is one more than a power of two": [3, 5, 9],
    "the number of heads is no power of two": [6, 7, 12, 14, 20, 24, 31, 40],
    "there are many heads: Bloom has 112": [112, 256],
}


def _cases(g: Draw) -> Iterator[Case]:
    for when, num_heads in entries(HEADS):
        yield Case(when, (num_heads,))
    yield Case("there are many heads", (g.between(65, 126),))


exercise = Exercise(
    id="pos-alibi_slopes",
    points=2,
    reference=alibi_slopes,
    cases=_cases,
    properties=(
        Property(
            "There should be one slope for each head.",
            lambda case, out: (
                isinstance(out, Tensor) and tuple(out.shape) == case.args
            ),
        ),
        Property(
            "A slope is positive, and less than 1.",
            lambda case, out: (out > 0).all() and (out <= 1).all(),
        ),
    ),
    breaks={
        "H = 1": lambda c: c.args[0] > 1,
        "L = S": lambda c: c.args[0].bit_count() > 1,
    },
)


@exercise.equivalent("the authors' recursion")
def _recursion(num_heads):
    def power(n):
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [start * start**i for i in range(n)]

    def slopes(n):
        if math.log2(n).is_integer():
            return power(n)
        closest = 2 ** math.floor(math.log2(n))
        return power(closest) + slopes(2 * closest)[0::2][: n - closest]

    return torch.tensor(slopes(num_heads))


@exercise.equivalent("exponents in a tensor, as in Bloom")
def _bloom(num_heads):
    n = 2 ** math.floor(math.log2(num_heads))
    steps = torch.arange(1, n + 1, dtype=torch.float64) * 8 / n
    odd = (torch.arange(num_heads - n).double() * 2 + 1) * 4 / n
    return torch.cat([2.0**-steps, 2.0**-odd]).float()


@exercise.equivalent("all of the next power, reordered, as in MPT")
def _mpt(num_heads):
    n = 1
    while n < num_heads:
        n *= 2
    slopes = 1 / 2 ** (torch.arange(1, n + 1).double() * 8 / n)
    if n != num_heads:
        slopes = torch.cat([slopes[1::2], slopes[::2]])[:num_heads]
    return slopes.float()


@exercise.equivalent("one head at a time")
def _heads(num_heads):
    n = 1 << (num_heads.bit_length() - 1)
    out = torch.zeros(num_heads)
    for h in range(num_heads):
        power = 8 * (h + 1) / n if h < n else 4 * (2 * (h - n) + 1) / n
        out[h] = math.exp(-power * math.log(2))
    return out


@exercise.equivalent("a running product")
def _running(num_heads):
    n = 2 ** (num_heads.bit_length() - 1)
    root = 2.0 ** (-4 / n)
    every = torch.full((2 * n,), root, dtype=torch.float64).cumprod(0)
    return torch.cat([every[1::2], every[0::2]])[:num_heads].float()
