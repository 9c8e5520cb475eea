"""How fast each pair of RoPE turns, and the laws that stretch a context.

``rope_frequencies`` is the only entry; below it, each law is one short
function of the plain frequencies. They are computed in float32, step by
step as transformers does, so that the tables are equal to the last bit.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor


class RopeFrequencies(NamedTuple):
    """Radians a position for each pair, and a factor on cosine and sine."""

    inv_freq: Tensor  # (R / 2,), float32
    attention_factor: float


def rope_frequencies(
    head_dim: int,
    base: float = 10000.0,
    type: str = "default",
    *,
    partial_rotary_factor: float = 1.0,
    seq_len: int | None = None,
    max_position_embeddings: int | None = None,
    original_max_position_embeddings: int | None = None,
    factor: float | None = None,
    attention_factor: float | None = None,
    beta_fast: float | None = None,
    beta_slow: float | None = None,
    mscale: float | None = None,
    mscale_all_dim: float | None = None,
    truncate: bool | None = None,
    short_factor: Sequence[float] | None = None,
    long_factor: Sequence[float] | None = None,
    low_freq_factor: float | None = None,
    high_freq_factor: float | None = None,
    device: torch.device | str | None = None,
) -> RopeFrequencies:
    """The angle by which each pair of a head turns from token to token.

    Pair ``i`` turns by ``base ** (-2i / R)`` radians a position, where ``R``
    is the part of the head that turns. The other types change that, so that
    a model can read further than it was trained:

    ============ ======================================================
    default      as it is
    linear       every pair ``factor`` times slower
    dynamic      a larger base, once ``seq_len`` is beyond the trained
                 length (NTK)
    yarn         fast pairs as they are, slow ones ``factor`` times slower,
                 a ramp between; softmax sharpened by ``attention_factor``
    longrope     a divisor for each pair, one list for short and one for
                 long inputs
    llama3       by wavelength: short as they are, long ``factor`` times
                 slower, smooth between
    proportional the exponent counts the whole head, and the pairs beyond
                 ``partial_rotary_factor`` do not turn
    ============ ======================================================

    Args:
        head_dim: ``D``.
        base: transformers' ``rope_theta``.
        type: a row of the table, transformers' ``rope_type``.
        partial_rotary_factor: the part of the head that turns.
        seq_len: length of the input at hand; matters for dynamic and
            longrope.
        max_position_embeddings: the length that the model is made for.
        original_max_position_embeddings: the length it was first trained
            with.
        factor, attention_factor, beta_fast, beta_slow: as in transformers'
            ``rope_parameters``.
        mscale, mscale_all_dim, truncate: as there.
        short_factor, long_factor: as there.
        low_freq_factor, high_freq_factor: as there.
        device: where the result is made.

    Returns:
        ``inv_freq``, ``(R / 2,)`` float32, and ``attention_factor``.

    Raises:
        ValueError: an unknown type; an argument that the type lacks, or
            one that it would ignore; an odd rotary dimension.

    Source: Su et al. 2021 (RoFormer); transformers 5.23,
    ``modeling_rope_utils.ROPE_INIT_FUNCTIONS``. YaRN is Peng et al. 2023,
    LongRoPE Ding et al. 2024.
    """
    if type not in _TYPES:
        raise ValueError(f"type is {type!r}: it needs one of {list(_TYPES)}")
    given = {
        "factor": factor,
        "attention_factor": attention_factor,
        "original_max_position_embeddings": original_max_position_embeddings,
        "beta_fast": beta_fast,
        "beta_slow": beta_slow,
        "mscale": mscale,
        "mscale_all_dim": mscale_all_dim,
        "truncate": truncate,
        "short_factor": short_factor,
        "long_factor": long_factor,
        "low_freq_factor": low_freq_factor,
        "high_freq_factor": high_freq_factor,
    }
    law = _TYPES[type]
    given = {name: x for name, x in given.items() if x is not None}
    _check_given(law, type, given)
    if not 0.0 < partial_rotary_factor <= 1.0:
        raise ValueError(
            f"partial_rotary_factor is {partial_rotary_factor}: it needs a "
            "number above 0, at most 1"
        )
    whole = type == "proportional"
    dim = head_dim if whole else int(head_dim * partial_rotary_factor)
    if dim < 2 or dim % 2:
        raise ValueError(
            f"head_dim is {head_dim} and partial_rotary_factor "
            f"{partial_rotary_factor}: {dim} numbers would turn, and RoPE "
            "needs pairs (an even number, at least 2)"
        )
    if whole:
        given["part"] = partial_rotary_factor
    rope = _Rope(dim, base, seq_len, max_position_embeddings, device)
    return RopeFrequencies(*law(rope, **given))


class _Rope(NamedTuple):
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


def _default(rope: _Rope) -> tuple[Tensor, float]:
    return 1.0 / rope.powers(), 1.0


def _linear(rope: _Rope, *, factor: float) -> tuple[Tensor, float]:
    return 1.0 / rope.powers() / factor, 1.0


def _proportional(
    rope: _Rope, *, part: float, factor: float = 1.0
) -> tuple[Tensor, float]:
    turning = int(part * rope.dim // 2)
    inv_freq = torch.zeros(rope.dim // 2, device=rope.device)
    inv_freq[:turning] = 1.0 / rope.powers(pairs=turning)
    return inv_freq / factor, 1.0


def _dynamic(rope: _Rope, *, factor: float) -> tuple[Tensor, float]:
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
    rope: _Rope,
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
    rope: _Rope,
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
    rope: _Rope,
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


_TYPES: dict[str, Callable[..., tuple[Tensor, float]]] = {
    "default": _default,
    "linear": _linear,
    "dynamic": _dynamic,
    "yarn": _yarn,
    "longrope": _longrope,
    "llama3": _llama3,
    "proportional": _proportional,
}


def _check_given(
    law: Callable[..., Any], type: str, given: dict[str, Any]
) -> None:
    """A parameter that the type lacks or would ignore is an error."""
    takes = dict(list(inspect.signature(law).parameters.items())[1:])
    takes.pop("part", None)
    missing = [
        name
        for name, parameter in takes.items()
        if parameter.default is parameter.empty and name not in given
    ]
    if missing:
        raise ValueError(
            f"{', '.join(missing)} missing: type {type!r} needs "
            f"{', '.join(takes)}"
        )
    ignored = [name for name in given if name not in takes]
    if ignored:
        raise ValueError(
            f"{', '.join(ignored)} given: type {type!r} takes "
            f"{', '.join(takes) or 'no such arguments'}"
        )
    if given.get("factor", 1.0) <= 0:
        raise ValueError(
            f"factor is {given['factor']}: it needs a positive number"
        )
