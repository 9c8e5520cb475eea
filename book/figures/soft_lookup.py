"""Bake chapter 1's readings of a thermometer, and the bandwidths to choose.

python -m book.figures.soft_lookup
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

import attn
from book.figures.bake import bake

BANDWIDTHS = [round(0.05 * 2 ** (i / 3), 2) for i in range(21)]  # to 5
STEP = 0.25  # of an hour, between two points of a curve


def clock(hours: Tensor) -> Tensor:
    """Return points on a circle, ``(..., 2)``, for hours of the day."""
    angle = hours * (2 * math.pi / 24)
    return torch.stack([angle.cos(), angle.sin()], -1)


def readings() -> tuple[Tensor, Tensor]:
    """Return the hours and the degrees, ``(16,)`` each, as the chapter."""
    g = torch.Generator().manual_seed(7)
    hours = (24 * torch.rand(16, generator=g)).sort().values
    hours = hours.mul(10).round() / 10
    true = 12 - 5 * clock(hours - 4)[:, 0]
    degrees = true + torch.randn(16, generator=g)
    return hours, degrees.mul(10).round() / 10


def curve(bandwidth: float) -> list[float]:
    """Return the guesses for a day, of attention at this bandwidth."""
    hours, degrees = readings()
    day = torch.arange(0, 24 + STEP, STEP)
    query, key, value = (
        x.double()[None, None]
        for x in (clock(day), clock(hours), degrees[:, None])
    )
    out = attn.attention(query, key, value, scale=1 / bandwidth**2)
    return [round(y, 3) for y in out.flatten().tolist()]


def numbers() -> dict[str, object]:
    hours, degrees = readings()
    return {
        "hours": [round(x, 1) for x in hours.tolist()],
        "degrees": [round(x, 1) for x in degrees.tolist()],
        "step": STEP,
        "curves": [{"h": h, "guess": curve(h)} for h in BANDWIDTHS],
    }


if __name__ == "__main__":
    bake("soft_lookup", numbers())
