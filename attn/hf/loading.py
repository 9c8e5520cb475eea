"""From a model of transformers, or its files, to a model of ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from attn.hf.config import Config
from attn.hf.families import FAMILIES
from attn.hf.reading import Family
from attn.hf.weights import fill
from attn.nn import Transformer


def load(
    model_or_weights: nn.Module | Mapping[str, Tensor],
    config: Any = None,
) -> Any:
    """Make our model of a model of transformers, with copies of its weights.

    Args:
        model_or_weights: a model of transformers, or its state dict.
        config: its configuration, or the mapping in ``config.json`` as
            transformers 5 writes it; the model's own when None.

    Returns:
        ``attn.nn.Transformer`` (``attn.hf.Bert`` for BERT) in evaluation
        mode, dropout 0, with a head if the weights have one; float32 (or
        float64, for such weights).

    Raises:
        NotImplementedError: the configuration asks for something that ours
            does not have, or does not know; the field is named.
        ValueError: a weight is missing, unexpected, or does not fit; it is
            named.

    Source: ``modeling_<family>.py`` of transformers 5.23.
    """
    is_model = isinstance(model_or_weights, nn.Module)
    state: Mapping[str, Tensor]
    if isinstance(model_or_weights, nn.Module):
        state = model_or_weights.state_dict()
        config = config or model_or_weights.config
    else:
        state = model_or_weights
    if config is None:
        raise ValueError("config is None: a state dict needs one")
    c = Config(config)
    if c.family not in FAMILIES:
        raise NotImplementedError(
            f"config.model_type is {c.family!r}: attn.hf knows "
            f"{', '.join(FAMILIES)}"
        )
    family = FAMILIES[c.family]
    arguments = family.arguments(c)
    c.finish()

    has_prefix = any(name.startswith(family.prefix) for name in state)
    parts = {part: name in state for part, name in family.parts.items()}
    # A tied head need not be stored; a language model's names say it.
    if family.make is Transformer:
        parts["head"] |= has_prefix or (arguments["tied"] and not is_model)
    model = _build(family, {**arguments, **parts}, state)
    body = {name.removeprefix(family.prefix): x for name, x in state.items()}
    tied = parts["head"] and arguments["tied"]
    fill(
        model,
        body,
        family.table,
        num_heads=arguments["num_heads"],
        ignore=family.buffers,
        tied=family.tied if tied else None,
    )
    return model.eval()


def _build(
    family: Family, arguments: dict[str, Any], state: Mapping[str, Tensor]
) -> nn.Module:
    """Our model, its weights not yet set; the global RNG stays as it is."""
    each_layer = arguments.pop("each_layer")
    some = next(iter(state.values()))
    wide = any(x.dtype == torch.float64 for x in state.values())
    with torch.device("meta"):
        model = family.make(**arguments)
    model.to(torch.float64 if wide else torch.float32)
    model.to_empty(device=some.device)
    body: Any = getattr(model, "body", model)
    for name, values in each_layer.items():
        for block, value in zip(body.blocks, values, strict=True):
            setattr(block.attention, name, value)
    return model
