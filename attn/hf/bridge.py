"""Our attention inside the models of transformers, in one line.

``register()`` puts a pair under one name: an attention function, and the
function that makes its masks. Without the second, transformers makes no mask
at all, and padding and the future are seen without a word.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from attn import api
from attn.hf.rules import as_mask
from attn.masks import Mask, padding
from attn.masks.combine import combine_masks

__all__ = ["register"]

#: What models hand to every attention function, and what ours need not know:
#: the mask says it already, or it is about what the model returns.
_SAID_BY_THE_MASK = ("sliding_window", "is_causal", "position_ids")
_NOT_OURS = (
    "cache_position",
    "deterministic",
    "labels",
    "layer_idx",
    "logits_to_keep",
    "num_items_in_batch",
    "output_hidden_states",
    "output_router_logits",
    "return_dict",
    "use_cache",
)


class Rule(NamedTuple):
    """A mask that no tensor is needed for, on its way to the layers."""

    mask: Mask
    q_offset: int  # of the first query, counted from the first key


def register(name: str = "attn", impl: str = "auto") -> str:
    """Teach transformers our attention, under a name.

    ``model.set_attn_implementation(attn.hf.register())`` is all: with its
    masks, caches, sliding and chunked layers, sinks, softcaps and biases.

    Args:
        name: what ``attn_implementation`` calls it. Registering it again
            replaces it, for models that have it already too.
        impl: who computes, one of ``attn.api.implementations()``, or
            ``"auto"``.

    Returns:
        The name.

    Raises:
        ValueError: there is no such implementation, or the name is one of
            transformers' own.

    Source: transformers ``AttentionInterface``, ``AttentionMaskInterface``.
    """
    from transformers import AttentionInterface, AttentionMaskInterface

    if impl != "auto" and impl not in api.implementations():
        raise ValueError(
            f"impl is {impl!r}: it needs 'auto' or one of "
            f"{list(api.implementations())}"
        )
    taken = AttentionInterface._global_mapping.get(name)
    if name == "eager" or not (taken is None or hasattr(taken, "attn_impl")):
        raise ValueError(
            f"name is {name!r}: it is taken by transformers, or by somebody "
            "else's attention; choose another"
        )
    AttentionInterface.register(name, _attention(impl))
    # FlexAttention takes rules alone, padding and all, and makes blocks.
    form = make_rule if impl == "flex" else make_mask
    AttentionMaskInterface.register(name, form)
    return name


def _attention(impl: str) -> Callable[..., tuple[Tensor, None]]:
    def attn_forward(
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | Rule | None,
        scaling: float | None = None,
        dropout: float = 0.0,
        softcap: float | None = None,
        s_aux: Tensor | None = None,
        position_bias: Tensor | None = None,
        **said: Any,
    ) -> tuple[Tensor, None]:
        """``(B, H, L, D)`` in, ``(B, L, H, Dv)`` out; no weights."""
        _refuse_unknown(module, said)
        mask, q_offset = _masked(module, query, attention_mask, said)
        if position_bias is not None:
            mask = combine_masks(
                position_bias,
                mask,
                partial(
                    Mask.dense,
                    q_len=query.shape[-2],
                    kv_len=key.shape[-2],
                    batch=query.shape[0],
                    q_offset=q_offset or 0,
                    device=query.device,
                ),
            )
            q_offset = None
        sinks = said.get("sinks") if s_aux is None else s_aux
        out = api.attention(
            query,
            key,
            value,
            mask,
            dropout_p=dropout,
            scale=scaling,
            enable_gqa=query.shape[1] != key.shape[1],
            softcap=softcap,
            sinks=None if sinks is None else sinks.reshape(-1),
            q_offset=q_offset,
            impl=impl,
        )
        assert isinstance(out, Tensor)
        return out.transpose(1, 2).contiguous(), None

    attn_forward.attn_impl = impl  # type: ignore[attr-defined]
    return attn_forward


def _refuse_unknown(module: nn.Module, said: dict[str, Any]) -> None:
    """A keyword that does something must not be swallowed."""
    if said.get("output_attentions"):
        raise ValueError(
            "output_attentions is True: this attention never makes the "
            'weights; ask the model with attn_implementation="eager"'
        )
    quiet = (*_SAID_BY_THE_MASK, *_NOT_OURS, "sinks", "output_attentions")
    unknown = sorted(
        key
        for key, value in said.items()
        if value is not None and key not in quiet
    )
    if unknown:
        raise TypeError(
            f"{type(module).__name__} gives its attention "
            f"{', '.join(unknown)}: attn does not know what that means, and "
            'ignores nothing. Use attn_implementation="eager" for this model'
        )


def _masked(
    module: nn.Module,
    query: Tensor,
    given: Tensor | Rule | None,
    said: dict[str, Any],
) -> tuple[Tensor | Mask | None, int | None]:
    if isinstance(given, Rule):
        causal = any(term.kind == "causal" for term in given.mask.terms)
        if causal and said.get("is_causal") is False:
            raise ValueError(
                "is_causal is False and the mask is causal: it has been made "
                "already. Set model.config.is_causal = False instead, and "
                "masks are made for it"
            )
        return given.mask, given.q_offset
    if given is not None:
        return given, None
    is_causal = said.get("is_causal")
    if is_causal is None:
        is_causal = getattr(module, "is_causal", False)
    if is_causal and query.shape[-2] > 1:
        raise ValueError(
            f"{type(module).__name__} is causal and no mask arrived: it "
            "would see the future. Was only half of the pair registered? "
            "attn.hf.register(name) registers both"
        )
    return None, None


def make_mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int | Tensor = 0,
    kv_offset: int = 0,
    mask_function: Callable[..., Any] | None = None,
    attention_mask: Tensor | None = None,
    use_vmap: bool = False,
    device: torch.device | str = "cpu",
    **_: Any,
) -> Tensor | Rule:
    """What a layer's mask is: a rule where one says it, else booleans.

    It is made once for all layers of a kind, as transformers does.

    Args:
        batch_size, q_length, kv_length: of the scores.
        q_offset, kv_offset: positions of the first query and key.
        mask_function: the layer's rule.
        attention_mask: which tokens are real, ``(B, tokens so far)``.
        use_vmap: the rule takes one pair at a time.
        device: where a tensor is made.

    Returns:
        ``Rule``, or bool ``(B, 1, L, S)``.
    """
    from transformers import masking_utils

    function = mask_function or masking_utils.causal_mask_function
    if not use_vmap and isinstance(q_offset, int):
        mask = as_mask(function)
        # Of these a shift of both positions changes nothing.
        if mask.is_relative and _all_real(
            attention_mask, kv_length + kv_offset
        ):
            return Rule(mask, q_offset - kv_offset)
    made: Any = masking_utils.sdpa_mask
    return made(
        batch_size=batch_size,
        q_length=q_length,
        kv_length=kv_length,
        q_offset=q_offset,
        kv_offset=kv_offset,
        mask_function=function,
        attention_mask=attention_mask,
        allow_is_causal_skip=False,
        allow_is_bidirectional_skip=False,
        use_vmap=use_vmap,
        device=device,
    )


def make_rule(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int | Tensor = 0,
    kv_offset: int = 0,
    mask_function: Callable[..., Any] | None = None,
    attention_mask: Tensor | None = None,
    **_: Any,
) -> Rule:
    """The same as a rule in any case; arguments as in ``make_mask``."""
    from transformers import masking_utils

    mask = as_mask(mask_function or masking_utils.causal_mask_function)
    real = masking_utils.prepare_padding_mask(
        attention_mask, kv_length, kv_offset
    )
    if real is not None:
        mask = mask & padding(real.bool())
    return Rule(mask.shift(kv=kv_offset), int(q_offset))


def _all_real(attention_mask: Tensor | None, end: int) -> bool:
    if attention_mask is None:
        return True
    if torch.compiler.is_compiling():
        return False  # a graph must not depend on what is in a tensor
    # What lies behind the mask is no token: a cache's empty end.
    return attention_mask.shape[-1] >= end and bool(attention_mask.all())
