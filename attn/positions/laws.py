"""The laws that stretch RoPE, each a short function of the plain one.

They are computed in float32, step by step as transformers does, so that the
frequencies are equal to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class Plain(NamedTuple):
    """What every law starts from."""

    dim: int  # R, the numbers of a head that turn
    base: float
    seq_len: int | None
    max_len: int | None
    device: torch.device | str | None

    def powers(
        self, base: float | None = None, pairs: int | None = None
    ) -> Tensor:
        """``base ** (2i / R)``: wavelengths over two pi, ``(R / 2,)``.

        Only the first ``pairs`` when given: a longer row is computed in
        other steps and may differ in its last bit.
        """
        end = self.dim if pairs is None else 2 * pairs
        exponent = torch.arange(0, end, 2, device=self.device).float()
        return (self.base if base is None else base) ** (exponent / self.dim)

    def stretch(self, factor: float | None, original: int) -> float:
        """``factor``, or the ratio of the two lengths when it is None."""
        if factor is not None:
            return factor
        if self.max_len is None:
            raise ValueError(
                "factor is None: it needs a number, or "
                "max_position_embeddings to work it out"
            )
        return self.max_len / original


def _default(rope: Plain) -> tuple[Tensor, float]:
    return 1.0 / rope.powers(), 1.0


def _linear(rope: Plain, *, factor: float) -> tuple[Tensor, float]:
    return 1.0 / rope.powers() / factor, 1.0


def _proportional(
    rope: Plain, *, part: float, factor: float = 1.0
) -> tuple[Tensor, float]:
    turning = int(part * rope.dim // 2)
    inv_freq = torch.zeros(rope.dim // 2, device=rope.device)
    inv_freq[:turning] = 1.0 / rope.powers(pairs=turning)
    return inv_freq / factor, 1.0


def _dynamic(rope: Plain, *, factor: float) -> tuple[Tensor, float]:
    if rope.max_len is None:
        raise ValueError(
            "max_position_embeddings is None: type 'dynamic' needs it"
        )
    if rope.dim == 2:
        raise ValueError(
            "one pair turns: type 'dynamic' needs at least two, for it "
            "leaves the first as it is"
        )
    length = max(rope.seq_len or 0, rope.max_len)
    growth = (factor * length / rope.max_len) - (factor - 1)
    base = rope.base * growth ** (rope.dim / (rope.dim - 2))
    return 1.0 / rope.powers(base), 1.0


def _yarn(
    rope: Plain,
    *,
    original_max_position_embeddings: int,
    factor: float | None = None,
    attention_factor: float | None = None,
    beta_fast: float = 32,
    beta_slow: float = 1,
    mscale: float | None = None,
    mscale_all_dim: float | None = None,
    truncate: bool = True,
) -> tuple[Tensor, float]:
    original = original_max_position_embeddings
    factor = rope.stretch(factor, original)

    def temperature(weight: float) -> float:
        return 0.1 * weight * math.log(factor) + 1.0 if factor > 1 else 1.0

    if attention_factor is None:
        if mscale and mscale_all_dim:
            attention_factor = temperature(mscale) / temperature(
                mscale_all_dim
            )
        else:
            attention_factor = temperature(1)

    def pair_that_turns(times: float) -> float:
        """Index of the pair with so many turns in the trained length."""
        ratio = math.log(original / (times * 2 * math.pi))
        return rope.dim * ratio / (2 * math.log(rope.base))

    low, high = pair_that_turns(beta_fast), pair_that_turns(beta_slow)
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, rope.dim - 1)
    high += 0.001 if low == high else 0.0
    pairs = torch.arange(rope.dim // 2, dtype=torch.float32)
    ramp = ((pairs - low) / (high - low)).clamp(0, 1).to(rope.device)
    keep = 1 - ramp  # 1 for fast pairs
    powers = rope.powers()
    inv_freq = 1.0 / (factor * powers) * (1 - keep) + 1.0 / powers * keep
    return inv_freq, attention_factor


def _longrope(
    rope: Plain,
    *,
    short_factor: Sequence[float],
    long_factor: Sequence[float],
    original_max_position_embeddings: int,
    factor: float | None = None,
    attention_factor: float | None = None,
) -> tuple[Tensor, float]:
    original = original_max_position_embeddings
    for name, x in (("short", short_factor), ("long", long_factor)):
        if len(x) != rope.dim // 2:
            raise ValueError(
                f"{name}_factor has {len(x)} numbers: it needs one for each "
                f"of the {rope.dim // 2} pairs"
            )
    if attention_factor is None:
        factor = rope.stretch(factor, original)
        attention_factor = 1.0
        if factor > 1.0:
            ratio = math.log(factor) / math.log(original)
            attention_factor = math.sqrt(1 + ratio)
    is_long = rope.seq_len is not None and rope.seq_len > original
    divisors = torch.tensor(
        long_factor if is_long else short_factor,
        dtype=torch.float32,
        device=rope.device,
    )
    return 1.0 / (divisors * rope.powers()), attention_factor


def _llama3(
    rope: Plain,
    *,
    factor: float,
    low_freq_factor: float,
    high_freq_factor: float,
    original_max_position_embeddings: int,
) -> tuple[Tensor, float]:
    original = original_max_position_embeddings
    inv_freq = 1.0 / rope.powers()
    wavelength = 2 * math.pi / inv_freq
    low, high = low_freq_factor, high_freq_factor
    smooth = (original / wavelength - low) / (high - low)
    between = (1 - smooth) * inv_freq / factor + smooth * inv_freq
    slow = torch.where(wavelength > original / low, inv_freq / factor, between)
    return torch.where(wavelength < original / high, inv_freq, slow), 1.0


LAWS: dict[str, Callable[..., tuple[Tensor, float]]] = {
    "default": _default,
    "linear": _linear,
    "dynamic": _dynamic,
    "yarn": _yarn,
    "longrope": _longrope,
    "llama3": _llama3,
    "proportional": _proportional,
}
