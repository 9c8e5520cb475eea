"""Measure the colours of figures: contrast, and what the colour-blind see."""

import re
from itertools import combinations
from pathlib import Path

import numpy as np
from matplotlib.colors import to_hex, to_rgb

ROOT = Path(__file__).resolve().parents[2]
CSS = ROOT / "book" / "_static" / "figures.css"
#: The page behind a figure, in either theme of the book.
GROUND = {"light": "#ffffff", "dark": "#121212"}
# Machado, Oliveira and Fernandes 2009, severity 1: full, and the three kinds.
SIGHTS = (
    np.eye(3),
    [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
)
# Ottosson 2020, Oklab.
TO_CONES = [
    [0.4122214708, 0.5363325363, 0.0514459929],
    [0.2119034982, 0.6806995451, 0.1073969566],
    [0.0883024619, 0.2817188376, 0.6299787005],
]
TO_LAB = [
    [0.2104542553, 0.7936177850, -0.0040720468],
    [1.9779984951, -2.4285922050, 0.4505937099],
    [0.0259040371, 0.7827717662, -0.8086757660],
]


def themes():
    """The values of the variables, for each theme."""
    blocks = re.findall(r"html([^{]*)\{([^}]*)\}", CSS.read_text("utf-8"))
    values = {
        "dark" if "dark" in which else "light": dict(
            re.findall(r"(--figure-[a-z]+): (#\w+);", block)
        )
        for which, block in blocks
    }
    assert values["light"].keys() == values["dark"].keys() != set()
    return values


def linear(color):
    c = np.array(to_rgb(color))
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def contrast(a, b):
    """WCAG 2.2, contrast ratio."""
    weights = [0.2126, 0.7152, 0.0722]
    dark, bright = sorted(float(linear(x) @ weights) for x in (a, b))
    return (bright + 0.05) / (dark + 0.05)


def mixed(color, ground, share):
    """A colour of this opacity, as a browser shows it."""
    a, b = np.array(to_rgb(color)), np.array(to_rgb(ground))
    return to_hex(a * share + b * (1 - share))


def least_distance(colors):
    """Between any two of them, in Oklab, for any kind of sight."""

    def seen(color, sight):
        light = np.clip(np.array(sight) @ linear(color), 0, 1)
        return np.array(TO_LAB) @ np.cbrt(np.array(TO_CONES) @ light)

    return min(
        float(np.linalg.norm(seen(a, sight) - seen(b, sight)))
        for sight in SIGHTS
        for a, b in combinations(colors, 2)
    )
