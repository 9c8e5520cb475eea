"""Texts packed end to end into the row of a model, none of which sees another.

Layers that attend get a mask, and layers with a state the borders.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attn import arguments
from attn.linear.packed import check_packed
from attn.masks import Mask, documents
from attn.masks.combine import combine_masks
from attn.nn.state_layer import StateLayer

IGNORED = -100  # the label of a token that is not predicted


class PackedTexts(NamedTuple):
    """Keep several texts apart, in each kind of layer."""

    cu_seqlens: Tensor  # (N + 1,)
    positions: Tensor  # of each token within its text, (L,)
    attn_mask: Tensor | Mask | None  # that of the call, and of the texts

    def options(self, layer: Any) -> dict[str, Any]:
        """Return the keywords that keep texts apart in a layer."""
        if isinstance(layer, StateLayer):
            return {"cu_seqlens": self.cu_seqlens}
        return {"attn_mask": self.attn_mask}


def packed_texts(
    cu_seqlens: Tensor,
    x: Tensor,
    attn_mask: Tensor | Mask | None,
    **absent: Any,
) -> PackedTexts:
    """Return where the texts of a row are; ``absent`` must be None."""
    why = "with cu_seqlens: packed texts have neither padding nor a cache"
    arguments.absent(why, **absent)
    length = x.shape[1]
    check_packed(cu_seqlens, x.shape[0], length)
    starts = cu_seqlens.to(x.device, torch.int64)
    place = torch.arange(length, device=x.device)
    text = torch.searchsorted(starts[1:], place, right=True)  # of each token
    dense = partial(Mask.dense, q_len=length, kv_len=length, device=x.device)
    mask = combine_masks(attn_mask, documents(text), dense)
    return PackedTexts(cu_seqlens, place - starts[text], mask)


def next_tokens(
    ids: Tensor, labels: Tensor | None, cu_seqlens: Tensor | None
) -> Tensor:
    """Return what each token but the last is to predict, ``(B, L - 1)``."""
    if labels is None:
        labels = ids
    is_tensor = isinstance(labels, Tensor)
    if not is_tensor or labels.is_floating_point():
        got = labels.dtype if is_tensor else type(labels).__name__
        raise TypeError(
            f"labels must be token ids, or {IGNORED} for a token that is not "
            f"predicted; got {got}"
        )
    if labels.shape != ids.shape:
        raise ValueError(
            f"labels must have the shape of ids, {tuple(ids.shape)}: they are "
            f"shifted here; got {tuple(labels.shape)}"
        )
    labels = labels.long()
    if cu_seqlens is not None:  # no token predicts the start of another text
        ends = cu_seqlens.to(labels.device, torch.int64)
        first = labels.new_zeros(labels.shape[1] + 1, dtype=torch.bool)
        first = first.index_fill(0, ends, True)[:-1]
        labels = labels.masked_fill(first, IGNORED)
    return labels[:, 1:]
