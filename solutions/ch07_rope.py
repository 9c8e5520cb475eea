"""Solutions of chapter 07. Each signature and docstring is the task."""

import math

import torch
from torch import Tensor


def frequencies(head_dim: int, base: float = 10000.0) -> Tensor:
    """Compute how far each pair of a head rotates from token to token.

    Pair ``i``, counted from 0, rotates by ``base ** (-2 * i /
    head_dim)`` radians: the first pair by one radian, the last ones
    hardly at all. The check compares every entry in float32, for many
    head sizes and bases. Llama 3 uses a base of 500000: a single number
    in a file, on which everything depends.

    Args:
        head_dim: ``D``, even.
        base: the number that sets the slowest pair.

    Returns:
        float32 ``(D / 2,)``, radians for each position.
    """
    exponent = torch.arange(0, head_dim, 2) / head_dim  # (D / 2,)
    return base**-exponent


def apply_rope(
    x: Tensor, positions: Tensor, inv_freq: Tensor
) -> Tensor:
    """Rotate queries or keys by position, in the layout of Llama.

    ``R = 2 * len(inv_freq)`` features of each head are rotated; those
    after feature R stay as they are. Feature ``i`` and feature
    ``i + R / 2`` are a pair ``(a, b)``, rotated by the angle
    ``t = position * inv_freq[i]`` to ``(a cos t - b sin t, a sin t +
    b cos t)``. Angles, cosines and sines are float32 (bfloat16 cannot
    count to 257); the result alone is rounded to the dtype of ``x``.
    The check uses offsets, positions out of order, views, bfloat16
    and gradients.

    Args:
        x: ``(..., L, D)``; ``(B, H, L, D)`` if positions are (B, L).
        positions: integers, ``(L,)``, or ``(B, L)``, a row a sequence.
        inv_freq: ``(R / 2,)``, radians a position; R is at most D.

    Returns:
        The shape and dtype of ``x``.
    """
    angle = positions[..., None] * inv_freq.float()  # (..., L, R / 2)
    if positions.dim() == 2:
        angle = angle[:, None]  # (B, 1, L, R / 2)
    cos, sin = angle.cos(), angle.sin()
    size = 2 * len(inv_freq)
    a, b = x[..., :size].float().chunk(2, -1)  # (..., L, R / 2) each
    turned = torch.cat([a * cos - b * sin, a * sin + b * cos], -1)
    return torch.cat([turned.to(x.dtype), x[..., size:]], -1)


def apply_rope_interleaved(
    x: Tensor, positions: Tensor, inv_freq: Tensor
) -> Tensor:
    """Rotate by position in the paper's layout: neighbours are a pair.

    Features ``2 * i`` and ``2 * i + 1`` are the pair ``(a, b)``,
    rotated by ``position * inv_freq[i]``, each result in its old place.
    Everything else is as in ``apply_rope``: the first R features,
    angles, cosines and sines in float32, the result in the dtype of
    ``x``. Meta's own Llama files and GPT-J are in this layout; with the
    other one every token but the first is rotated wrongly.

    Args:
        x: ``(..., L, D)``; ``(B, H, L, D)`` if positions are (B, L).
        positions: integers, ``(L,)``, or ``(B, L)``, a row a sequence.
        inv_freq: ``(R / 2,)``, radians a position; R is at most D.

    Returns:
        The shape and dtype of ``x``.
    """
    angle = positions[..., None] * inv_freq.float()  # (..., L, R / 2)
    if positions.dim() == 2:
        angle = angle[:, None]  # (B, 1, L, R / 2)
    cos, sin = angle.cos(), angle.sin()
    size = 2 * len(inv_freq)
    turning = x[..., :size].float()
    a, b = turning[..., 0::2], turning[..., 1::2]
    pairs = torch.stack([a * cos - b * sin, a * sin + b * cos], -1)
    turned = pairs.flatten(-2)  # (..., L, R)
    return torch.cat([turned.to(x.dtype), x[..., size:]], -1)


def permute_weights(weight: Tensor, num_heads: int) -> Tensor:
    """Reorder a query or key projection for the layout of Llama in HF.

    Within each head, the rows that interleaved RoPE pairs as (0, 1),
    (2, 3), ... move to where ``apply_rope`` expects them: first all
    the even rows, then all the odd ones. The check compares each row
    with that of the one right order, of weights and biases, with any
    number of heads. Without this step a converted checkpoint loads and
    writes nonsense.

    Args:
        weight: ``Linear`` weight ``(H * D, E)`` or bias ``(H * D,)``,
            for the interleaved layout.
        num_heads: ``H``.

    Returns:
        The same shape, for the half layout.
    """
    pairs = weight.unflatten(0, (num_heads, -1, 2))  # (H, D / 2, 2, …)
    return pairs.transpose(1, 2).flatten(0, 2)  # (H * D, …)


def llama3_scaling(
    inv_freq: Tensor,
    factor: float = 8.0,
    low_freq_factor: float = 1.0,
    high_freq_factor: float = 4.0,
    original_max_position_embeddings: int = 8192,
) -> Tensor:
    """Slow the slow pairs down, so that a model reads further.

    A pair's wavelength is the number of tokens of one turn. With C the
    trained context: shorter than C / high_freq_factor stays; longer
    than C / low_freq_factor rotates ``factor`` times slower; in
    between, mix both: ``(1 - s) * inv_freq / factor + s * inv_freq``,
    where ``s`` goes from 0 to 1 as the turns in C, C / wavelength, go
    from the low to the high factor. The check uses many sizes. Llama
    3.1 reads 128k tokens like this.

    Args:
        inv_freq: ``(D / 2,)``, radians a position; stays as it is.
        factor: how many times slower.
        low_freq_factor, high_freq_factor: turns in C that bound the
            mixed zone, low < high.
        original_max_position_embeddings: C.

    Returns:
        ``(D / 2,)``, the scaled radians a position, in the dtype of
        ``inv_freq``.
    """
    turns = original_max_position_embeddings * inv_freq / (2 * math.pi)
    span = high_freq_factor - low_freq_factor
    s = ((turns - low_freq_factor) / span).clamp(0, 1)
    return (1 - s) * inv_freq / factor + s * inv_freq


def yarn_scaling(
    head_dim: int,
    base: float,
    factor: float,
    original_max_position_embeddings: int,
    beta_fast: float = 32.0,
    beta_slow: float = 1.0,
) -> tuple[Tensor, float]:
    """Scale by YaRN: a ramp over the pairs, and a sharper softmax.

    The law derived above. The ramp is linear in the number of the pair:
    0 up to i(beta_fast), rounded down and at least 0; 1 from
    i(beta_slow), rounded up and at most D - 1. Ramp 0 keeps a
    frequency, ramp 1 divides it by ``factor``; the temperature goes on
    cos and sin. Your ``frequencies`` may be used. The check uses other
    bounds, and ramps that begin before the first pair or end behind the
    last; the ramp never has length 0.

    Args:
        head_dim: ``D``.
        base: of the frequencies.
        factor: how much further, at least 1.
        original_max_position_embeddings: C.
        beta_fast, beta_slow: turns in C that bound the ramp.

    Returns:
        The scaled ``(D / 2,)`` radians a position, float32, and the
        factor on cos and sin.
    """
    context = original_max_position_embeddings

    def pair_number(turns: float) -> float:
        ratio = math.log(context / (2 * math.pi * turns))
        return head_dim * ratio / (2 * math.log(base))

    low = max(math.floor(pair_number(beta_fast)), 0)
    high = min(math.ceil(pair_number(beta_slow)), head_dim - 1)
    pair = torch.arange(head_dim // 2)
    ramp = ((pair - low) / (high - low)).clamp(0, 1)  # (D / 2,)
    inv_freq = frequencies(head_dim, base)
    scaled = (1 - ramp) * inv_freq + ramp * inv_freq / factor
    return scaled, 0.1 * math.log(factor) + 1
