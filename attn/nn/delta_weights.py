"""The weights of gated delta layers, under the names that others use."""

from __future__ import annotations

from typing import Any

from torch import Tensor

#: OLMo Hybrid's names, and those of flash-linear-attention.
_RENAMED = {
    "a_proj.weight": "decay_proj.weight",
    "b_proj.weight": "beta_proj.weight",
    "g_proj.weight": "gate_proj.weight",
    "o_proj.weight": "out_proj.weight",
    "o_norm.weight": "norm.weight",
    "conv1d.weight": "conv_weight",
}


def remap_delta_state_dict(
    module: Any, state: dict[str, Tensor], prefix: str, *_: Any
) -> None:
    """Rename entries before loading, and unpack those of Qwen3-Next.

    A pre-hook of ``load_state_dict``: it changes ``state`` in place.
    """
    for old, new in _RENAMED.items():
        if prefix + old in state:
            x = state.pop(prefix + old)
            state[prefix + new] = x[:, 0] if old.startswith("conv") else x
    # Rows by key head: those of its query, its key, its values, its gates.
    group = module.num_value_heads // module.num_heads
    D, values = module.head_dim, group * module.value_dim
    _unpack(
        state,
        f"{prefix}in_proj_qkvz.weight",
        module.num_heads,
        {"q_proj": D, "k_proj": D, "v_proj": values, "gate_proj": values},
    )
    _unpack(
        state,
        f"{prefix}in_proj_ba.weight",
        module.num_heads,
        {"beta_proj": group, "decay_proj": group},
    )


def _unpack(
    state: dict[str, Tensor], name: str, heads: int, sizes: dict[str, int]
) -> None:
    """Split an entry whose rows are ordered by heads."""
    if name not in state:
        return
    prefix = name[: name.index("in_proj")]
    by_head = state.pop(name).unflatten(0, (heads, sum(sizes.values())))
    parts = by_head.split(list(sizes.values()), 1)
    for part, rows in zip(sizes, parts, strict=True):
        state[f"{prefix}{part}.weight"] = rows.flatten(0, 1)
