"""Several texts in one row, end to end: none reads the state of another."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor

from attn import tracing


def each_text(
    one: Callable[[slice, Tensor], tuple[Tensor, Tensor]],
    cu_seqlens: Tensor | None,
    states: Tensor,
    axis: int,
) -> tuple[Tensor, Tensor]:
    """Run a function on each packed text, with its own of ``(N, …)`` states.

    ``one`` maps the tokens of a text, and its state ``(1, …)``, to an output,
    with tokens along ``axis``, and the state after it.
    """
    if cu_seqlens is None:
        return one(slice(None), states)
    outs, last = [], []
    for i, (start, end) in enumerate(pairwise(cu_seqlens.tolist())):
        out, state = one(slice(start, end), states[i : i + 1])
        outs.append(out)
        last.append(state)
    return torch.cat(outs, axis), torch.cat(last)


def check_packed(cu_seqlens: Tensor | None, batch: int, length: int) -> int:
    """Return the number of texts: of rows, or packed into a single row."""
    if cu_seqlens is None:
        return batch
    is_tensor = isinstance(cu_seqlens, Tensor)
    if not is_tensor or cu_seqlens.dtype not in (torch.int32, torch.int64):
        got = cu_seqlens.dtype if is_tensor else type(cu_seqlens).__name__
        raise TypeError(
            f"cu_seqlens must be an integer tensor (N + 1,); got {got}"
        )
    if batch != 1:
        raise ValueError(
            f"cu_seqlens must be None with {batch} rows: packed texts are "
            "end to end in one, (1, …)"
        )
    tracing.require_values("which cut the row", cu_seqlens=cu_seqlens)
    ends = cu_seqlens.tolist() if cu_seqlens.dim() == 1 else []
    ordered = all(a <= b for a, b in pairwise(ends))
    if len(ends) < 2 or ends[0] != 0 or ends[-1] != length or not ordered:
        raise ValueError(
            f"cu_seqlens must rise from 0 to {length}, the number of tokens; "
            f"got {cu_seqlens.tolist()}"
        )
    return len(ends) - 1
