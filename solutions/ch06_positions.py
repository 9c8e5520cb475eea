"""Solutions of chapter 06. Each signature and docstring is the task."""

import torch
from torch import Tensor


def permutation_test(
    out: Tensor, shuffled: Tensor, order: Tensor
) -> Tensor:
    """Measure what each token notices when the tokens change places.

    A layer gave ``out`` for the tokens ``x``, and ``shuffled`` for the
    same tokens in another order, ``x[..., order, :]``. Find both
    outputs of each token, and return the length of their difference,
    divided by the length of the first. The check uses orders that are
    not their own inverse, batches and views. A layer without positions
    and without a mask gives zeros in any order: it reads a bag.

    Args:
        out: ``(..., L, E)``, no row of it zero.
        shuffled: ``(..., L, E)``.
        order: int64 ``(L,)``, each of 0 to L - 1 once.

    Returns:
        ``(..., L)``, one number for each token, in the order of ``x``.
    """
    back = torch.empty_like(shuffled)
    back[..., order, :] = shuffled  # (..., L, E), in the order of x
    return (back - out).norm(dim=-1) / out.norm(dim=-1)


def sinusoidal(seq_len: int, dim: int, base: float = 10000.0) -> Tensor:
    """Build the position vectors of the first Transformer.

    Row ``m`` belongs to position ``m``, counted from 0. Columns ``2i``
    and ``2i + 1`` are the sine and the cosine of one angle,
    ``m / base ** (2i / dim)``. An odd ``dim`` ends with a sine. The
    check compares every entry, for even and odd sizes and other bases.
    The usual code stops with an error at an odd width; a table that
    counts from 1 never does.

    Args:
        seq_len: number of positions, at least 1.
        dim: ``E``, the size of an embedding.
        base: the number that sets the slowest pair.

    Returns:
        float32 ``(seq_len, dim)``.
    """
    position = torch.arange(seq_len)[:, None]
    exponent = torch.arange(0, dim, 2) / dim
    angle = position / base**exponent  # one column for each sine
    table = torch.zeros(seq_len, dim)
    table[:, 0::2] = angle.sin()
    table[:, 1::2] = angle[:, : dim // 2].cos()
    return table


def alibi_slopes(num_heads: int) -> Tensor:
    """Compute the slope of each head of ALiBi.

    For ``n`` heads, n a power of two, head ``h`` has
    ``2 ** (-8 * (h + 1) / n)``: 1/2, 1/4, … 1/256 for n = 8. For
    another number, take the slopes of the next lower power ``n`` first;
    then, for the heads that remain, the first, third, fifth … slope of
    ``2 * n``. The check compares twenty, from 1 to 256. Bloom has 112
    heads: its slopes are not those of the plain formula.

    Args:
        num_heads: ``H``, at least 1.

    Returns:
        float32 ``(H,)``, positive.
    """
    n = 2 ** (num_heads.bit_length() - 1)  # the lower power
    first = [2 ** (-8 * (h + 1) / n) for h in range(n)]
    between = [2 ** (-4 * (2 * h + 1) / n) for h in range(n)]
    return torch.tensor((first + between)[:num_heads])


def alibi_bias(
    num_heads: int, query_positions: Tensor, key_positions: Tensor
) -> Tensor:
    """Build what ALiBi adds to the scores.

    Minus the head's slope times the distance between query and key,
    whichever comes first; you may use your ``alibi_slopes``. Nothing is
    masked: that is the causal mask's work. The check uses queries at
    the end of the keys, one query, keys on both sides, and positions
    with gaps. In decoding, the only query is row 0 and not position 0.

    Args:
        num_heads: ``H``.
        query_positions: int64 ``(L,)``.
        key_positions: int64 ``(S,)``.

    Returns:
        float32 ``(H, L, S)``, to be passed as ``attn_mask``.
    """
    distance = (query_positions[:, None] - key_positions).abs()
    return -alibi_slopes(num_heads)[:, None, None] * distance
