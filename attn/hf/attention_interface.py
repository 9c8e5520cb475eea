"""Compute the attention of a model of transformers.

``attn_forward`` has the signature of transformers' attention functions and
calls ``attn.attention``. It drops no mask and no keyword silently.
"""

from __future__ import annotations

import functools
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from attn import api, tracing
from attn.backends import Registry
from attn.backends.mask_formats import MaskSpec
from attn.functional import attention_weights
from attn.hf.call_checks import check_causality, eager_of, extra_keywords
from attn.hf.packing import packed_mask, warn_of_leaks
from attn.masks import Mask
from attn.masks.combine import combine_masks

_AS_IT_IS: AbstractContextManager[Any] = nullcontext()


def attn_forward(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | MaskSpec | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    sinks: Tensor | None = None,
    position_bias: Tensor | None = None,
    cu_seq_lens_q: Tensor | None = None,
    cu_seq_lens_k: Tensor | None = None,
    max_length_q: int | None = None,
    max_length_k: int | None = None,
    indices: Tensor | None = None,
    output_attentions: bool | None = False,
    *,
    impl: str,
    registry: Registry,
    **kwargs: Any,
) -> tuple[Tensor, Tensor | None]:
    """Compute attention, and the weights on request.

    Args:
        module, query, key, value, attention_mask: as transformers passes
            them; query is ``(B, H, L, D)``.
        scaling, dropout, softcap, s_aux, sinks, position_bias: ``scale``,
            ``dropout_p``, ``softcap``, ``sinks`` and a bias of the contract.
        cu_seq_lens_q, cu_seq_lens_k: borders of the sequences packed into
            one row, as FlashAttention takes them; a sequence does not attend
            to another. The lengths ``max_length_q`` and ``max_length_k``
            follow from them.
        indices: the keys that a sparse model's indexer chose for each query,
            ``(B, L, K)``; a query attends to those that its mask allows.
        output_attentions: compute the weights too, in a second pass, which
            needs memory for ``(B, H, L, S)``.
        impl, registry: as in ``attn.attention``.
        kwargs: keywords that the implementation declares.

    Returns:
        ``(B, L, H, Dv)``, and the weights without dropout, ``(B, H, L, S)``,
        or None.
    """
    check_causality(module, query, attention_mask, kwargs.get("is_causal"))
    context = _AS_IT_IS
    if tracing.is_autocast(query.device):
        query, key, value, context = _cast(query, key, value)
    extra = extra_keywords(module, impl, registry, kwargs)
    mask: Any
    mask, q_offset = attention_mask, None
    if isinstance(attention_mask, MaskSpec):
        mask, q_offset = attention_mask.mask, attention_mask.q_offset
    packed = packed_mask(module, query, key, cu_seq_lens_q, cu_seq_lens_k)
    if packed is None and isinstance(attention_mask, MaskSpec):
        positions = kwargs.get("position_ids")
        warn_of_leaks(module, positions, key.shape[-2])
    chosen = None if indices is None else _chosen(indices, query, key)
    others = [x for x in (packed, chosen, position_bias) if x is not None]
    if others:
        dense = partial(
            Mask.dense,
            q_len=query.shape[-2],
            kv_len=key.shape[-2],
            batch=query.shape[0],
            q_offset=q_offset or 0,
            device=query.device,
        )
        for other in others:
            mask = combine_masks(mask, other, dense)
    sinks = sinks if s_aux is None else s_aux
    options: dict[str, Any] = {
        "scale": scaling,
        # torch.jit.trace makes tensors of sizes.
        "enable_gqa": bool(query.shape[1] != key.shape[1]),
        "softcap": softcap,
        "sinks": None if sinks is None else _by_head(sinks, module, query),
        "q_offset": q_offset if isinstance(mask, Mask) else None,
    }
    with context:
        out = api.attention(
            query, key, value, mask, dropout_p=dropout, impl=impl,
            registry=registry, **options, **extra,
        )  # fmt: skip
    assert isinstance(out, Tensor)
    out = out.transpose(1, 2).contiguous()
    if not (output_attentions or is_captured()):
        return out, None
    if extra:
        raise ValueError(
            f"output_attentions must be False with {', '.join(extra)}, whose "
            "effect on the weights is unknown; got True"
        )
    if sinks is not None and _reports_no_sink(module):
        options["sinks"] = None
    with context:
        found = attention_weights(query, key, attn_mask=mask, **options)
    return out, found.weights.to(query.dtype)


def _cast(
    query: Tensor, key: Tensor, value: Tensor
) -> tuple[Tensor, Tensor, Tensor, AbstractContextManager[Any]]:
    """Cast under autocast, as PyTorch's function does; and turn it off.

    Rotated queries and keys are float32 there, and values are not. In the
    context softmax and sums stay in float32.
    """
    kind = query.device.type
    lower = torch.get_autocast_dtype(kind)
    query, key, value = (
        x if x.dtype == torch.float64 else x.to(lower)
        for x in (query, key, value)
    )
    return query, key, value, torch.autocast(kind, enabled=False)


def _by_head(sinks: Tensor, module: nn.Module, query: Tensor) -> Tensor:
    """Return sinks as ``(H,)``; models give them further axes of 1."""
    heads = query.shape[1]
    if sinks.numel() != heads:
        raise ValueError(
            f"sinks must be one logit for each of {heads} query heads, the "
            f"same for every query; got shape {tuple(sinks.shape)} from "
            f"{type(module).__name__}"
        )
    return sinks.reshape(-1)


def _reports_no_sink(module: nn.Module) -> bool:
    """Return whether eager weights sum to 1 in spite of a sink.

    Granite's does so: the sink scales the output afterwards, by the lse.
    """
    code = getattr(eager_of(module), "__code__", None)
    return "logsumexp" in getattr(code, "co_names", ())


def _chosen(indices: Tensor, query: Tensor, key: Tensor) -> Tensor:
    """Return the mask of the keys that an indexer chose, ``(B, 1, L, S)``."""
    size = (query.shape[0], query.shape[-2])
    if tuple(indices.shape[:-1]) != size:
        raise ValueError(
            f"indices must be the keys of each query, {(*size, 'K')}; got "
            f"shape {tuple(indices.shape)}"
        )
    none = query.new_zeros((*size, key.shape[-2]), dtype=torch.bool)
    return none.scatter(-1, indices.long(), True).unsqueeze(1)


def is_captured() -> bool:
    """Return whether a model collects weights; few pass that on to here."""
    collected = _collector().get()
    if not collected:
        return False
    return any(kind.endswith("attentions") for kind in collected)


@functools.cache
def _collector() -> Any:
    from transformers.utils import output_capturing

    return output_capturing._active_collector
