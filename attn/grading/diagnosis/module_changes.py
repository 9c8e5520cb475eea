"""Change what a layer reads: other weights, other sequences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations, permutations

import torch
from torch import Tensor

from attn.grading.checks.evidence import Evidence
from attn.grading.checks.run import Outcome
from attn.grading.diagnosis.input_changes import Change, Inputs, Probe


def module_changes(evidence: Evidence) -> Iterator[Probe]:
    """Yield changes of a layer's weights, and of its sequences."""
    first = min(evidence.failing)
    state, names = evidence.case(first).state, evidence.inputs(first).keys()
    if state is not None:
        maps = list(dict.fromkeys(n.rpartition(".")[0] for n in state))
        for a, b in combinations(maps, 2):
            swapped = _weights_from(evidence, {a: b, b: a})
            yield "weights_swapped", {"one": a, "other": b}, swapped
        for a, b in permutations(maps, 2):
            shared = _weights_from(evidence, {a: b})
            yield "weights_shared", {"one": a, "other": b}, shared
    if "x" in names and state is not None:
        yield "one_sequence", {}, _one_sequence(evidence)
        yield "causal", {}, _prefixes(evidence, ("x",))
    elif {"query", "key", "value"} <= names and "d_out" not in names:
        yield "causal", {}, _prefixes(evidence, ("query", "key", "value"))


def _weights_from(evidence: Evidence, sources: Mapping[str, str]) -> Change:
    """Return the change that gives maps the weights of others."""

    def change(i: int, inputs: Inputs) -> Outcome | None:
        state = evidence.case(i).state
        if state is None:
            return None
        moved: dict[str, Tensor] = {}
        for name, x in state.items():
            module, _, kind = name.rpartition(".")
            source = f"{sources.get(module, module)}.{kind}".strip(".")
            moved[name] = state.get(source, x)
            if moved[name].shape != x.shape:
                return None
        return evidence.reference(i, state=moved)

    return change


def _one_sequence(evidence: Evidence) -> Change:
    """Return the change that makes one sequence of a batch."""

    def change(i: int, inputs: Inputs) -> Outcome | None:
        x = inputs["x"]
        others = (y for n, y in inputs.items() if n != "x")
        if x.dim() < 3 or any(isinstance(y, Tensor) for y in others):
            return None
        flat = x.reshape(1, -1, x.shape[-1])
        outcome = evidence.reference_on(i, {**inputs, "x": flat})
        if isinstance(outcome.output, Tensor):
            shape = (*x.shape[:-1], outcome.output.shape[-1])
            outcome.output = outcome.output.reshape(shape)
        return outcome

    return change


def _prefixes(evidence: Evidence, names: tuple[str, ...]) -> Change:
    """Return the change by which each token sees a prefix of the tokens."""

    def change(i: int, inputs: Inputs) -> Outcome | None:
        others = (y for n, y in inputs.items() if n not in names)
        if any(isinstance(y, Tensor) for y in others):
            return None  # a mask, or another sequence
        rows = []
        for n in range(min(inputs[names[0]].shape[-2], 12)):
            cut = {name: inputs[name][..., : n + 1, :] for name in names}
            if "query" in cut:
                cut["query"] = cut["query"][..., n:, :]
            output = evidence.reference_on(i, {**inputs, **cut}).output
            if not isinstance(output, Tensor):
                return None
            rows.append(output[..., -1:, :])
        return Outcome(output=torch.cat(rows, -2)) if rows else None

    return change
