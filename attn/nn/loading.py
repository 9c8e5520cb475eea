"""State dicts of torch's attention modules, for ours.

``torch.nn.MultiheadAttention`` keeps ``in_proj_weight``, or
``q_proj_weight`` and two more where the sizes differ; PyTorch's tutorial
keeps ``packed_proj.weight``. The rows are the same: queries, keys, values.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def translate(
    module: Any,
    state: dict[str, Tensor],
    prefix: str,
    *_: Any,
) -> None:
    """Before loading: other names to ours, packed or not as the module is.

    Args:
        module: a ``MultiHeadAttention``; its ``packed`` and ``rows`` are
            read.
        state: a state dict, changed in place.
        prefix: of the module's names in it.
    """
    rows = module.rows
    for leaf in ("weight", "bias"):
        ours = [f"{prefix}{name}_proj.{leaf}" for name in "qkv"]
        whole = f"{prefix}packed_proj.{leaf}"
        for name, mine in zip("qkv", ours, strict=True):
            _rename(state, f"{prefix}{name}_proj_{leaf}", mine)
        _rename(state, f"{prefix}in_proj_{leaf}", whole)
        if module.packed and all(name in state for name in ours):
            state[whole] = torch.cat([state.pop(name) for name in ours])
        fits = whole in state and len(state[whole]) == sum(rows)
        if not module.packed and fits:
            parts = state.pop(whole).split(rows)
            state.update(zip(ours, parts, strict=True))


def _rename(state: dict[str, Tensor], old: str, new: str) -> None:
    if old in state:
        state[new] = state.pop(old)
