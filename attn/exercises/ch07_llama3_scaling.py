"""Exercise ``rope-llama3_scaling``: slow pairs slower, fast ones kept."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Generator, Tensor

from attn.exercises.spec import Case, Exercise, Property

TWO_PI = 2 * math.pi


def llama3_scaling(
    inv_freq: Tensor,
    factor: float = 8.0,
    low_freq_factor: float = 1.0,
    high_freq_factor: float = 4.0,
    original_max_position_embeddings: int = 8192,
) -> Tensor:
    """The reference: pair by pair, in the words of the task."""
    context = original_max_position_embeddings
    found = []
    for theta in inv_freq:
        wavelength = TWO_PI / theta
        if wavelength < context / high_freq_factor:
            found.append(theta)
        elif wavelength > context / low_freq_factor:
            found.append(theta / factor)
        else:
            turns = context / wavelength
            s = (turns - low_freq_factor) / (
                high_freq_factor - low_freq_factor
            )
            found.append((1 - s) * theta / factor + s * theta)
    return torch.stack(found)


def _cases(g: Generator) -> Iterator[Case]:
    def freq(pairs: int, base: float) -> Tensor:
        nudge = 1 + 0.02 * torch.rand((), generator=g)
        return nudge * base ** (-torch.arange(pairs) / pairs)

    stage = "all pairs are fast, so nothing changes"
    fast = freq(4, 3.0)
    yield Case(stage, (fast,), {"original_max_position_embeddings": 512})

    stage = "all pairs are slow, so all turn factor times slower"
    slow = freq(4, 3.0) / 100
    yield Case(stage, (slow,), {"original_max_position_embeddings": 50})
    yield Case(stage, (slow, 3.0), {"original_max_position_embeddings": 50})

    stage = "the pairs lie in the mixed zone"
    middle = torch.linspace(3.8, 1.2, 6) * TWO_PI / 64
    middle = middle * (1 + 0.01 * torch.rand((), generator=g))
    yield Case(stage, (middle,), {"original_max_position_embeddings": 64})

    stage = "there are pairs of every kind"
    yield Case(stage, (freq(32, 1000.0), 8.0, 1.0, 4.0, 128))
    short = {"original_max_position_embeddings": 64}
    yield Case(stage, (freq(16, 400.0),), short)

    stage = "the other arguments are not those of Llama"
    yield Case(stage, (freq(32, 1000.0), 32.0, 1.0, 4.0, 96))
    yield Case(stage, (freq(24, 600.0), 4.0, 2.0, 5.0, 128))
    yield Case(stage, (freq(24, 600.0), 2.5, 0.5, 8.0, 200))

    stage = "the defaults apply: Llama 3.1"
    yield Case(stage, (freq(64, 500000.0) * 0.01,))
    yield Case(stage, (freq(64, 500000.0),))


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
    hints=(
        "In how many tokens does a pair turn once? 2 pi / inv_freq. How "
        "often does it turn within the trained context C? C * inv_freq / "
        "(2 pi). Work with that number: it needs no case distinction.",
        "s = (turns - low) / (high - low) is 0 at the low factor and 1 at "
        "the high one. Clamp it to 0 … 1, and the two outer zones are the "
        "two ends of the mixture.",
        "s = ((turns - low_freq_factor) / (high_freq_factor - "
        "low_freq_factor)).clamp(0, 1), and the mixture is in the task.",
    ),
    properties=(
        Property(
            "No pair may turn faster than before, and there is one number "
            "for each.",
            _never_faster,
        ),
    ),
)


def _scale(inv_freq, factor=8.0, low=1.0, high=4.0, context=8192, *, mix=None):
    """The right answer, or one with another share of the old speed."""
    turns = context * inv_freq / TWO_PI
    s = ((turns - low) / (high - low)).clamp(0, 1)
    s = s if mix is None else mix(turns, low, high)
    return (1 - s) * inv_freq / factor + s * inv_freq


def _with(mix, inv_freq, args, kwargs):
    """Call ``_scale`` with the arguments of a case."""
    given = dict(kwargs)
    if "original_max_position_embeddings" in given:
        given["context"] = given.pop("original_max_position_embeddings")
    return _scale(inv_freq, *args, mix=mix, **given)


@exercise.misconception("all pairs are slowed down", exposed_by="fast pairs")
def all_slower(inv_freq, factor=8.0, *args, **kwargs):
    """Every pair turns factor times slower: linear interpolation. It also
    squeezes the fast pairs, which tell neighbours apart, and short texts
    get worse. Which pairs may stay as they are?"""
    return inv_freq / factor


@exercise.misconception(
    "the fast pairs are slowed down, and the slow ones kept",
    exposed_by="fast pairs",
)
def upside_down(inv_freq, *args, **kwargs):
    """The comparison is the wrong way round. The slow pairs are those that
    reach angles in a longer text that training has never shown. A long
    wavelength: is that a fast or a slow pair?"""

    def mix(turns, low, high):
        return 1 - ((turns - low) / (high - low)).clamp(0, 1)

    return _with(mix, inv_freq, args, kwargs)


@exercise.misconception(
    "2 pi is missing from the wavelength", exposed_by="the mixed zone"
)
def no_two_pi(inv_freq, *args, **kwargs):
    """1 / inv_freq is the number of tokens for one radian. A full turn has
    2 pi of them, so every bound is off by a factor of six. How many radians
    are one turn?"""

    def mix(turns, low, high):
        return ((turns * TWO_PI - low) / (high - low)).clamp(0, 1)

    return _with(mix, inv_freq, args, kwargs)


@exercise.misconception(
    "there is no mixed zone: a cut at the low factor",
    exposed_by="the mixed zone",
)
def hard_low(inv_freq, *args, **kwargs):
    """A pair just above the bound keeps its speed and one just below is
    eight times slower: two pairs that were neighbours are torn apart. (With
    the two bounds exchanged the zone is never reached either.) What happens
    between the two factors?"""
    return _with(
        lambda turns, low, high: (turns > low).float(), inv_freq, args, kwargs
    )


@exercise.misconception(
    "there is no mixed zone: a cut at the high factor",
    exposed_by="the mixed zone",
)
def hard_high(inv_freq, *args, **kwargs):
    """Everything below the high factor is slowed down in full. What happens
    between the two factors?"""
    return _with(
        lambda turns, low, high: (turns > high).float(), inv_freq, args, kwargs
    )


@exercise.misconception(
    "the share goes the wrong way in the mixed zone",
    exposed_by="the mixed zone",
)
def share_inverted(inv_freq, *args, **kwargs):
    """The pair that turns almost high_freq_factor times is slowed down
    most. At the borders the speed jumps. What should s be for a pair that
    turns exactly high_freq_factor times?"""

    def mix(turns, low, high):
        s = (turns - low) / (high - low)
        middle = (turns >= low) & (turns <= high)
        return torch.where(middle, 1 - s, s.clamp(0, 1))

    return _with(mix, inv_freq, args, kwargs)


@exercise.misconception(
    "the share is linear in the wavelength", exposed_by="the mixed zone"
)
def by_wavelength(inv_freq, *args, **kwargs):
    """s runs with the wavelength instead of its inverse: both ends are
    right, and everything between is off. In which of the two does the task
    say that s is linear?"""

    def mix(turns, low, high):
        s = (1 / low - 1 / turns) / (1 / low - 1 / high)
        return s.clamp(0, 1)

    return _with(mix, inv_freq, args, kwargs)


@exercise.misconception(
    "the share is not held between 0 and 1", exposed_by="fast pairs"
)
def unclamped(inv_freq, *args, **kwargs):
    """Outside the mixed zone s goes on: fast pairs become faster than they
    were, slow ones turn backwards. What should s be for a pair that turns a
    hundred times?"""
    return _with(
        lambda turns, low, high: (turns - low) / (high - low),
        inv_freq,
        args,
        kwargs,
    )


@exercise.misconception("slow pairs are made faster", exposed_by="slow pairs")
def multiplied(inv_freq, factor=8.0, *args, **kwargs):
    """inv_freq * factor turns faster: angles that were never seen come even
    sooner. By what must a speed be changed so that a longer text makes the
    same turn?"""
    return _with(None, inv_freq, (1 / factor, *args), kwargs)


@exercise.misconception("the factor is always 8", exposed_by="factor=3")
def fixed_factor(inv_freq, factor=8.0, *args, **kwargs):
    """Llama 3.1 has 8, Llama 3.2 has 32. Where does your code read
    factor?"""
    return _with(None, inv_freq, (8.0, *args), kwargs)


@exercise.misconception(
    "the trained context is always 8192", exposed_by="another context"
)
def fixed_context(inv_freq, factor=8.0, low=1.0, high=4.0, *args, **kwargs):
    """The bounds come from the context that the model was first trained
    with, and that is an argument. Where does your code read it?"""
    given = {"factor": factor, "low": low, "high": high}
    given["low"] = kwargs.get("low_freq_factor", low)
    given["high"] = kwargs.get("high_freq_factor", high)
    return _scale(inv_freq, **given)


@exercise.misconception(
    "the extended context is used, not the trained one",
    exposed_by="the mixed zone",
)
def extended(inv_freq, factor=8.0, *args, **kwargs):
    """factor * C is how far the model shall read. What counts is which
    angles it has *seen*: in C tokens. Which context is in the task's
    formula?"""

    def mix(turns, low, high):
        return ((factor * turns - low) / (high - low)).clamp(0, 1)

    return _with(mix, inv_freq, (factor, *args), kwargs)


@exercise.equivalent("three zones, as in transformers")
def _zones(
    inv_freq,
    factor=8.0,
    low_freq_factor=1.0,
    high_freq_factor=4.0,
    original_max_position_embeddings=8192,
):
    old = original_max_position_embeddings
    wavelen = 2 * math.pi / inv_freq
    out = torch.where(
        wavelen > old / low_freq_factor, inv_freq / factor, inv_freq
    )
    smooth = (old / wavelen - low_freq_factor) / (
        high_freq_factor - low_freq_factor
    )
    mixed = (1 - smooth) * out / factor + smooth * out
    middle = ~(wavelen < old / high_freq_factor) & ~(
        wavelen > old / low_freq_factor
    )
    return torch.where(middle, mixed, out)


@exercise.equivalent("a factor for each pair")
def _factor(
    inv_freq,
    factor=8.0,
    low_freq_factor=1.0,
    high_freq_factor=4.0,
    original_max_position_embeddings=8192,
):
    turns = original_max_position_embeddings / (2 * torch.pi / inv_freq)
    width = high_freq_factor - low_freq_factor
    s = torch.clamp((turns - low_freq_factor) / width, min=0.0, max=1.0)
    return inv_freq * (s + (1 - s) / factor)


@exercise.equivalent("lerp")
def _lerp(
    inv_freq,
    factor=8.0,
    low_freq_factor=1.0,
    high_freq_factor=4.0,
    original_max_position_embeddings=8192,
):
    turns = inv_freq.double() * original_max_position_embeddings / TWO_PI
    s = (turns - low_freq_factor) / (high_freq_factor - low_freq_factor)
    s = s.clip(0, 1).to(inv_freq.dtype)
    return torch.lerp(inv_freq / factor, inv_freq, s)


@exercise.equivalent("Python numbers")
def _numbers(
    inv_freq,
    factor=8.0,
    low_freq_factor=1.0,
    high_freq_factor=4.0,
    original_max_position_embeddings=8192,
):
    out = []
    for f in inv_freq.tolist():
        n = original_max_position_embeddings * f / TWO_PI
        s = (n - low_freq_factor) / (high_freq_factor - low_freq_factor)
        s = min(max(s, 0.0), 1.0)
        out.append((1 - s) * f / factor + s * f)
    return torch.tensor(out, dtype=inv_freq.dtype)
