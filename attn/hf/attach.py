"""One model, switched to our attention, or the reason why it cannot be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attn.hf.bridge import register

if TYPE_CHECKING:
    from transformers import PreTrainedModel

__all__ = ["attach"]


def attach(
    model: PreTrainedModel, impl: str = "auto", name: str = "attn"
) -> PreTrainedModel:
    """Let a model of transformers compute its attention with ours.

    ``model.set_attn_implementation("sdpa")`` takes it back.

    Args:
        model: loaded, or made from a config.
        impl: who computes, as in ``register``.
        name: under which it is registered; models with different ``impl``
            need different names.

    Returns:
        The model itself.

    Raises:
        ValueError: its family does not ask for an attention function; which
            part, and what else there is.

    Source: transformers ``PreTrainedModel.set_attn_implementation``.
    """
    import transformers

    for part in model.modules():
        if not isinstance(part, transformers.PreTrainedModel):
            continue
        if not type(part)._can_set_attn_implementation():
            raise ValueError(
                f"{type(part).__name__} of transformers "
                f"{transformers.__version__} computes attention in its own "
                "code and asks nobody: no attention function can be put into "
                "it. attn.hf.load(model) rebuilds Bloom and others with ours"
            )
    register(name, impl)
    model.set_attn_implementation(name)
    return model
