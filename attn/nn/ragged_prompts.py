"""Prompts of different lengths, with padding on the right of each."""

from __future__ import annotations

from collections.abc import Sequence
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
    """Move new tokens behind the real ones of their row, before the padding.

    Args:
        ids: prompts, and from ``start`` on the new tokens, ``(B, L + N)``.
        lengths: number of real tokens in each prompt, ``(B,)``.
    """
    index = torch.arange(ids.shape[1], device=ids.device).repeat(len(ids), 1)
    new = ids.shape[1] - start
    is_new = (index >= lengths[:, None]) & (index < lengths[:, None] + new)
    is_padding = index >= lengths[:, None] + new
    index = torch.where(is_new, index - lengths[:, None] + start, index)
    return ids.gather(1, torch.where(is_padding, index - new, index))


class RaggedLogits:
    """Compute the logits of the next token of each row.

    Args:
        model: an ``attn.Transformer``, compiled or not.
        caches: as in ``attn.nn.generate``, or None.
        ids: the prompts, with padding on the right, ``(B, L)``.
        lengths: their number of real tokens, ``(B,)``.
    """

    def __init__(
        self,
        model: Any,
        caches: Sequence[Cache] | None,
        ids: Tensor,
        lengths: Tensor,
    ):
        self.model, self.caches, self.lengths = model, caches, lengths
        self.prompt_len = ids.shape[1]
        read = torch.as_tensor(caches[0].seq_len if caches else 0)
        self.read = read.to(ids.device).expand(len(ids))
        if not bool((self.read < lengths).all()):
            raise ValueError(
                "lengths must be greater than the number of tokens in the "
                f"cache, {read.tolist()}; got {lengths.tolist()}"
            )

    def __call__(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        """Read what is new of ``(B, L + N)``; return logits ``(B, V)``."""
        new = ids.shape[1] - self.prompt_len
        lengths: Tensor | None = self.lengths
        if not self.caches:
            ids = close_gap(ids, self.lengths, self.prompt_len)
            lengths = self.lengths + new
        elif new:
            ids, lengths = ids[:, -1:].contiguous(), None
        else:
            lengths = self.lengths - self.read
            index = torch.arange(int(lengths.max()), device=ids.device)
            index = (self.read[:, None] + index).clamp(max=ids.shape[1] - 1)
            ids = ids.gather(1, index)
        return self.model(
            ids, lengths=lengths, caches=self.caches, logits_to_keep=1
        )[:, -1]
