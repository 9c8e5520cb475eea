"""Split, merge, repeat, pack and pool heads."""

from __future__ import annotations

import torch
from torch import Tensor

from attn import arguments


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    """Give every query head its own copy of the key or value head it shares.

    Head ``h`` of the result is head ``h // n_rep`` of ``x`` (``0, 0, 1, 1``,
    not ``0, 1, 0, 1``).

    Args:
        x: keys or values, ``(..., Hkv, S, D)``.
        n_rep: query heads per key/value head, at least 1.

    Returns:
        ``(..., Hkv * n_rep, S, D)``; ``x`` itself when ``n_rep`` is 1.

    Raises:
        ValueError: ``n_rep`` is less than 1, or ``x`` has no head axis.

    Example:
        >>> heads = torch.tensor([1, 2]).view(2, 1, 1)  # (Hkv, S, D)
        >>> attn.repeat_kv(heads, 2).flatten()
        tensor([1, 1, 2, 2])

    Source: Ainslie et al. 2023, "GQA", section 2.
    """
    arguments.count("n_rep", n_rep)
    arguments.tensor("x", x)
    if n_rep == 1:
        return x
    if x.dim() < 3:
        raise ValueError(
            f"x must have a head axis, (..., Hkv, S, D); got {tuple(x.shape)}"
        )
    return x.repeat_interleave(n_rep, dim=-3)


def pool_heads(weight: Tensor, num_heads: int, num_kv_heads: int) -> Tensor:
    """Convert the key or value projection of MHA into one of GQA.

    Each new head is the mean of the ``G`` old heads that it replaces.

    Args:
        weight: a ``Linear`` weight, ``(H * D, E)``, or its bias, ``(H * D,)``.
        num_heads: ``H``, heads of ``weight``.
        num_kv_heads: ``Hkv``, heads of the result; divides ``H``.

    Returns:
        ``(Hkv * D, E)`` or ``(Hkv * D,)``; a ValueError is raised when the
        head counts do not divide.

    Example:
        >>> weight = torch.tensor([[1.0], [3.0], [5.0], [7.0]])  # H = 4, D = 1
        >>> attn.pool_heads(weight, num_heads=4, num_kv_heads=2)
        tensor([[2.],
                [6.]])

    Source: Ainslie et al. 2023, "GQA", section 2.1.
    """
    arguments.tensor("weight", weight, floating=True)
    arguments.counts(num_heads=num_heads, num_kv_heads=num_kv_heads)
    if num_heads % num_kv_heads:
        raise ValueError(
            f"num_kv_heads must be a divisor of num_heads, {num_heads}; got "
            f"{num_kv_heads}"
        )
    if weight.dim() not in (1, 2):
        raise ValueError(
            f"weight must be (H * D, E) or (H * D,); got {tuple(weight.shape)}"
        )
    if weight.shape[0] % num_heads:
        raise ValueError(
            f"the rows of weight must be a multiple of num_heads, {num_heads};"
            f" got {weight.shape[0]}"
        )
    group = num_heads // num_kv_heads
    heads = weight.unflatten(0, (num_kv_heads, group, -1))  # (Hkv, G, D, ...)
    return heads.mean(1).flatten(0, 1)


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """Split the embedding into heads and bring the head axis forward.

    ``x`` is ``(..., L, H * D)``, the result a view, ``(..., H, L, D)``; a
    ValueError is raised when the embedding does not divide into heads.

    Example:
        >>> x = torch.tensor([[0, 1, 2, 3, 4, 5]])  # one token, E = 6
        >>> heads = attn.split_heads(x, num_heads=2)
        >>> heads.tolist()
        [[[0, 1, 2]], [[3, 4, 5]]]
        >>> torch.equal(attn.merge_heads(heads), x)
        True

    Source: Vaswani et al. 2017, section 3.2.2.
    """
    arguments.tensor("x", x)
    arguments.count("num_heads", num_heads)
    if x.dim() < 2:
        raise ValueError(f"x must be (..., L, H * D); got {tuple(x.shape)}")
    if x.shape[-1] % num_heads:
        raise ValueError(
            f"the embedding of x must be a multiple of num_heads, {num_heads};"
            f" got {x.shape[-1]}"
        )
    shape = (*x.shape[:-1], num_heads, x.shape[-1] // num_heads)
    return x.view(shape).transpose(-3, -2)


def merge_heads(x: Tensor) -> Tensor:
    """Concatenate the heads of each token; the inverse of ``split_heads``.

    Example:
        >>> heads = torch.tensor([[[0, 1, 2]], [[3, 4, 5]]])  # (H, L, D)
        >>> attn.merge_heads(heads)
        tensor([[0, 1, 2, 3, 4, 5]])

    Source: Vaswani et al. 2017, section 3.2.2, "Concat".
    """
    arguments.tensor("x", x)
    if x.dim() < 3:
        raise ValueError(f"x must be (..., H, L, D); got {tuple(x.shape)}")
    return x.transpose(-3, -2).flatten(-2)


def pack_groups(x: Tensor, num_kv_heads: int) -> Tensor:
    """Pack a group's heads, ``(..., H, L, X)``, into one of ``G * L`` rows."""
    if x.dim() < 3 or x.shape[-3] == num_kv_heads:
        return x
    group = x.shape[-3] // num_kv_heads
    return x.unflatten(-3, (num_kv_heads, group)).flatten(-3, -2)


def grouped_matmul(x: Tensor, shared: Tensor) -> Tensor:
    """Multiply every query head by the matrix of its key head.

    ``(..., H, L, X)`` times ``(..., Hkv, X, Y)``, which is not copied for
    the heads that share it, gives ``(..., H, L, Y)``.
    """
    if x.dim() < 3 or shared.dim() < 3 or x.shape[-3] == shared.shape[-3]:
        return x @ shared
    if torch.compiler.is_exporting():  # packing fixes a length that is free
        heads = x.unflatten(-3, (shared.shape[-3], -1))  # (..., Hkv, G, L, X)
        return (heads @ shared.unsqueeze(-3)).flatten(-4, -3)
    rows = pack_groups(x, shared.shape[-3]) @ shared  # (..., Hkv, G * L, Y)
    group = x.shape[-3] // shared.shape[-3]
    return rows.unflatten(-2, (group, x.shape[-2])).flatten(-4, -3)
