"""Replace the attention of one model of transformers, or leave it alone."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from torch import nn

from attn import api
from attn.backends import Registry
from attn.hf.registration import name_for, register, registered, unregister

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel


def attach(
    model: PreTrainedModel,
    impl: str = "auto",
    *,
    registry: Registry = api.registry,
) -> PreTrainedModel:
    """Replace the attention of a model of transformers.

    ``model.set_attn_implementation("sdpa")`` restores it. The model gets its
    own copy of its configuration, so that another model made from the same
    one keeps its attention. Copies of the model compute as it does.
    ``save_pretrained`` does not store the implementation, and a pickle only
    its name: attach again in another process.

    A call's ``attention_mask`` of four axes is taken as it is, as by
    transformers: one of zeros makes a decoder bidirectional. With
    ``output_attentions=True`` each layer computes its weights a second time,
    ``(B, H, L, S)``. ``cu_seq_lens_q`` and the other keywords of
    FlashAttention keep packed sequences apart.

    Args:
        model: loaded, or made from a config.
        impl: one of ``attn.api.implementations()``, or ``"auto"``.
        registry: of the implementations; the model keeps it.

    Returns:
        The model itself.

    Raises:
        TypeError: the model is not one of transformers, or ``impl`` no name.
        ValueError: a part of the model computes attention inline; the part
            is named. Or there is no such implementation.

    Source: transformers ``PreTrainedModel.set_attn_implementation``.
    """
    import transformers

    # Compiled models and adapters pass it on to the one that they wrap.
    if not hasattr(model, "set_attn_implementation"):
        raise TypeError(
            f"model must be one of transformers; got {type(model).__name__}"
        )
    if not isinstance(impl, str):
        raise TypeError(
            f"impl must be a name; got {impl!r}. Register a function by "
            "attn.hf.register(name, function, mask=…), then "
            "model.set_attn_implementation(name)"
        )
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
    name = name_for(impl, registry)
    is_new = name not in registered
    register(name, impl, registry=registry)
    originals = _copy_configs(model)
    try:
        model.set_attn_implementation(name)
    except BaseException:
        for part, attribute, config in originals:
            setattr(part, attribute, config)
        if is_new:
            unregister(name)
        raise
    return model


def _copy_configs(
    model: PreTrainedModel,
) -> list[tuple[nn.Module, str, PreTrainedConfig]]:
    """Give the model's parts copies of their configurations.

    Returned are the originals, and where they were.
    """
    import transformers

    memo: dict[int, Any] = {}  # what was one object stays one
    originals = []
    for part in model.modules():
        for name, x in list(vars(part).items()):
            if isinstance(x, transformers.PreTrainedConfig):
                originals.append((part, name, x))
                setattr(part, name, copy.deepcopy(x, memo))
    return originals
