"""Copy weights under other names: rename, split, transpose.

A table maps the modules of a checkpoint to those of a model, with ``*`` for
the number of the layer; it applies to ``weight`` and ``bias`` alike. A weight
that the table does not name, or that the checkpoint lacks, is an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn


class WeightMapping(NamedTuple):
    """The modules that a module's tensors go to, and how they are split.

    ``split`` is called with a tensor, the number of heads, and the rows of
    each target; it returns a tensor for each target.
    """

    targets: tuple[str, ...]
    split: Callable[[Tensor, int, list[int]], Iterable[Tensor]] = (
        lambda x, heads, rows: [x]
    )


Table = Mapping[str, "str | WeightMapping"]


def transposed(*targets: str) -> WeightMapping:
    """Map a ``Conv1D`` of shape ``(in, out)``; GPT-2's holds Q, K and V."""
    return WeightMapping(
        targets, lambda x, heads, rows: x.t().chunk(len(targets))
    )


def qkv_by_head(*targets: str) -> WeightMapping:
    """Map Q, K and V head by head, ``(H * 3 * D, E)``: GPT-NeoX, Bloom."""

    def split(x: Tensor, heads: int, rows: list[int]) -> Iterable[Tensor]:
        parts = x.unflatten(0, (heads, 3, -1))  # (H, 3, D, ...)
        return [part.flatten(0, 1) for part in parts.unbind(1)]

    return WeightMapping(targets, split)


def stacked(*targets: str) -> WeightMapping:
    """Map Phi-3's projections, which are stacked along the rows."""
    return WeightMapping(targets, lambda x, heads, rows: x.split(rows))


def plus_one(target: str) -> WeightMapping:
    """Map Gemma's norm, which multiplies by ``1 + w``, to one by ``w``."""
    return WeightMapping(
        (target,),
        lambda x, heads, rows: [
            1 + x.to(torch.promote_types(x.dtype, torch.float32))
        ],
    )


def copy_weights(
    module: nn.Module,
    state: Mapping[str, Tensor],
    table: Table,
    num_heads: int,
    ignore: Iterable[str] = (),
) -> None:
    """Set all parameters and persistent buffers of a module, or raise.

    If two modules of the table map to the same tensor, the first applies;
    names that end as one of ``ignore``, such as old buffers, do not count.
    """
    mappings = {
        source: WeightMapping((x,)) if isinstance(x, str) else x
        for source, x in table.items()
    }
    expected = module.state_dict()
    found, unexpected = _remap(
        {k: v for k, v in state.items() if not k.endswith(tuple(ignore))},
        mappings,
        expected,
        num_heads,
    )
    missing = dict.fromkeys(
        _source(name, mappings) for name in expected if name not in found
    )
    if missing or unexpected:
        raise ValueError(
            "the weights must match the configuration; got missing: "
            f"{', '.join(missing) or 'none'}, unexpected: "
            f"{', '.join(unexpected) or 'none'}"
        )
    module.load_state_dict(found)


def _remap(
    state: Mapping[str, Tensor],
    mappings: Mapping[str, WeightMapping],
    expected: Mapping[str, Tensor],
    num_heads: int,
) -> tuple[dict[str, Tensor], list[str]]:
    """Return the tensors under their new names, and the unexpected names."""
    found: dict[str, Tensor] = {}
    unexpected = []
    order = {source: i for i, source in enumerate(mappings)}
    parts = {name: _parts(name) for name in state}
    for name in sorted(state, key=lambda k: order.get(parts[k][0], 10**6)):
        pattern, layer, leaf = parts[name]
        mapping = mappings.get(pattern, WeightMapping(()))
        targets = [f"{x}.{leaf}".replace("*", layer) for x in mapping.targets]
        if not targets or not set(targets) <= expected.keys():
            unexpected.append(name)
            continue
        shapes = [expected[target].shape for target in targets]
        try:
            rows = [shape[0] for shape in shapes]
            pieces = list(mapping.split(state[name], num_heads, rows))
        except RuntimeError:  # the rows cannot be split so
            pieces = []
        if [piece.shape for piece in pieces] != shapes:
            raise ValueError(
                f"{name} must fit {', '.join(targets)} of shapes "
                f"{', '.join(str(tuple(shape)) for shape in shapes)}, by the "
                f"configuration; got shape {tuple(state[name].shape)}"
            )
        for target, piece in zip(targets, pieces, strict=True):
            found.setdefault(target, piece)
    return found, unexpected


def _source(target: str, mappings: Mapping[str, WeightMapping]) -> str:
    """Return the checkpoint's name for a tensor of the module."""
    pattern, layer, leaf = _parts(target)
    for source, mapping in mappings.items():
        if pattern in mapping.targets:
            return f"{source}.{leaf}".replace("*", layer)
    return target


def _parts(name: str) -> tuple[str, str, str]:
    """Split ``h.3.mlp.weight`` into ``h.*.mlp``, ``3`` and ``weight``."""
    stem, _, leaf = name.rpartition(".")
    number = re.search(r"(?<=\.)\d+(?=\.|$)", stem)
    if number is None:
        return stem, "", leaf
    pattern = stem[: number.start()] + "*" + stem[number.end() :]
    return pattern, number[0], leaf
