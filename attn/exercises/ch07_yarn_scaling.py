"""Exercise ``rope-yarn_scaling``: a ramp over the pairs."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Generator, Tensor

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
    """The reference, with the task's own arguments."""
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


def _cases(g: Generator) -> Iterator[Case]:
    def a_factor() -> float:
        return 2.0 + int(torch.randint(1, 60, (1,), generator=g)) / 10

    stage = "factor is 1: nothing changes"
    yield Case(stage, (32, 10000.0, 1.0, 4096))

    stage = "the ramp has both ends within the pairs"
    yield Case(stage, (64, 10000.0, 4.0, 4096))
    yield Case(stage, (128, 100.0, a_factor(), 1024))
    yield Case(stage, (40, 300.0, a_factor(), 700))

    stage = "beta_fast and beta_slow are given"
    yield Case(stage, (64, 500.0, 4.0, 512, 16.0, 2.0))
    yield Case(stage, (48, 200.0, a_factor(), 400, 20.0, 0.5))

    stage = "the ramp would begin before the first pair"
    yield Case(stage, (32, 50.0, 4.0, 100))
    yield Case(stage, (64, 100.0, a_factor(), 150))

    stage = "the ramp would end behind the last pair"
    yield Case(stage, (32, 10.0, 4.0, 2000))
    yield Case(stage, (24, 20.0, a_factor(), 40000, 64.0, 1.0))

    stage = "a published model: Qwen2.5 with four times its context"
    yield Case(stage, (128, 1000000.0, 4.0, 32768))


def _two_things(case: Case, out: object) -> bool:
    if not isinstance(out, tuple | list) or len(out) != 2:
        return False
    table = out[0]
    return isinstance(table, Tensor) and len(table) == case.args[0] // 2


def _fast_pairs_stay(case: Case, out: tuple[Tensor, float]) -> bool:
    return not _two_things(case, out) or abs(float(out[0][0]) - 1) < 0.2


exercise = Exercise(
    id="rope-yarn_scaling",
    points=3,
    reference=yarn_scaling,
    cases=_cases,
    hints=(
        "Three steps: two pair numbers, a ramp over torch.arange(D // 2), "
        "and a mixture of two frequencies. Write a small helper for the "
        "number of the pair that turns n times.",
        "low = max(floor(number(beta_fast)), 0) and high = "
        "min(ceil(number(beta_slow)), head_dim - 1). More turns means an "
        "earlier pair, so beta_fast gives the smaller number.",
        "ramp = ((pair - low) / (high - low)).clamp(0, 1). Then (1 - ramp) "
        "* inv_freq + ramp * inv_freq / factor, and 0.1 * math.log(factor) "
        "+ 1 beside it.",
    ),
    properties=(
        Property(
            "The result should be two things: D / 2 frequencies, and a "
            "number.",
            _two_things,
        ),
        Property(
            "The first pair turns most often, and should (nearly) keep its "
            "speed of 1 radian: is the ramp the right way round?",
            _fast_pairs_stay,
        ),
    ),
)


def _number(head_dim, base, context, turns):
    ratio = math.log(context / (2 * math.pi * turns))
    return head_dim * ratio / (2 * math.log(base))


def _bounds(head_dim, base, context, fast, slow):
    low = math.floor(_number(head_dim, base, context, fast))
    high = math.ceil(_number(head_dim, base, context, slow))
    return max(low, 0), min(high, head_dim - 1)


def _line(pair, low, high):
    return ((pair - low) / (high - low)).clamp(0, 1)


def _mix(inv_freq, ramp, factor):
    return (1 - ramp) * inv_freq + ramp * inv_freq / factor


def _sharper(factor):
    return 0.1 * math.log(factor) + 1


def _yarn(
    head_dim,
    base,
    factor,
    context,
    beta_fast=32.0,
    beta_slow=1.0,
    *,
    bounds=_bounds,
    line=_line,
    mix=_mix,
    sharper=_sharper,
):
    """The right answer, every step of which can be exchanged."""
    low, high = bounds(head_dim, base, context, beta_fast, beta_slow)
    pair = torch.arange(head_dim // 2).float()
    inv_freq = rope_frequencies(head_dim, base).inv_freq
    return mix(inv_freq, line(pair, low, high), factor), sharper(factor)


@exercise.misconception(
    "the ramp is upside down", exposed_by="any factor above 1"
)
def inverted(*args):
    """The fast pairs are stretched and the slow ones kept: a published
    library had this, and a test that compared it with itself. The fast
    pairs have turned hundreds of times in training; which ones would reach
    angles that nobody has seen?"""
    return _yarn(*args, line=lambda p, low, high: 1 - _line(p, low, high))


@exercise.misconception(
    "every pair is stretched", exposed_by="any factor above 1"
)
def linear(*args):
    """Without the ramp this is linear interpolation: neighbours, which only
    the fast pairs tell apart, move together. Which pairs keep their
    speed?"""
    return _yarn(*args, line=lambda p, low, high: torch.ones_like(p))


@exercise.misconception(
    "a larger base instead of a ramp", exposed_by="any factor above 1"
)
def ntk(head_dim, base, factor, context, *betas):
    """That is NTK-aware scaling, an older idea: base * factor ** (D / (D -
    2)) stretches each pair by another amount. YaRN keeps the base, and
    mixes. Where does the ramp enter?"""
    grown = base * factor ** (head_dim / (head_dim - 2))
    return rope_frequencies(head_dim, grown).inv_freq, _sharper(factor)


@exercise.misconception(
    "the bounds of the ramp are not rounded",
    exposed_by="both ends within the pairs",
)
def not_rounded(*args):
    """The ramp begins and ends between two pairs. The paper allows it, and
    published models were made with whole numbers: floor below, ceil above.
    What does the task do with the two numbers?"""

    def bounds(head_dim, base, context, fast, slow):
        low = _number(head_dim, base, context, fast)
        high = _number(head_dim, base, context, slow)
        return max(low, 0), min(high, head_dim - 1)

    return _yarn(*args, bounds=bounds)


@exercise.misconception(
    "floor and ceil are exchanged", exposed_by="both ends within the pairs"
)
def rounded_inwards(*args):
    """The ramp became shorter, where it should become longer: the lower
    bound is rounded down and the upper one up. Which is which?"""

    def bounds(head_dim, base, context, fast, slow):
        low = math.ceil(_number(head_dim, base, context, fast))
        high = math.floor(_number(head_dim, base, context, slow))
        return max(low, 0), min(high, head_dim - 1)

    return _yarn(*args, bounds=bounds)


@exercise.misconception(
    "beta_fast and beta_slow are exchanged",
    exposed_by="both ends within the pairs",
)
def betas_exchanged(head_dim, base, factor, context, fast=32.0, slow=1.0):
    """A pair that turns often comes early, so beta_fast gives the *lower*
    bound. The other way round the ramp falls instead of rising. Which pair
    number is larger, that of 32 turns or that of one?"""

    def bounds(head_dim, base, context, fast, slow):
        low = math.floor(_number(head_dim, base, context, slow))
        high = math.ceil(_number(head_dim, base, context, fast))
        return max(low, 0), min(high, head_dim - 1)

    return _yarn(head_dim, base, factor, context, fast, slow, bounds=bounds)


@exercise.misconception(
    "the softmax is not sharpened: the factor is 1",
    exposed_by="any factor above 1",
)
def no_temperature(*args):
    """With more keys the softmax spreads; YaRN makes cos and sin a little
    larger to undo it. What is the second result?"""
    return _yarn(*args, sharper=lambda factor: 1.0)


@exercise.misconception(
    "the + 1 of the temperature is missing", exposed_by="any factor above 1"
)
def no_plus_one(*args):
    """0.1 * ln(factor) alone makes queries and keys almost 0, and every
    weight the same. What should it be for factor = 1?"""
    return _yarn(*args, sharper=lambda factor: 0.1 * math.log(factor))


@exercise.misconception(
    "the temperature has the decimal logarithm",
    exposed_by="any factor above 1",
)
def decimal(*args):
    """math.log10 instead of math.log: less than half of it. Which of the
    two does ln stand for?"""
    return _yarn(*args, sharper=lambda factor: 0.1 * math.log10(factor) + 1)


@exercise.misconception(
    "the temperature is squared", exposed_by="any factor above 1"
)
def squared(*args):
    """The scores grow by the square, because queries *and* keys are
    multiplied. cos and sin get the number itself. How often does it enter a
    score?"""
    return _yarn(*args, sharper=lambda factor: _sharper(factor) ** 2)


@exercise.misconception(
    "the temperature is one over what it should be",
    exposed_by="any factor above 1",
)
def softer(*args):
    """The paper writes 1 / t = (0.1 ln s + 1)² with scores divided by t:
    here cos and sin *grow*. Is your number above or below 1?"""
    return _yarn(*args, sharper=lambda factor: 1 / _sharper(factor))


@exercise.misconception(
    "the extended context is used, not the trained one",
    exposed_by="both ends within the pairs",
)
def extended(head_dim, base, factor, context, *betas):
    """C * factor is how far the model shall read. The bounds ask how often
    a pair has turned in *training*. Which C is in the formula?"""

    def bounds(head_dim, base, context, fast, slow):
        return _bounds(head_dim, base, context * factor, fast, slow)

    return _yarn(head_dim, base, factor, context, *betas, bounds=bounds)


@exercise.misconception(
    "2 pi is missing", exposed_by="both ends within the pairs"
)
def no_two_pi(*args):
    """C / n radians are not C / n turns: a turn has 2 pi of them, and both
    bounds move by several pairs. Where is the 2 pi in the formula?"""

    def bounds(head_dim, base, context, fast, slow):
        return _bounds(head_dim, base, context * 2 * math.pi, fast, slow)

    return _yarn(*args, bounds=bounds)


@exercise.misconception(
    "the 2 in front of ln(base) is missing",
    exposed_by="both ends within the pairs",
)
def no_two(*args):
    """Pair i has the exponent 2i / D, so the number is half of what a
    formula over features gives. Without the 2 you count features. How many
    pairs has a head?"""

    def bounds(head_dim, base, context, fast, slow):
        low = math.floor(2 * _number(head_dim, base, context, fast))
        high = math.ceil(2 * _number(head_dim, base, context, slow))
        return max(low, 0), min(high, head_dim - 1)

    return _yarn(*args, bounds=bounds)


@exercise.misconception(
    "the ramp is linear in the turns", exposed_by="both ends within the pairs"
)
def benchmark_interleaved(
    head_dim, base, factor, context, fast=32.0, slow=1.0
):
    """This is the paper's ramp, and Llama 3's: linear in how often a pair
    turns. The code of the authors, and of every library, is linear in the
    *number* of the pair. Which of the two does the task ask for?"""
    inv_freq = rope_frequencies(head_dim, base).inv_freq
    turns = context * inv_freq / (2 * math.pi)
    keep = ((turns - slow) / (fast - slow)).clamp(0, 1)
    return _mix(inv_freq, 1 - keep, factor), _sharper(factor)


@exercise.misconception(
    "the ramp is not held between 0 and 1",
    exposed_by="both ends within the pairs",
)
def unclamped(*args):
    """Before its beginning the ramp is negative and pairs turn faster than
    they did; behind its end they turn backwards. What should the ramp be
    for pair 0?"""
    return _yarn(*args, line=lambda p, low, high: (p - low) / (high - low))


@exercise.misconception(
    "the beginning of the ramp is not held at 0",
    exposed_by="a ramp that would begin before the first pair",
)
def below_zero(*args):
    """A negative beginning makes the ramp flatter: pair 0 is on it already.
    The task holds both bounds within 0 and D - 1. What does your code do
    when a pair would have to turn more than once a token?"""

    def bounds(head_dim, base, context, fast, slow):
        low = math.floor(_number(head_dim, base, context, fast))
        return low, _bounds(head_dim, base, context, fast, slow)[1]

    return _yarn(*args, bounds=bounds)


@exercise.misconception(
    "the end of the ramp is held at the last pair",
    exposed_by="a ramp that would end behind the last pair",
)
def last_pair(*args):
    """There are D / 2 pairs, so D / 2 - 1 looks like the right bound; the
    authors' code has D - 1, and a ramp may end where no pair is. Which
    bound does the task name?"""

    def bounds(head_dim, base, context, fast, slow):
        low, high = _bounds(head_dim, base, context, fast, slow)
        return low, min(high, head_dim // 2 - 1)

    return _yarn(*args, bounds=bounds)


@exercise.misconception(
    "slow pairs are made faster", exposed_by="any factor above 1"
)
def faster(*args):
    """inv_freq * factor turns faster, and reaches unknown angles even
    sooner. By what must a speed be divided so that a longer text makes the
    same turn?"""
    return _yarn(*args, mix=lambda f, ramp, s: (1 - ramp) * f + ramp * f * s)


@exercise.misconception(
    "beta_fast and beta_slow are always 32 and 1",
    exposed_by="beta_fast=16, beta_slow=2",
)
def fixed_betas(head_dim, base, factor, context, *betas):
    """Where does your code read beta_fast and beta_slow?"""
    return _yarn(head_dim, base, factor, context)


@exercise.misconception(
    "only the frequencies come back", exposed_by="any input"
)
def only_frequencies(*args):
    """The factor on cos and sin belongs to the law: without it the softmax
    gets flatter with the length. What does the Returns line say?"""
    return _yarn(*args)[0]


@exercise.equivalent("as in the authors' code")
def _authors(
    head_dim,
    base,
    factor,
    original_max_position_embeddings,
    beta_fast=32.0,
    beta_slow=1.0,
):
    def find(rotations):
        old = original_max_position_embeddings
        return (head_dim * math.log(old / (rotations * 2 * math.pi))) / (
            2 * math.log(base)
        )

    low = max(math.floor(find(beta_fast)), 0)
    high = min(math.ceil(find(beta_slow)), head_dim - 1)
    powers = base ** (torch.arange(0, head_dim, 2).float() / head_dim)
    extrapolated, interpolated = 1.0 / powers, 1.0 / (factor * powers)
    ramp = (torch.arange(head_dim // 2).float() - low) / (high - low)
    keep = 1 - torch.clamp(ramp, 0, 1)
    inv_freq = interpolated * (1 - keep) + extrapolated * keep
    scale = 1.0 if factor <= 1 else 0.1 * math.log(factor) + 1.0
    return inv_freq, scale


@exercise.equivalent("pair by pair")
def _pairs(
    head_dim,
    base,
    factor,
    original_max_position_embeddings,
    beta_fast=32.0,
    beta_slow=1.0,
):
    old = original_max_position_embeddings
    low, high = _bounds(head_dim, base, old, beta_fast, beta_slow)
    out = []
    for i in range(head_dim // 2):
        theta = base ** (-2 * i / head_dim)
        share = min(max((i - low) / (high - low), 0), 1)
        out.append(theta * (1 - share + share / factor))
    return torch.tensor(out), 1 + math.log(factor) / 10


@exercise.equivalent("lerp, and a list for the result")
def _lerp(head_dim, base, factor, context, beta_fast=32.0, beta_slow=1.0):
    low, high = _bounds(head_dim, base, context, beta_fast, beta_slow)
    i = torch.arange(head_dim // 2, dtype=torch.float64)
    theta = base ** (-2 * i / head_dim)
    ramp = ((i - low) / (high - low)).clip(0.0, 1.0)
    mixed = torch.lerp(theta, theta / factor, ramp)
    return [mixed.float(), torch.tensor(0.1 * math.log(factor) + 1)]


@exercise.equivalent("logarithms of another base")
def _log2(head_dim, base, factor, context, beta_fast=32.0, beta_slow=1.0):
    def bounds(head_dim, base, context, fast, slow):
        def number(n):
            ratio = math.log2(context / (2 * math.pi * n)) / math.log2(base)
            return ratio * head_dim / 2

        low, high = math.floor(number(fast)), math.ceil(number(slow))
        return max(low, 0), min(high, head_dim - 1)

    betas = beta_fast, beta_slow
    return _yarn(head_dim, base, factor, context, *betas, bounds=bounds)
