"""Change what an attention reads: its scale, its weights, its tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import combinations, permutations

import torch
from torch import Tensor

from attn.grading.checks.evidence import Evidence
from attn.grading.checks.run import Outcome
from attn.grading.diagnosis.axes import Axes
from attn.grading.diagnosis.input_changes import Change, Inputs
from attn.grading.diagnosis.kinds import Kind, kind


def other_scales(evidence: Evidence) -> Iterator[tuple[Kind, Change]]:
    """Yield other scales of the scores, made by a factor on the query."""
    inputs = evidence.inputs(0)
    parameters = {*inputs, *evidence.exercise.parameters}
    if "query" not in inputs or parameters & {"d_out", "temperature"}:
        return
    axes = Axes(evidence.exercise)

    def by(factor: Callable[[dict[str, int], float], float]) -> Change:
        def change(i: int, inputs: Inputs) -> Inputs | None:
            sizes, scale = axes.sizes(inputs), inputs.get("scale")
            if "D" not in sizes:
                return None
            scale = sizes["D"] ** -0.5 if scale is None else float(scale)
            try:
                times = factor(sizes, scale) if scale else None
            except KeyError:  # a size that this case has not
                return None
            if times is None:
                return None
            return {**inputs, "query": inputs["query"] * times}

        return change

    def rooted(letter: str) -> Change:
        return by(lambda sizes, _: (sizes["D"] / sizes[letter]) ** 0.5)

    def rounded(sizes: dict[str, int], _: float) -> float:
        return sizes["D"] ** 0.5 / int(sizes["D"] ** 0.5)

    yield kind("not_scaled"), by(lambda _, scale: 1 / scale)
    yield kind("scaled_twice"), by(lambda _, scale: scale)
    yield kind("root_rounded"), by(rounded)
    for letter in ("L", "S", "Dv", "H", "Hkv", "E"):
        yield kind("scaled_with", letter=letter), rooted(letter)


def other_weights(evidence: Evidence) -> Iterator[tuple[Kind, Change]]:
    """Yield a layer whose maps have the weights of others."""
    state = evidence.case(min(evidence.failing)).state
    if state is None:
        return
    maps = list(dict.fromkeys(n.rpartition(".")[0] for n in state))
    for a, b in combinations(maps, 2):
        swapped = _weights_from(evidence, {a: b, b: a})
        yield kind("weights_swapped", one=a, other=b), swapped
    for a, b in permutations(maps, 2):
        shared = _weights_from(evidence, {a: b})
        yield kind("weights_shared", one=a, other=b), shared


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


def causal(evidence: Evidence) -> Iterator[tuple[Kind, Change]]:
    """Yield tokens that see earlier ones only, or those of other texts."""
    first = min(evidence.failing)
    names = evidence.inputs(first).keys()
    if "x" in names and evidence.case(first).state is not None:
        yield kind("one_sequence"), _one_sequence(evidence)
        yield kind("causal"), _prefixes(evidence, ("x",))
    elif {"query", "key", "value"} <= names and "d_out" not in names:
        yield kind("causal"), _prefixes(evidence, ("query", "key", "value"))


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
