"""Carry weights from one set of names to another: rename, cut, transpose.

A table maps the modules of a checkpoint to ours, ``*`` standing for the
number of the layer; a module's ``weight`` and ``bias`` go along. Whatever
the table does not name, and whatever our model still lacks, is an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

__all__ = [
    "Rule",
    "Table",
    "fill",
    "fused",
    "plus_one",
    "stacked",
    "thirds",
    "transposed",
]


class Rule(NamedTuple):
    """Where a module's tensors go.

    ``cut`` gives a tensor for each name, and is called with the tensor, the
    number of heads, and how many rows each of ours has.
    """

    ours: tuple[str, ...]
    cut: Callable[[Tensor, int, list[int]], Iterable[Tensor]]


Table = Mapping[str, "str | Rule"]


def transposed(ours: str) -> Rule:
    """A ``Conv1D``: its weight is ``(in, out)``; ``Linear``'s is the other."""
    return Rule((ours,), lambda x, heads, rows: [x.t()])


def thirds(*ours: str) -> Rule:
    """GPT-2's ``Conv1D`` with Q, K and V side by side, ``(E, 3 * E)``."""
    return Rule(ours, lambda x, heads, rows: x.t().chunk(3))


def fused(*ours: str) -> Rule:
    """GPT-NeoX's and Bloom's Q, K and V, head by head: ``(H * 3 * D, E)``."""

    def cut(x: Tensor, heads: int, rows: list[int]) -> Iterable[Tensor]:
        if len(x) % (3 * heads):
            raise ValueError(
                f"a fused projection has {len(x)} rows: {heads} heads need "
                "a multiple of three times as many"
            )
        parts = x.unflatten(0, (heads, 3, -1))  # (H, 3, D, ...)
        return [parts[:, i].flatten(0, 1) for i in range(3)]

    return Rule(ours, cut)


def stacked(*ours: str) -> Rule:
    """Phi-3's projections: one below the other, in the sizes of ours."""

    def cut(x: Tensor, heads: int, rows: list[int]) -> Iterable[Tensor]:
        if len(x) != sum(rows):
            raise ValueError(
                f"a stacked projection has {len(x)} rows: the configuration "
                f"asks for {' + '.join(map(str, rows))}"
            )
        return x.split(rows)

    return Rule(ours, cut)


def plus_one(ours: str) -> Rule:
    """Gemma's norm multiplies by ``1 + w``; ours by ``w``."""

    def cut(x: Tensor, heads: int, rows: list[int]) -> Iterable[Tensor]:
        return [1.0 + (x if x.dtype == torch.float64 else x.float())]

    return Rule((ours,), cut)


def fill(
    module: nn.Module,
    state: Mapping[str, Tensor],
    table: Table,
    *,
    num_heads: int,
    ignore: Iterable[str] = (),
    tied: tuple[str, str] | None = None,
) -> None:
    """Copy a checkpoint into a module of ours.

    Args:
        module: every parameter and persistent buffer of it is filled.
        state: the checkpoint's tensors by name.
        table: its modules and ours; of two that give us the same tensor,
            the first.
        num_heads: heads of a fused projection.
        ignore: endings of names that carry nothing, such as old buffers.
        tied: two tensors of ours that are one: the first need not be there.

    Raises:
        ValueError: a weight is missing, unexpected, or of another shape;
            all are named.
    """
    need = module.state_dict()
    found, unexpected = _translated(state, table, need, num_heads, ignore)
    if tied is not None:
        _share(found, *tied, table)
    missing = [_theirs(name, table) for name in need if name not in found]
    problems = [
        f"{what}: {', '.join(dict.fromkeys(names))}"
        for what, names in (("missing", missing), ("unexpected", unexpected))
        if names
    ]
    if problems:
        raise ValueError(f"the weights do not fit ({'; '.join(problems)})")
    module.load_state_dict(found)
    if tied is not None:
        at, _, leaf = tied[0].rpartition(".")
        shared = module.get_parameter(tied[1])
        setattr(module.get_submodule(at), leaf, shared)


def _translated(
    state: Mapping[str, Tensor],
    table: Table,
    need: Mapping[str, Tensor],
    num_heads: int,
    ignore: Iterable[str],
) -> tuple[dict[str, Tensor], list[str]]:
    """The checkpoint under our names, and what has no place."""
    found: dict[str, Tensor] = {}
    unexpected = []
    order = {theirs: i for i, theirs in enumerate(table)}
    names = [name for name in state if not name.endswith(tuple(ignore))]
    names.sort(key=lambda name: order.get(_parts(name)[0], len(order)))
    for name in names:
        rule, layer, leaf = _find(name, table)
        ours = () if rule is None else rule.ours
        targets = [f"{x}.{leaf}".replace("*", layer) for x in ours]
        if rule is None or not set(targets) <= set(need):
            unexpected.append(name)
            continue
        tensor = state[name]
        rows = [len(need[target]) for target in targets]
        parts = rule.cut(tensor, num_heads, rows)
        for target, part in zip(targets, parts, strict=True):
            if part.shape != need[target].shape:
                raise ValueError(
                    f"{name} has shape {tuple(tensor.shape)}: the "
                    f"configuration asks for {target} of shape "
                    f"{tuple(need[target].shape)}"
                )
            found.setdefault(target, part)
    return found, unexpected


def _share(
    found: dict[str, Tensor], head: str, embedding: str, table: Table
) -> None:
    """Give a tied head the embedding's rows; if it has its own, compare."""
    if embedding not in found:
        return
    rows = found[embedding]
    own = found.setdefault(head, rows)
    if own.data_ptr() != rows.data_ptr() and not torch.equal(own, rows):
        raise ValueError(
            f"{_theirs(head, table)} and {_theirs(embedding, table)} differ: "
            "the configuration says that they are tied"
        )


def _find(name: str, table: Table) -> tuple[Rule | None, str, str]:
    """The rule for a tensor, the number of its layer, and weight or bias."""
    pattern, layer, leaf = _parts(name)
    rule = table.get(pattern)
    if isinstance(rule, str):
        rule = Rule((rule,), lambda x, heads, rows: [x])
    return rule, layer, leaf


def _theirs(name: str, table: Table) -> str:
    """The checkpoint's name for a tensor of ours."""
    pattern, layer, leaf = _parts(name)
    for theirs, rule in table.items():
        if pattern in ((rule,) if isinstance(rule, str) else rule.ours):
            return f"{theirs}.{leaf}".replace("*", layer)
    return name


def _parts(name: str) -> tuple[str, str, str]:
    """``h.3.mlp.weight`` in parts: ``h.*.mlp``, ``3``, ``weight``."""
    stem, _, leaf = name.rpartition(".")
    number = re.search(r"(?<=\.)\d+(?=\.|$)", stem)
    if number is None:
        return stem, "", leaf
    pattern = stem[: number.start()] + "*" + stem[number.end() :]
    return pattern, number[0], leaf
