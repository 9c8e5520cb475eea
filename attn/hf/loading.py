"""Convert a model of transformers, or its files, to a model of attn.nn.

The families' tables only rename and split weights; their sources are
``modeling_<family>.py`` of transformers 5.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from attn.hf import bert, gpts, llamas
from attn.hf.config_fields import INSTEAD, Config, Family
from attn.hf.weights import copy_weights
from attn.nn import Transformer

#: The supported families, by ``model_type``.
FAMILIES = {**gpts.FAMILIES, **llamas.FAMILIES, **bert.FAMILIES}


def load(
    model_or_weights: nn.Module | Mapping[str, Tensor], config: Any = None
) -> Any:
    """Convert a model of transformers to attn.nn, copying its weights.

    Projections that a family packs into one matrix, as GPT-2 does, become
    ``q_proj``, ``k_proj`` and ``v_proj``; the result's state dict also loads
    into a model with ``packed=True``, such as that of ``gpt2_small()``.

    Args:
        model_or_weights: a model of transformers, or its state dict.
        config: its configuration, or the mapping in ``config.json`` as
            transformers 5 writes it; the model's own when None.

    Returns:
        ``attn.nn.Transformer`` (``attn.hf.Bert`` for BERT) in evaluation
        mode, dropout 0, with a head if the weights have one; float64 if a
        weight is, otherwise float32.

    Raises:
        TypeError: neither a model of transformers nor a state dict.
        NotImplementedError: the family, or a field of the configuration, is
            not supported; it is named.
        ValueError: a weight is missing, unexpected, or of another shape; it
            is named.

    Example:
        >>> from transformers import LlamaConfig, LlamaForCausalLM
        >>> config = LlamaConfig(
        ...     vocab_size=50, hidden_size=32, num_hidden_layers=2,
        ...     num_attention_heads=4, num_key_value_heads=2,
        ... )
        >>> theirs = LlamaForCausalLM(config).eval()
        >>> ours = attn.hf.load(theirs)  # a Transformer of attn.nn
        >>> ids = torch.tensor([[2, 7, 11]])
        >>> torch.allclose(ours(ids), theirs(ids).logits, atol=1e-5)
        True

    Source: ``modeling_<family>.py`` of transformers 5.23.
    """
    is_model = isinstance(model_or_weights, nn.Module)
    state: Any = model_or_weights
    if is_model and config is None:
        config = getattr(state, "config", None)
    if not (isinstance(state, Mapping) or (is_model and config is not None)):
        raise TypeError(
            "model_or_weights must be a model of transformers, or a state "
            f"dict; got {type(state).__name__}"
        )
    if is_model:
        state = state.state_dict()
    if config is None:
        raise ValueError("config must be given with a state dict; got None")
    c = Config(config)
    if c.family not in FAMILIES:
        raise NotImplementedError(
            f"config.model_type must be one of {', '.join(FAMILIES)}; got "
            f"{c.family!r}. {INSTEAD}"
        )
    family = FAMILIES[c.family]
    fields = family.fields(c)
    weights = (x for k, x in state.items() if not k.endswith(family.buffers))
    if all(map(_is_plain, weights)):
        c.ignore("quantization_config")  # of a GGUF file, read as floats
    c.refuse_unread()

    has_prefix = any(name.startswith(family.prefix) for name in state)
    parts = {part: name in state for part, name in family.parts.items()}
    # A tied head need not be stored; the prefix shows a language model.
    if family.make is Transformer:
        parts["head"] |= has_prefix or (fields["tied"] and not is_model)
    state = {name.removeprefix(family.prefix): x for name, x in state.items()}
    fields["tied"] &= parts["head"]
    if fields["tied"] and family.embedding in state:
        rows = state[family.embedding]
        head = state.setdefault(family.head, rows)
        if head.data_ptr() != rows.data_ptr() and not torch.equal(head, rows):
            raise ValueError(
                f"{family.head} must equal {family.embedding}, because the "
                "configuration ties them; got different values"
            )
    model = _build(family, {**fields, **parts}, state)
    copy_weights(
        model, state, family.table, fields["num_heads"], family.buffers
    )
    return model.eval()


def _is_plain(x: Tensor) -> bool:
    """Return whether a weight's elements are what they say."""
    is_wide = x.is_floating_point() and x.element_size() > 1
    return is_wide and type(x) in (Tensor, nn.Parameter)


class _Undrawn(TorchFunctionMode):
    """Leave weights unset, which torch.nn.init would draw.

    On the meta device nothing is drawn, either; but there PyTorch imports its
    compiler, for two seconds.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if getattr(func, "__module__", "") == "torch.nn.init":
            return args[0] if args else kwargs["tensor"]
        return func(*args, **(kwargs or {}))


def _build(
    family: Family, fields: dict[str, Any], state: Mapping[str, Tensor]
) -> nn.Module:
    """Build the model with unset weights, without drawing random numbers."""
    is_double = any(x.dtype == torch.float64 for x in state.values())
    with next(iter(state.values())).device, _Undrawn():
        model = family.make.from_config(fields)
    model.to(torch.float64 if is_double else torch.float32)
    body: Any = getattr(model, "body", model)
    if fields["tied"]:
        head: Any = getattr(model, "decoder", None) or model.head
        head.weight = body.token_embedding.weight
    return model
