"""Change what an attention reads: its keys, its mask, its scale."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor

from attn.grading.checks.evidence import Evidence
from attn.grading.diagnosis.axes import Axes
from attn.grading.diagnosis.input_changes import (
    Change,
    Inputs,
    Probe,
    one_input,
)


def without_a_key() -> Iterator[Probe]:
    """Yield keys and values without the last, and without the first."""

    def without(rest: slice) -> Change:
        def change(i: int, inputs: Inputs) -> Inputs | None:
            if inputs["key"].shape[-2] < 2:
                return None
            cut = {n: inputs[n][..., rest, :] for n in ("key", "value")}
            mask = inputs.get("attn_mask")
            if isinstance(mask, Tensor) and mask.shape[-1] > 1:
                cut["attn_mask"] = mask[..., rest]
            return {**inputs, **cut}

        return change

    yield "no_key", {"which": "last"}, without(slice(-1))
    yield "no_key", {"which": "first"}, without(slice(1, None))


def weak_masks() -> Iterator[Probe]:
    """Yield finite numbers in place of -inf, for a bool mask."""

    def bias(mask: Tensor, low: float) -> Tensor:
        if mask.dtype != torch.bool:
            raise ValueError
        return torch.zeros(mask.shape).masked_fill(~mask, low)

    for low in (-1.0, -10.0, -100.0, -1e3, -1e4, -1e9):
        change = one_input("attn_mask", partial(bias, low=low))
        yield "weakly_masked", {"low": f"{low:g}"}, change


def other_scales(evidence: Evidence, axes: Axes) -> Iterator[Probe]:
    """Yield other scales of the scores, made by a factor on the query."""
    if "query" not in evidence.inputs(0) or "d_out" in evidence.inputs(0):
        return

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

    yield "not_scaled", {}, by(lambda _, scale: 1 / scale)
    yield "scaled_twice", {}, by(lambda _, scale: scale)
    yield "root_rounded", {}, by(rounded)
    for letter in ("L", "S", "Dv", "H", "Hkv", "E", "B"):
        yield "scaled_with", {"letter": letter}, rooted(letter)
