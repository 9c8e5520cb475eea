"""Find an input for which the wrong result would be right.

A mistake often does to the result what another input would: a mask that is
inverted, keys without the last one, a scale that counts twice. The reference
runs on such inputs; where it gives what the answer gives, in every case, the
other input says what the answer does.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from itertools import permutations
from typing import Any

import torch
from torch import Tensor

from attn.grading.checks.compare import alike
from attn.grading.checks.evidence import Evidence, Name
from attn.grading.diagnosis import modules
from attn.grading.diagnosis.axes import Axes
from attn.grading.diagnosis.changes import (
    INTEGERS,
    Change,
    Probe,
    along,
    counted,
    earlier,
    filled,
    functions_of,
    ignored,
    one_input,
    replaced,
    scaled,
    swapped,
    without_keys,
)
from attn.grading.diagnosis.kinds import named


def explained(evidence: Evidence, end: float) -> Name | None:
    """Return the change of the inputs that explains every case.

    Args:
        evidence: all that was observed.
        end: the time, of ``time.process_time``, at which to stop.
    """
    if not _fit(evidence) or evidence.within_rounding:
        return None
    if _all_nan(evidence) and not evidence.passing:
        return None
    entries = _wrong_entries(evidence)
    for kind, words, change in _probes(evidence):
        if time.process_time() > end:
            return None
        wrong, right = _explains(evidence, change, entries)
        if wrong and not right and not _all_nan(evidence):
            evidence.like = evidence.like or named(kind, **words).name
        if wrong and right:
            found = named(kind, **words)
            some = " and ".join(f"it[{k}]" for k in entries or ())
            name = f"{found.name} (in {some})" if some else found.name
            return Name(name, found.why)
    return None


def _all_nan(evidence: Evidence) -> bool:
    """Return whether nothing but NaN is wrong, which much can give."""
    return all(f.problem.kind == "nan" for f in evidence.failures)


def _fit(evidence: Evidence) -> bool:
    """Return whether there are enough wrong values to compare."""
    telling = 0
    for failure in evidence.failures:
        problem = failure.problem
        if problem.kind not in ("value", "nan", "shape"):
            return False
        if problem.name.startswith("the gradient of"):
            return False
        wrong = problem.wrong
        telling += 2 if wrong is None else int(wrong.sum())
    return telling >= 4


def _wrong_entries(evidence: Evidence) -> list[int] | None:
    """Return the entries of a tuple that are wrong; None if all can be."""
    output = evidence.expected(min(evidence.failing)).output
    if not isinstance(output, tuple | list):
        return None
    names = {p.name for f in evidence.failures for p in f.problems}
    found = [re.match(r"it\[(\d+)\]", name) for name in names]
    entries = sorted({int(x[1]) for x in found if x})
    return entries if len(entries) < len(output) else None


def _explains(
    evidence: Evidence, change: Change, entries: list[int] | None
) -> tuple[bool, bool]:
    """Return whether it explains all wrong cases, and all right ones."""

    def part(output: Any) -> Any:
        return output if entries is None else [output[k] for k in entries]

    for i, failure in evidence.failing.items():
        other = evidence.changed(i, change(i, evidence.with_defaults(i)))
        if other is None or other.error is not None:
            return False, False
        near = evidence.oracle.part(i)
        if not alike(part(failure.outcome.output), part(other.output), near):
            return False, False
    for i in evidence.passing:
        other = evidence.changed(i, change(i, evidence.with_defaults(i)))
        if other is None or evidence.case(i).rtol:
            continue
        right = evidence.expected(i).output
        if other.error or not alike(part(other.output), part(right)):
            return True, False
    return True, True


def _probes(evidence: Evidence) -> Iterator[Probe]:
    """Yield what is tried, the plainest first."""
    first = min(evidence.failing)
    inputs = evidence.with_defaults(first)
    axes = Axes(evidence.exercise)
    tensors = [n for n, x in inputs.items() if isinstance(x, Tensor)]
    for name in tensors:
        if inputs[name].dtype == torch.bool:
            yield (
                "inverted",
                {"input": name},
                one_input(name, torch.logical_not),
            )
    yield from ignored(evidence, inputs)
    if "attn_mask" in inputs:
        for low in (-1.0, -10.0, -100.0, -1e3, -1e4, -1e9):
            change = one_input("attn_mask", filled(low))
            yield "weakly_masked", {"low": f"{low:g}"}, change
    yield from scaled(evidence, axes)
    for name, x in inputs.items():
        if type(x) is int:
            for step, word in ((-1, "one less"), (1, "one more")):
                words = {"input": name, "step": word}
                yield "counted", words, counted(name, step)
        elif isinstance(x, Tensor) and x.dtype in (torch.int64, torch.int32):
            for form, function in INTEGERS.items():
                words = {"input": name, "form": form}
                yield "integers", words, one_input(name, function)
        elif type(x) is float or (
            isinstance(x, Tensor) and x.is_floating_point()
        ):
            yield from functions_of(name)
    if {"key", "value"} <= inputs.keys():
        for end, cut in (("last", slice(-1)), ("first", slice(1, None))):
            yield "no_key", {"which": end}, without_keys(cut)
    for name in tensors:
        for axis in range(-1, -inputs[name].dim() - 1, -1):
            yield from along(axes, name, axis, inputs[name])
    for a, b in permutations(tensors, 2):
        if inputs[a].dtype == inputs[b].dtype:
            yield "replaced", {"one": a, "other": b}, replaced(a, b)
            if a < b:
                yield "swapped", {"one": a, "other": b}, swapped(a, b)
    yield from modules.changed(evidence)
    for name in inputs:
        yield "earlier", {"input": name}, earlier(evidence, name)
