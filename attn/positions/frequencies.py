"""The frequencies of RoPE, of every type that transformers has.

``rope_frequencies`` validates its arguments; ``rope_scaling.py`` computes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch

from attn import arguments
from attn.positions.rope_scaling import (
    ROPE_INIT_FUNCTIONS,
    RopeConfig,
    RopeFrequencies,
)

_LENGTH = "max_position_embeddings"
_ORIGINAL = "original_max_position_embeddings"


def rope_frequencies(
    head_dim: int,
    base: float = 10000.0,
    type: str = "default",
    *,
    partial_rotary_factor: float = 1.0,
    seq_len: int | None = None,
    max_position_embeddings: int | None = None,
    device: torch.device | str | None = None,
    **parameters: Any,
) -> RopeFrequencies:
    """Return the angle by which each pair of a head rotates at each token.

    Pair ``i`` rotates by ``base ** (-2i / R)`` radians a position, where
    ``R`` is the part of the head that rotates. The other types change that,
    so that a model can read longer texts than it was trained on:

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
                 ``partial_rotary_factor`` do not rotate
    ============ ======================================================

    Args:
        head_dim: ``D``.
        base: transformers' ``rope_theta``.
        type: a row of the table, transformers' ``rope_type``.
        partial_rotary_factor: the part of the head that rotates.
        seq_len: length of the input, for dynamic and longrope.
        max_position_embeddings: the longest input that the model reads.
        device: of the result.
        parameters: those of the type, named as in transformers'
            ``rope_parameters``: ``factor``, ``beta_fast``, …
            ``original_max_position_embeddings`` is the trained length.

    Returns:
        ``inv_freq``, ``(R / 2,)`` float32, and ``attention_factor``.

    Raises:
        ValueError: an unknown type, a parameter that the type lacks or would
            ignore, or an odd rotary dimension.

    Example:
        >>> attn.rope_frequencies(8).inv_freq
        tensor([1.0000, 0.1000, 0.0100, 0.0010])
        >>> attn.rope_frequencies(8, type="linear", factor=4.0).inv_freq
        tensor([0.2500, 0.0250, 0.0025, 0.0003])

    Source: Su et al. 2021 (RoFormer); transformers 5.23,
    ``modeling_rope_utils.ROPE_INIT_FUNCTIONS``. YaRN is Peng et al. 2023,
    LongRoPE Ding et al. 2024.
    """
    arguments.integer("head_dim", head_dim)
    arguments.positive("base", base)
    lengths = (seq_len, max_position_embeddings)
    for name, x in zip(("seq_len", _LENGTH), lengths, strict=True):
        if x is not None:
            arguments.count(name, x, 0)
    arguments.number("partial_rotary_factor", partial_rotary_factor)
    arguments.choice("type", type, ROPE_INIT_FUNCTIONS)
    compute = ROPE_INIT_FUNCTIONS[type]
    given = {name: x for name, x in parameters.items() if x is not None}
    _check_parameters(compute, type, given)
    if not 0.0 < partial_rotary_factor <= 1.0:
        raise ValueError(
            "partial_rotary_factor must be above 0 and at most 1; got "
            f"{partial_rotary_factor}"
        )
    part = 1.0 if type == "proportional" else partial_rotary_factor
    dim = int(head_dim * part)
    if dim < 2 or dim % 2:
        raise ValueError(
            "the elements that rotate, head_dim * partial_rotary_factor, "
            f"must be an even number, at least 2; got {dim} of {head_dim}"
        )
    config = RopeConfig(dim, base, partial_rotary_factor, *lengths, device)
    return compute(config, **given)


def _check_parameters(
    compute: Callable[..., Any], type: str, given: dict[str, Any]
) -> None:
    """Refuse a parameter that the type lacks or would ignore."""
    known = dict(list(inspect.signature(compute).parameters.items())[1:])
    required = [name for name, x in known.items() if x.default is x.empty]
    for names, must in (
        ([name for name in required if name not in given], "must"),
        ([name for name in given if name not in known], "must not"),
    ):
        if names:
            raise ValueError(
                f"{', '.join(names)} {must} be given with type {type!r}; its "
                f"parameters are {', '.join(known) or 'those of every type'}"
            )
    for name in ("factor", "low_freq_factor", "high_freq_factor"):
        arguments.positive(name, given.get(name, 1.0))
    arguments.count(_ORIGINAL, given.get(_ORIGINAL, 1))
    low, high = (given.get(f"{x}_freq_factor") for x in ("low", "high"))
    if low is not None and high is not None and low >= high:
        raise ValueError(
            f"low_freq_factor must be below high_freq_factor, {high}; got "
            f"{low}"
        )
