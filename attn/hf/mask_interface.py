"""Make masks for transformers' layers, and return them for inspection."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attn.hf.mask_functions import as_mask
from attn.masks import Mask, padding


class MaskSpec(NamedTuple):
    """A mask that needs no tensor, on its way to the layers."""

    mask: Mask
    q_offset: int  # of the first query, counted from the first key


def make_mask(
    *, always_spec: bool = False, **kwargs: Any
) -> Tensor | MaskSpec:
    """Return the mask of one kind of layer, made once for all of them.

    Args:
        always_spec: include padding in the spec.
        kwargs: the arguments of ``sdpa_mask`` of transformers.

    Returns:
        A ``MaskSpec`` if possible, otherwise bool ``(B, 1, L, S)``.
    """
    from transformers import masking_utils

    q_offset, kv_offset = kwargs.get("q_offset", 0), kwargs.get("kv_offset", 0)
    tokens, kv_len = kwargs.get("attention_mask"), kwargs["kv_length"]
    if always_spec:
        mask = as_mask(kwargs["mask_function"])
        real = masking_utils.prepare_padding_mask(tokens, kv_len, kv_offset)
        if real is not None:
            mask = mask & padding(real.bool())
        return MaskSpec(mask.shift(kv=kv_offset), int(q_offset))
    if isinstance(q_offset, int) and not kwargs.get("use_vmap"):
        mask = as_mask(kwargs["mask_function"])
        # Shifting queries and keys alike does not change a relative mask.
        if mask.is_relative and _all_real(tokens, kv_len + kv_offset):
            return MaskSpec(mask, q_offset - kv_offset)
    kwargs["allow_is_causal_skip"] = False
    kwargs["allow_is_bidirectional_skip"] = False
    mask_tensor = masking_utils.sdpa_mask(**kwargs)
    assert mask_tensor is not None
    return mask_tensor


def _all_real(attention_mask: Tensor | None, end: int) -> bool:
    if attention_mask is None:
        return True
    if torch.compiler.is_compiling():
        return False  # a graph must not depend on the values of a tensor
    # Keys past the mask's end are the empty part of a cache.
    return attention_mask.shape[-1] >= end and bool(attention_mask.all())


def layer_masks(
    config: Any, q_len: int, attention_mask: Tensor | None = None
) -> dict[str, Tensor]:
    """Return the masks that a model's layers use, for inspection.

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
    from transformers import AttentionMaskInterface, masking_utils

    config = copy.deepcopy(config)
    config._attn_implementation = "attn-layer-masks"
    AttentionMaskInterface.register("attn-layer-masks", make_mask)
    batch = 1 if attention_mask is None else len(attention_mask)
    masks = masking_utils.create_masks_for_generate(
        config=config,
        inputs_embeds=torch.empty(batch, q_len, 0),
        attention_mask=attention_mask,
        past_key_values=None,
        position_ids=None,
    )
    if not isinstance(masks, dict):
        masks = {"full_attention": masks}
    for layer_type, mask in masks.items():
        if isinstance(mask, MaskSpec):
            mask = mask.mask.dense(q_len, q_offset=mask.q_offset)
        masks[layer_type] = mask[0, 0]
    return masks
