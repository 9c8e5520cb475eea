"""The two layouts of RoPE: which elements of a head make a pair.

*Half*: elements ``i`` and ``i + R / 2`` (GPT-NeoX, and every Llama in
transformers). *Interleaved*: elements ``2i`` and ``2i + 1`` (the paper,
Meta's Llama, GPT-J). Tables and projection weights have the layout of the
activations.
"""

from __future__ import annotations

import torch
from torch import Tensor


def convert_pairing(
    x: Tensor,
    to: str,
    *,
    dim: int = -1,
    head_dim: int | None = None,
    rotary_dim: int | None = None,
) -> Tensor:
    """Reorder heads from one layout of pairs to the other, exactly.

    Activations and tables: the last axis is one head. Projection weights
    and biases: ``dim=0`` with ``head_dim``. Convert the query's and the
    key's projection, and the scores stay the same.

    Args:
        x: activations ``(..., D)``, a table ``(..., R)``, a ``Linear``
            weight ``(H * D, E)`` or bias ``(H * D,)``.
        to: layout of the result, ``"half"`` (transformers) or
            ``"interleaved"`` (Meta, GPT-J).
        dim: the axis that holds the heads.
        head_dim: ``D``, where the axis holds several heads.
        rotary_dim: the first elements of a head, which rotate; all when None.

    Returns:
        The shape of ``x``. Converting back gives ``x`` again.

    Raises:
        ValueError: sizes do not divide, or an unknown layout.

    Example:
        >>> x = torch.tensor([0, 1, 2, 3])  # pairs (0, 1) and (2, 3)
        >>> attn.convert_pairing(x, to="half")
        tensor([0, 2, 1, 3])

    Source: transformers ``convert_llama_weights_to_hf.py``, ``permute``.
    """
    size = x.shape[dim]
    head_dim = size if head_dim is None else head_dim
    rotary_dim = head_dim if rotary_dim is None else rotary_dim
    if head_dim < 1 or size % head_dim:
        raise ValueError(
            f"axis {dim} of x must be a multiple of head_dim, {head_dim}; "
            f"got {size} elements"
        )
    if rotary_dim % 2 or not 0 <= rotary_dim <= head_dim:
        raise ValueError(
            f"rotary_dim must be even and at most head_dim, {head_dim}; got "
            f"{rotary_dim}"
        )
    order = torch.arange(head_dim, device=x.device)
    pairs = order[:rotary_dim]
    if to == "half":
        order[:rotary_dim] = torch.cat([pairs[0::2], pairs[1::2]])
    elif to == "interleaved":
        order[:rotary_dim] = torch.stack(pairs.chunk(2), -1).flatten()
    else:
        raise ValueError(f"to must be 'half' or 'interleaved'; got {to!r}")
    start = torch.arange(0, size, head_dim, device=x.device)
    return x.index_select(dim, (start[:, None] + order).flatten())
