"""The query, key and value projections, packed in one matrix or not.

``torch.nn.MultiheadAttention`` keeps ``in_proj_weight``, or
``q_proj_weight`` and two more where the sizes differ; PyTorch's tutorial
keeps ``packed_proj.weight``. The rows are always queries, keys, values.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def project(
    module: Any, query: Tensor, key: Tensor, value: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return ``(B, H, L, D)``, ``(B, Hkv, S, D)``, ``(B, Hkv, S, Dv)``."""
    inputs = [x[None] if x.dim() == 2 else x for x in (query, key, value)]
    if not module.packed:
        layers = (module.q_proj, module.k_proj, module.v_proj)
        heads = [f(x) for f, x in zip(layers, inputs, strict=True)]
    elif query is key is value:
        heads = module.packed_proj(inputs[0]).split(module.proj_sizes, -1)
    elif not is_weight_alone(module.packed_proj):
        whole = (module.packed_proj(x) for x in inputs)
        parts = (x.split(module.proj_sizes, -1) for x in whole)
        heads = [x[i] for i, x in enumerate(parts)]
    else:
        weights = module.packed_proj.weight.split(module.proj_sizes)
        biases: Any = (None, None, None)
        if module.packed_proj.bias is not None:
            biases = module.packed_proj.bias.split(module.proj_sizes)
        heads = list(map(F.linear, inputs, weights, biases))
    counts = (module.num_heads, module.num_kv_heads, module.num_kv_heads)
    q, k, v = (
        x.view(*x.shape[:2], count, x.shape[-1] // count).transpose(1, 2)
        for x, count in zip(heads, counts, strict=True)
    )
    if module.q_norm is not None:
        q, k = module.q_norm(q), module.k_norm(k)
    return q, k, v


def is_weight_alone(layer: nn.Module) -> bool:
    """Return whether a layer is its weight and its bias, and no more.

    An adapter (LoRA) in its place has a weight, too, and adds to it; hooks
    gather the weight, or change the result. Both need the layer's own call.
    """
    hooks = layer._forward_hooks or layer._forward_pre_hooks
    return type(layer) is nn.Linear and not hooks


def remap_state_dict(
    module: Any, state: dict[str, Tensor], prefix: str, *_: Any
) -> None:
    """Rename entries before loading; pack or split them as the module does.

    A pre-hook of ``load_state_dict``: it changes ``state`` in place.
    """
    sizes = module.proj_sizes
    for leaf in ("weight", "bias"):
        separate = [f"{prefix}{name}_proj.{leaf}" for name in "qkv"]
        packed = f"{prefix}packed_proj.{leaf}"
        renamed = zip(("q", "k", "v", "in"), [*separate, packed], strict=True)
        for name, new in renamed:
            old = f"{prefix}{name}_proj_{leaf}"
            if old in state:
                state[new] = state.pop(old)
        if module.packed and all(name in state for name in separate):
            state[packed] = torch.cat([state.pop(name) for name in separate])
        fits = packed in state and len(state[packed]) == sum(sizes)
        if not module.packed and fits:
            parts = state.pop(packed).split(sizes)
            state.update(zip(separate, parts, strict=True))
