"""The types of RoPE: how each computes its frequencies.

They are computed in float32, step by step as transformers does, so that the
frequencies are equal to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor


class RopeFrequencies(NamedTuple):
    """Radians a position for each pair, and a factor on cosine and sine.

    Example:
        >>> inv_freq, factor = attn.rope_frequencies(4)
        >>> inv_freq, factor
        (tensor([1.0000, 0.0100]), 1.0)
    """

    inv_freq: Tensor  # (R / 2,), float32
    attention_factor: float = 1.0


class RopeConfig(NamedTuple):
    """The settings that every type shares."""

    dim: int  # R, the elements of a head that rotate
    base: float
    partial_rotary_factor: float
    seq_len: int | None
    max_len: int | None
    device: torch.device | str | None

    def powers(
        self, base: float | None = None, pairs: int | None = None
    ) -> Tensor:
        """Return ``base ** (2i / R)``, wavelengths over two pi, ``(R / 2,)``.

        Only the first ``pairs`` when given: a longer row is computed in
        other steps and may differ in its last bit.
        """
        end = self.dim if pairs is None else 2 * pairs
        exponent = torch.arange(0, end, 2, device=self.device).float()
        return (self.base if base is None else base) ** (exponent / self.dim)

    def factor(self, factor: float | None, original: int) -> float:
        """Return ``factor``, or the ratio of the two lengths for None."""
        if factor is not None:
            return factor
        if self.max_len is None:
            raise ValueError(
                "factor must be a number, or max_position_embeddings must be "
                "given to compute it; got None for both"
            )
        return self.max_len / original


def _default(config: RopeConfig) -> RopeFrequencies:
    return RopeFrequencies(1.0 / config.powers())


def _linear(config: RopeConfig, *, factor: float) -> RopeFrequencies:
    return RopeFrequencies(1.0 / config.powers() / factor)


def _proportional(
    config: RopeConfig, *, factor: float = 1.0
) -> RopeFrequencies:
    rotating = int(config.partial_rotary_factor * config.dim // 2)
    inv_freq = torch.zeros(config.dim // 2, device=config.device)
    inv_freq[:rotating] = 1.0 / config.powers(pairs=rotating)
    return RopeFrequencies(inv_freq / factor)


def _dynamic(config: RopeConfig, *, factor: float) -> RopeFrequencies:
    if config.max_len is None:
        raise ValueError(
            "max_position_embeddings must be given with type 'dynamic'; got "
            "None"
        )
    if config.dim == 2:
        raise ValueError(
            "at least two pairs must rotate with type 'dynamic', which keeps "
            "the first as it is; got one pair"
        )
    length = max(config.seq_len or 0, config.max_len)
    growth = (factor * length / config.max_len) - (factor - 1)
    base = config.base * growth ** (config.dim / (config.dim - 2))
    return RopeFrequencies(1.0 / config.powers(base))


def yarn_mscale(factor: float, weight: float = 1.0) -> float:
    """Return by how much YaRN lengthens queries and keys, ``weight`` of it."""
    return 0.1 * weight * math.log(factor) + 1.0 if factor > 1 else 1.0


def _yarn(
    config: RopeConfig,
    *,
    original_max_position_embeddings: int,
    factor: float | None = None,
    attention_factor: float | None = None,
    beta_fast: float = 32,
    beta_slow: float = 1,
    mscale: float | None = None,
    mscale_all_dim: float | None = None,
    truncate: bool = True,
) -> RopeFrequencies:
    original = original_max_position_embeddings
    factor = config.factor(factor, original)

    temperature = partial(yarn_mscale, factor)
    if attention_factor is None and mscale and mscale_all_dim:
        attention_factor = temperature(mscale) / temperature(mscale_all_dim)
    elif attention_factor is None:
        attention_factor = temperature(1)

    def pair_with(rotations: float) -> float:
        """Return the index of the pair that completes so many rotations."""
        ratio = math.log(original / (rotations * 2 * math.pi))
        return config.dim * ratio / (2 * math.log(config.base))

    low, high = pair_with(beta_fast), pair_with(beta_slow)
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, config.dim - 1)
    high += 0.001 if low == high else 0.0
    pairs = torch.arange(config.dim // 2, dtype=torch.float32)
    ramp = ((pairs - low) / (high - low)).clamp(0, 1).to(config.device)
    keep = 1 - ramp  # 1 for fast pairs
    powers = config.powers()
    inv_freq = 1.0 / (factor * powers) * (1 - keep) + 1.0 / powers * keep
    return RopeFrequencies(inv_freq, attention_factor)


def _longrope(
    config: RopeConfig,
    *,
    short_factor: Sequence[float],
    long_factor: Sequence[float],
    original_max_position_embeddings: int,
    factor: float | None = None,
    attention_factor: float | None = None,
) -> RopeFrequencies:
    original = original_max_position_embeddings
    for name, x in (("short", short_factor), ("long", long_factor)):
        if len(x) != config.dim // 2:
            raise ValueError(
                f"{name}_factor must have one entry for each of the "
                f"{config.dim // 2} pairs; got {len(x)}"
            )
    if attention_factor is None:
        factor = config.factor(factor, original)
        attention_factor = 1.0
        if factor > 1.0:
            ratio = math.log(factor) / math.log(original)
            attention_factor = math.sqrt(1 + ratio)
    is_long = config.seq_len is not None and config.seq_len > original
    factors = long_factor if is_long else short_factor
    divisors = torch.tensor(factors, dtype=torch.float32, device=config.device)
    inv_freq = 1.0 / (divisors * config.powers())
    return RopeFrequencies(inv_freq, attention_factor)


def _llama3(
    config: RopeConfig,
    *,
    factor: float,
    low_freq_factor: float,
    high_freq_factor: float,
    original_max_position_embeddings: int,
) -> RopeFrequencies:
    original = original_max_position_embeddings
    low, high = low_freq_factor, high_freq_factor
    inv_freq = 1.0 / config.powers()
    wavelength = 2 * math.pi / inv_freq
    smooth = (original / wavelength - low) / (high - low)
    between = (1 - smooth) * inv_freq / factor + smooth * inv_freq
    slow = torch.where(wavelength > original / low, inv_freq / factor, between)
    inv_freq = torch.where(wavelength < original / high, inv_freq, slow)
    return RopeFrequencies(inv_freq)


ROPE_INIT_FUNCTIONS: dict[str, Callable[..., RopeFrequencies]] = {
    "default": _default,
    "linear": _linear,
    "dynamic": _dynamic,
    "yarn": _yarn,
    "longrope": _longrope,
    "llama3": _llama3,
    "proportional": _proportional,
}
