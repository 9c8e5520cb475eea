"""Prompts of different lengths, with padding on the right of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from attn.cache import Cache, ragged, validation


def real_tokens(ids: Tensor, lengths: Any) -> tuple[Tensor, Tensor]:
    """Return checked lengths, and 1 for each real token, ``(B, L)``."""
    batch, most = ids.shape
    validation.lengths(lengths, batch, most, least=1)
    lengths = lengths.to(ids.device, torch.long)
    return lengths, ragged.real(lengths, most).to(ids.dtype)


def close_gap(ids: Tensor, lengths: Tensor, start: int) -> Tensor:
    """Move new tokens, those from ``start``, before the padding of a row."""
    index = torch.arange(ids.shape[1], device=ids.device).repeat(len(ids), 1)
    new = ids.shape[1] - start
    is_new = (index >= lengths[:, None]) & (index < lengths[:, None] + new)
    is_padding = index >= lengths[:, None] + new
    index = torch.where(is_new, index - lengths[:, None] + start, index)
    return ids.gather(1, torch.where(is_padding, index - new, index))


def ragged_logits(
    model: Any, caches: Sequence[Cache] | None, ids: Tensor, lengths: Tensor
) -> Callable[..., Tensor]:
    """Return the function from all ids to the logits that follow each row."""
    prompt_len = ids.shape[1]
    read = torch.as_tensor(caches[0].seq_len if caches else 0)
    by_row = read.to(ids.device).expand(len(ids))
    if not bool((by_row < lengths).all()):
        raise ValueError(
            "lengths must be greater than the number of tokens in the "
            f"cache, {read.tolist()}; got {lengths.tolist()}"
        )

    def step(ids: Tensor, mask: Tensor | None) -> Tensor:
        real: Tensor | None = lengths
        new = ids.shape[1] - prompt_len
        if not caches:
            ids, real = close_gap(ids, lengths, prompt_len), lengths + new
        elif new:
            ids, real = ids[:, -1:].contiguous(), None
        else:
            real = lengths - by_row
            index = torch.arange(int(real.max()), device=ids.device)
            index = (by_row[:, None] + index).clamp(max=ids.shape[1] - 1)
            ids = ids.gather(1, index)
        logits = model(ids, lengths=real, caches=caches, logits_to_keep=1)
        return logits[:, -1]

    return step
