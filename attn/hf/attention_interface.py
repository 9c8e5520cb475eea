"""Register attn's attention with transformers, in one line.

``register()`` puts a pair under one name: an attention function, and the
function that makes its masks. Without the second, transformers makes no mask
at all, and queries silently attend to padding and future tokens.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from attn import api
from attn.hf.mask_interface import MaskSpec, make_mask
from attn.masks import Mask
from attn.masks.combine import combine_masks

if TYPE_CHECKING:
    from transformers import PreTrainedModel

#: Keywords without effect: the mask includes them, or the model uses them.
_IGNORED = (
    "cache_position",
    "deterministic",
    "is_causal",
    "labels",
    "layer_idx",
    "logits_to_keep",
    "num_items_in_batch",
    "output_attentions",
    "output_hidden_states",
    "output_router_logits",
    "position_ids",
    "return_dict",
    "sliding_window",
    "use_cache",
)


def attach(
    model: PreTrainedModel, impl: str = "auto", name: str = "attn"
) -> PreTrainedModel:
    """Replace the attention of a model of transformers.

    ``model.set_attn_implementation("sdpa")`` restores it.

    Args:
        model: loaded, or made from a config.
        impl: the implementation, as in ``register``.
        name: under which it is registered; models with different ``impl``
            need different names.

    Returns:
        The model itself.

    Raises:
        ValueError: a part of the model computes attention inline; the part
            is named.

    Source: transformers ``PreTrainedModel.set_attn_implementation``.
    """
    import transformers

    for part in model.modules():
        if not isinstance(part, transformers.PreTrainedModel):
            continue
        if not type(part)._can_set_attn_implementation():
            raise ValueError(
                f"{type(part).__name__} of transformers "
                f"{transformers.__version__} computes attention inline, so "
                "it cannot be replaced. attn.hf.load(model) rebuilds Bloom "
                "and others with attn.nn"
            )
    register(name, impl)
    model.set_attn_implementation(name)
    return model


def register(name: str = "attn", impl: str = "auto") -> str:
    """Register attn's attention and masks with transformers.

    ``model.set_attn_implementation(attn.hf.register())`` then selects them,
    with caches, sliding and chunked layers, sinks, softcaps and biases.

    Args:
        name: for ``attn_implementation``. Registering it again replaces it,
            also for models that already use it.
        impl: one of ``attn.api.implementations()``, or ``"auto"``.

    Returns:
        The name.

    Raises:
        ValueError: there is no such implementation, or the name belongs to
            transformers or another library.

    Source: transformers ``AttentionInterface``, ``AttentionMaskInterface``.
    """
    from transformers import AttentionInterface, AttentionMaskInterface

    if impl != "auto" and impl not in api.implementations():
        raise ValueError(
            f"impl must be 'auto' or one of {list(api.implementations())}; "
            f"got {impl!r}"
        )
    existing: Any = AttentionInterface._global_mapping.get(name)
    function = getattr(existing, "func", existing)
    if name == "eager" or function not in (None, attn_forward):
        raise ValueError(
            "name must not belong to transformers or another library; got "
            f"{name!r}. Choose another"
        )
    AttentionInterface.register(name, partial(attn_forward, impl=impl))
    # FlexAttention makes its blocks from predicates, padding included.
    make = partial(make_mask, always_spec=impl == "flex")
    AttentionMaskInterface.register(name, make)
    return name


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
    *,
    impl: str,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Return ``(B, L, H, Dv)`` for ``(B, H, L, D)``, and no weights."""
    _check(module, query, attention_mask, kwargs)
    mask: Tensor | Mask | None
    mask, q_offset = (
        attention_mask
        if isinstance(attention_mask, MaskSpec)
        else (attention_mask, None)
    )
    if position_bias is not None:
        dense = partial(
            Mask.dense,
            q_len=query.shape[-2],
            kv_len=key.shape[-2],
            batch=query.shape[0],
            q_offset=q_offset or 0,
            device=query.device,
        )
        mask, q_offset = combine_masks(position_bias, mask, dense), None
    sinks = sinks if s_aux is None else s_aux
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


def _check(
    module: nn.Module,
    query: Tensor,
    mask: Tensor | MaskSpec | None,
    kwargs: dict[str, Any],
) -> None:
    """Raise for a keyword that would be ignored or contradicts the mask."""
    if kwargs.get("output_attentions"):
        raise ValueError(
            "output_attentions must be False, because attn never stores the "
            'weights; got True. Use attn_implementation="eager" to get them'
        )
    unexpected = sorted(
        name
        for name, value in kwargs.items()
        if value is not None and name not in _IGNORED
    )
    if unexpected:
        raise TypeError(
            "attn got an unexpected keyword argument from "
            f"{type(module).__name__}: {', '.join(unexpected)}. Use "
            'attn_implementation="eager" for this model'
        )
    is_causal = kwargs.get("is_causal")
    terms = mask.mask.terms if isinstance(mask, MaskSpec) else ()
    if is_causal is False and any(term.kind == "causal" for term in terms):
        raise ValueError(
            "is_causal must be True for a mask that was made causal; got "
            "False. Set model.config.is_causal = False instead, which changes "
            "the masks too"
        )
    if is_causal is None:
        is_causal = getattr(module, "is_causal", False)
    if mask is None and is_causal and query.shape[-2] > 1:
        raise ValueError(
            f"attention_mask must be given to {type(module).__name__}, which "
            "is causal; got None. If only the attention function was "
            "registered, attn.hf.register(name) registers both"
        )
