"""Change what a layer reads: other weights, other sequences."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations, permutations
from typing import Any

import torch
from torch import Tensor

from attn.grading.checks.evidence import Evidence
from attn.grading.checks.run import Outcome

Inputs = dict[str, Any]
Change = Callable[[int, Inputs], Any]


def changed(
    evidence: Evidence,
) -> Iterator[tuple[str, dict[str, str], Change]]:
    """Yield changes of a layer's weights, and of its sequences."""
    state = evidence.case(min(evidence.failing)).state
    if state is not None:
        maps = list(dict.fromkeys(n.rpartition(".")[0] for n in state))
        for a, b in combinations(maps, 2):
            change = _weights(evidence, {a: b, b: a})
            yield "weights_swapped", {"one": a, "other": b}, change
        for a, b in permutations(maps, 2):
            change = _weights(evidence, {a: b})
            yield "weights_shared", {"one": a, "other": b}, change
    names = evidence.inputs(min(evidence.failing))
    if "x" in names and state is not None:
        yield "one_sequence", {}, _one_sequence(evidence)
        yield "causal", {}, _prefixes(evidence, ("x",))
    elif {"query", "key", "value"} <= names.keys() and "d_out" not in names:
        yield "causal", {}, _prefixes(evidence, ("query", "key", "value"))


def _weights(evidence: Evidence, origin: dict[str, str]) -> Change:
    """Return the change that gives maps the weights of others."""

    def change(i: int, inputs: Inputs) -> Outcome | None:
        state = evidence.case(i).state
        if state is None:
            return None
        moved: dict[str, Tensor] = {}
        for name, x in state.items():
            module, _, kind = name.rpartition(".")
            source = f"{origin.get(module, module)}.{kind}".strip(".")
            moved[name] = state.get(source, x)
            if moved[name].shape != x.shape:
                return None
        return evidence.reference(i, state=moved)

    return change


def _one_sequence(evidence: Evidence) -> Change:
    """Return the change that makes one sequence of a batch."""

    def change(i: int, inputs: Inputs) -> Outcome | None:
        x = inputs["x"]
        others = [y for n, y in inputs.items() if n != "x" and y is not None]
        if x.dim() < 3 or any(isinstance(y, Tensor) for y in others):
            return None
        flat = x.reshape(1, -1, x.shape[-1])
        outcome = evidence.changed(i, {**inputs, "x": flat})
        if outcome is not None and isinstance(outcome.output, Tensor):
            shape = (*x.shape[:-1], outcome.output.shape[-1])
            outcome.output = outcome.output.reshape(shape)
        return outcome

    return change


def _prefixes(evidence: Evidence, names: tuple[str, ...]) -> Change:
    """Return the change by which each token sees a prefix of the tokens."""

    def change(i: int, inputs: Inputs) -> Outcome | None:
        others = [y for n, y in inputs.items() if n not in names]
        if any(isinstance(y, Tensor) for y in others):
            return None  # a mask, or another sequence
        length = inputs[names[0]].shape[-2]
        rows = []
        for n in range(min(length, 12)):
            cut = {
                name: inputs[name][..., : n + 1, :]
                for name in names
                if name != "query"
            }
            if "query" in names:
                cut["query"] = inputs["query"][..., n : n + 1, :]
            outcome = evidence.changed(i, {**inputs, **cut})
            if outcome is None or not isinstance(outcome.output, Tensor):
                return None
            rows.append(outcome.output[..., -1:, :])
        return Outcome(output=torch.cat(rows, -2)) if rows else None

    return change
