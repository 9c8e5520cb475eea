"""How fast each pair of RoPE turns, and the laws that stretch a context.

``rope_frequencies`` reads the arguments; the laws stand in ``laws.py``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attn.positions.laws import LAWS, Plain


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
    if type not in LAWS:
        raise ValueError(f"type is {type!r}: it needs one of {list(LAWS)}")
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
    law = LAWS[type]
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
    rope = Plain(dim, base, seq_len, max_position_embeddings, device)
    return RopeFrequencies(*law(rope, **given))


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
