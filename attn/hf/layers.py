"""Which masks a model of transformers has: one for each kind of layer."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor

from attn.hf.bridge import Rule, register

__all__ = ["layer_masks"]


def layer_masks(
    config: Any,
    q_len: int,
    attention_mask: Tensor | None = None,
) -> dict[str, Tensor]:
    """The masks that a model's layers use, to be looked at.

    ``attn.plot.masks_grid(layer_masks(model.config, 12))`` draws them.

    Args:
        config: of a decoder of transformers.
        q_len: ``L``; the prompt's length.
        attention_mask: which tokens are real, ``(B, L)``; all when None. The
            masks are those of the first row.

    Returns:
        For each kind of layer (``"full_attention"``,
        ``"sliding_attention"``, …) bool ``(L, L)``, True = may attend.

    Source: transformers ``create_masks_for_generate``.
    """
    from transformers.masking_utils import create_masks_for_generate

    config = copy.deepcopy(config)
    config._attn_implementation = register()
    rows = 1 if attention_mask is None else len(attention_mask)
    made = create_masks_for_generate(
        config=config,
        inputs_embeds=torch.empty(rows, q_len, 0),
        attention_mask=attention_mask,
        past_key_values=None,
        position_ids=None,
    )
    kinds = made if isinstance(made, dict) else {"full_attention": made}
    return {kind: _looked_at(mask, q_len) for kind, mask in kinds.items()}


def _looked_at(mask: Tensor | Rule, q_len: int) -> Tensor:
    if isinstance(mask, Rule):
        mask = mask.mask.dense(q_len, q_offset=mask.q_offset)
    return mask[0, 0]
