"""Make masks for transformers' layers, and return them for inspection."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from attn import tracing
from attn.backends.mask_formats import MaskSpec, convert
from attn.hf.mask_functions import as_mask
from attn.masks import Mask, causal, padding, window


def make_mask(
    *, always_spec: bool = False, **kwargs: Any
) -> Tensor | MaskSpec | None:
    """Return the mask of one kind of layer, made once for all of them.

    ``kwargs`` are those of ``sdpa_mask`` of transformers. The mask is a
    ``MaskSpec`` if possible, otherwise bool ``(B, 1, L, S)``; None where a
    single query may attend to all keys, as when a token is generated; always
    a ``MaskSpec``, which includes padding, with ``always_spec``.
    """
    q_offset, kv_offset = kwargs.get("q_offset", 0), kwargs.get("kv_offset", 0)
    tokens, kv_len = kwargs.get("attention_mask"), kwargs["kv_length"]
    mask = _mask(kwargs["mask_function"])
    sizes = {
        "q_len": kwargs["q_length"],
        "kv_len": kv_len,
        "batch": kwargs["batch_size"],
        "device": kwargs.get("device"),
    }
    if always_spec:
        from transformers import masking_utils

        real = masking_utils.prepare_padding_mask(tokens, kv_len, kv_offset)
        if real is not None:
            mask = mask & padding(real.bool())
        return MaskSpec(mask.shift(kv=kv_offset), int(q_offset), sizes)
    is_static = isinstance(q_offset, int) and not kwargs.get("use_vmap")
    # Shifting queries and keys alike does not change a relative mask.
    is_exact = is_static and mask.is_relative
    if is_exact and _all_real(tokens, kv_len + kv_offset):
        start = q_offset - kv_offset
        if _is_open(mask, start, sizes["q_len"], kv_len):
            return None
        return MaskSpec(mask, start, sizes)
    from transformers import masking_utils

    return _unskipped(masking_utils.sdpa_mask, **kwargs)


def mask_maker(mask_format: str | Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that makes masks in a format of ``register``."""
    from transformers import masking_utils

    if callable(mask_format):
        return partial(_unskipped, mask_format)
    make = partial(_unskipped, masking_utils.sdpa_mask)
    if mask_format in ("block", "spec"):
        make = partial(make_mask, always_spec=True)

    def made(dtype: torch.dtype = torch.float32, **kwargs: Any) -> Any:
        return convert(make(dtype=dtype, **kwargs), mask_format, dtype)

    return made


def _unskipped(make: Callable[..., Any], **kwargs: Any) -> Any:
    """Make a mask even where PyTorch's flag could replace it."""
    kwargs["allow_is_causal_skip"] = False
    kwargs["allow_is_bidirectional_skip"] = False
    return make(**kwargs)


def _mask(function: Callable[..., Any]) -> Mask:
    """Convert a mask function; compiled code cannot read its closure."""
    if not torch.compiler.is_compiling():
        return as_mask(function)
    from transformers import masking_utils

    if function is masking_utils.causal_mask_function:
        return causal()
    if function is masking_utils.bidirectional_mask_function:
        return window()
    return Mask(function, "a function")


def _is_open(mask: Mask, start: int, q_len: int, kv_len: int) -> bool:
    """Return whether a single query, at a position, may attend to all keys."""
    left, right = mask.bounds
    return (
        not tracing.in_graph()  # it must not depend on a length
        and q_len == 1
        and (left is None or left >= start)
        and (right is None or start + right >= kv_len - 1)
    )


def _all_real(attention_mask: Tensor | None, end: int) -> bool:
    if attention_mask is None:
        return True
    if not tracing.has_values(attention_mask):
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

    Example:
        >>> from transformers import Gemma2Config
        >>> config = Gemma2Config(num_hidden_layers=2, sliding_window=2)
        >>> masks = attn.hf.layer_masks(config, q_len=3)
        >>> masks["sliding_attention"].long()
        tensor([[1, 0, 0],
                [1, 1, 0],
                [0, 1, 1]])

    Source: transformers ``create_masks_for_generate``.
    """
    from transformers import AttentionMaskInterface, masking_utils

    config = copy.deepcopy(config)
    config._attn_implementation = "attn-layer-masks"
    make = partial(make_mask, always_spec=True)
    AttentionMaskInterface.register("attn-layer-masks", make)
    batch = 1 if attention_mask is None else len(attention_mask)
    masks = masking_utils.create_masks_for_generate(
        config=config,
        inputs_embeds=torch.empty(batch, q_len, 0),
        attention_mask=attention_mask,
        past_key_values=None,
        position_ids=None,
    )
    if not isinstance(masks, dict):
        masks = {_only_kind(config): masks}
    return {kind: mask.dense()[0, 0] for kind, mask in masks.items()}


def _only_kind(config: Any) -> str:
    """Return the kind of all layers of a model that has one."""
    kinds = {
        "sliding_attention": "sliding_window",
        "chunked_attention": "attention_chunk_size",
    }
    for kind, field in kinds.items():
        if getattr(config.get_text_config(), field, None) is not None:
            return kind
    return "full_attention"
