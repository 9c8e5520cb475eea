"""ALiBi: the further a key, the lower its score, by a slope for each head."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from attn import arguments


def alibi_slopes(
    num_heads: int, device: torch.device | str | None = None
) -> Tensor:
    """Return the slope of each head: fixed, not learned.

    For 8 heads ``1/2, 1/4, … 1/256``. When ``num_heads`` is no power of two,
    the slopes of the next lower power come first, then every other slope of
    the next higher one.

    Args:
        num_heads: ``H``, at least 1.
        device: of the result.

    Returns:
        ``(H,)``, float32.

    Raises:
        ValueError: there are no heads.

    Example:
        >>> attn.alibi_slopes(4)
        tensor([0.2500, 0.0625, 0.0156, 0.0039])

    Source: Press et al. 2022, section 3, and its code (``get_slopes``);
    transformers' Bloom and MPT.
    """
    arguments.count("num_heads", num_heads)
    num_heads = int(num_heads)
    lower = 1 << (num_heads.bit_length() - 1)  # the power of two below
    steps = [*range(2, 2 * lower + 1, 2), *range(1, 2 * lower, 2)]
    slopes = [2.0 ** (-4.0 * step / lower) for step in steps[:num_heads]]
    return torch.tensor(slopes, device=device)


def alibi_bias(
    num_heads: int,
    query_positions: int | Tensor,
    key_positions: int | Tensor | None = None,
    device: torch.device | str | None = None,
) -> Tensor:
    """Return the bias on the scores: minus slope times distance.

    It masks nothing: causal models pass ``is_causal`` too. Where a model
    sees keys after the query, their distance counts like that of keys
    before it.

    Args:
        num_heads: ``H``.
        query_positions: positions of the queries, ``(L,)`` or ``(B, L)``;
            an int ``n`` means 0 to ``n - 1``.
        key_positions: the same for the keys; the queries' when None.
        device: of the result, when the positions are ints.

    Returns:
        ``(H, L, S)``, or ``(B, H, L, S)`` where positions have a batch
        axis; float32. It is an ``attn_mask``; for a batch pass
        ``bias[None]``, ``(1, H, L, S)``.

    Example:
        >>> attn.alibi_bias(8, 3)[0]  # the first of 8 heads, slope 1/2
        tensor([[-0.0000, -0.5000, -1.0000],
                [-0.5000, -0.0000, -0.5000],
                [-1.0000, -0.5000, -0.0000]])

    Source: Press et al. 2022, section 3. Bloom and MPT add ``slope *
    key position``: the difference is constant along a row, and softmax
    ignores it.
    """
    if key_positions is None:
        key_positions = query_positions
    q = _positions("query_positions", query_positions, device)
    k = _positions("key_positions", key_positions, device)
    arguments.same_device("key_positions", k, "query_positions", q)
    for name, x in {"query_positions": q, "key_positions": k}.items():
        if x.dim() not in (1, 2):
            raise ValueError(
                f"{name} must have shape (L,) or (B, L); got {tuple(x.shape)}"
            )
    distance = (q[..., :, None] - k[..., None, :]).abs()  # (..., L, S)
    slopes = alibi_slopes(num_heads, q.device)
    return -slopes[:, None, None] * distance[..., None, :, :]


def _positions(
    name: str, x: int | Tensor, device: torch.device | str | None
) -> Tensor:
    if isinstance(x, Tensor):
        arguments.real(name, x)
        return x
    arguments.count(name, x, 0)
    return torch.arange(x, device=device)


def alibi_score(
    num_heads: int,
    q_offset: int = 0,
    device: torch.device | str | None = None,
) -> Callable[..., Tensor]:
    """Return ALiBi as a ``score_mod`` of FlexAttention: nothing is stored.

    Make one and use it for all layers: each new one is compiled again.

    Args:
        num_heads, device: ``H``, and the device of the calls that use it.
        q_offset: position of the first query among the keys.

    Returns:
        ``(score, b, h, q_idx, kv_idx) -> score``.

    Example:
        >>> score_mod = attn.alibi_score(num_heads=8)
        >>> score, head = torch.tensor(1.0), 0  # slope 1/2
        >>> score_mod(score, 0, head, torch.tensor(5), torch.tensor(3))
        tensor(0.)

    Source: Press et al. 2022; PyTorch ``flex_attention``, ``score_mod``.
    """
    slopes = alibi_slopes(num_heads, device)
    if isinstance(q_offset, bool) or not isinstance(q_offset, int | Tensor):
        raise TypeError(f"q_offset must be an int; got {q_offset!r}")

    def lower_with_distance(
        score: Tensor, b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor
    ) -> Tensor:
        return score - slopes[h] * (q_idx + q_offset - kv_idx).abs()

    return lower_with_distance
