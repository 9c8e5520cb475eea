"""The arguments of ``attention`` in a module: its own and a call's."""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import Tensor

from attn.api import attention
from attn.api import registry as default_registry
from attn.functional.inputs import AttentionOptions, validate
from attn.masks import Mask, padding
from attn.masks.combine import combine_masks, key_padding
from attn.nn import validation
from attn.nn.position_ids import PositionIds
from attn.positions import alibi_bias


def call_options(
    module: Any,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    ids: PositionIds,
    is_causal: bool | None,
    attn_mask: Tensor | Mask | None = None,
    key_padding_mask: Tensor | None = None,
    real: Tensor | None = None,
) -> AttentionOptions:
    """Return the keywords of ``attention`` for one call.

    The caller's mask, padding, ALiBi and ``real``, which is True for a key
    that a cache has written, ``(B, S)``, become one mask.
    """
    validation.attn_mask(attn_mask)
    others: list[Tensor | Mask] = []
    if real is not None:
        others.append(padding(real))
    if key_padding_mask is not None:
        shape = (k.shape[0], k.shape[2])
        others.append(key_padding(key_padding_mask, shape, q.dtype))
    if module.alibi:
        bias = alibi_bias(module.num_heads, ids.of_queries(), ids.of_keys())
        others.append(bias if bias.dim() == 4 else bias[None])
    if others:
        validated = partial(
            validate, q, k, v, enable_gqa=True, q_offset=ids.q_offset
        )
        validated(attn_mask=attn_mask)
        for other in others:
            attn_mask = combine_masks(
                attn_mask, other, lambda m: validated(attn_mask=m).allowed()
            )
    return {
        "attn_mask": attn_mask,
        "is_causal": module.is_causal if is_causal is None else is_causal,
        "scale": module.scale,
        "enable_gqa": module.num_kv_heads != module.num_heads,
        "softcap": module.softcap,
        "sinks": module.sinks,
        "window": module.window,
        "q_offset": ids.q_offset,
        "dropout_p": module.dropout if module.training else 0.0,
    }


def attend(
    module: Any, q: Tensor, k: Tensor, v: Tensor, options: AttentionOptions
) -> Tensor:
    """Return the output of each head, ``(B, H, L, Dv)``."""
    registry = module.registry or default_registry
    heads = attention(q, k, v, **options, impl=module.impl, registry=registry)
    assert isinstance(heads, Tensor)
    return heads
