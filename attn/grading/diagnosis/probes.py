"""Find an input for which the wrong result would be right.

A mistake often does to the result what another input would: a mask that is
inverted, keys without the last one, a scale that counts twice. The reference
runs on such inputs; where it gives what the answer gives, in every case, the
other input says what the answer does.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations
from typing import Any

import torch
from torch import Tensor

from attn.grading.checks.compare import alike
from attn.grading.checks.evidence import Evidence
from attn.grading.checks.run import Outcome
from attn.grading.diagnosis.attention_changes import (
    other_scales,
    weak_masks,
    without_a_key,
)
from attn.grading.diagnosis.axes import Axes
from attn.grading.diagnosis.input_changes import (
    Change,
    Probe,
    along,
    of_an_earlier_call,
    one_input,
    other_numbers,
    taken_from,
    without_inputs,
)
from attn.grading.diagnosis.kinds import Kind, kind
from attn.grading.diagnosis.module_changes import module_changes


def explained(evidence: Evidence, end: float) -> Kind | None:
    """Return the change of the inputs that explains every case.

    Args:
        evidence: all that was observed.
        end: the time, of ``time.process_time``, at which to stop.
    """
    if not _has_enough_values(evidence) or evidence.within_rounding:
        return None
    # Much gives nothing but NaN.
    all_nan = all(f.problem.kind == "nan" for f in evidence.failures)
    if all_nan and not evidence.passing:
        return None
    entries = _wrong_entries(evidence)
    for key, words, change in _probes(evidence):
        if time.process_time() > end:
            return None
        if not _explains_failing(evidence, change, entries):
            continue
        name = kind(key, **words)
        if _explains_passing(evidence, change, entries):
            return replace(name, entries=tuple(entries or ()))
        if not all_nan:
            evidence.like = evidence.like or name.name
    return None


def _has_enough_values(evidence: Evidence) -> bool:
    """Return whether there are enough wrong values to compare."""
    count = 0
    for failure in evidence.failures:
        problem = failure.problem
        if problem.kind not in ("value", "nan", "shape"):
            return False
        if problem.part.kind == "gradient":
            return False
        wrong = problem.wrong
        count += 2 if wrong is None else int(wrong.sum())
    return count >= 4


def _wrong_entries(evidence: Evidence) -> list[int] | None:
    """Return the entries of a tuple that are wrong; None if all can be."""
    output = evidence.expected(min(evidence.failing)).output
    if not isinstance(output, tuple | list):
        return None
    paths = [p.part.entry for f in evidence.failures for p in f.problems]
    entries = sorted({path[0] for path in paths if path})
    return entries if len(entries) < len(output) else None


def _explains_failing(
    evidence: Evidence, change: Change, entries: list[int] | None
) -> bool:
    """Return whether a change gives the wrong results of the answer."""
    for i, failure in evidence.failing.items():
        changed = _outcome(evidence, i, change)
        if changed is None or changed.error is not None:
            return False
        got = _only(entries, failure.outcome.output)
        rtol = evidence.oracle.rtol(i)
        if not alike(got, _only(entries, changed.output), rtol):
            return False
    return True


def _explains_passing(
    evidence: Evidence, change: Change, entries: list[int] | None
) -> bool:
    """Return whether a change gives the right results of the answer."""
    for i in evidence.passing:
        changed = _outcome(evidence, i, change)
        if changed is None or evidence.case(i).rtol:
            continue
        right = _only(entries, evidence.expected(i).output)
        if changed.error or not alike(_only(entries, changed.output), right):
            return False
    return True


def _outcome(evidence: Evidence, i: int, change: Change) -> Outcome | None:
    changed = change(i, evidence.with_defaults(i))
    if isinstance(changed, dict):
        return evidence.reference_on(i, changed)
    return changed


def _only(entries: list[int] | None, output: Any) -> Any:
    return output if entries is None else [output[k] for k in entries]


def _probes(evidence: Evidence) -> Iterator[Probe]:
    """Yield what is tried, the plainest first."""
    inputs = evidence.with_defaults(min(evidence.failing))
    axes = Axes(evidence.exercise)
    tensors = {n: x for n, x in inputs.items() if isinstance(x, Tensor)}
    for name, x in tensors.items():
        if x.dtype == torch.bool:
            inverted = one_input(name, torch.logical_not)
            yield "inverted", {"input": name}, inverted
    yield from without_inputs(evidence)
    if "attn_mask" in inputs:
        yield from weak_masks()
    yield from other_scales(evidence, axes)
    for name, x in inputs.items():
        yield from other_numbers(name, x)
    if {"key", "value"} <= inputs.keys():
        yield from without_a_key()
    for name, x in tensors.items():
        for axis in range(-1, -x.dim() - 1, -1):
            yield from along(axes, name, axis, x)
    for a, b in permutations(tensors, 2):
        if tensors[a].dtype == tensors[b].dtype:
            words = {"one": a, "other": b}
            yield "replaced", words, taken_from({a: b})
            if a < b:
                yield "swapped", words, taken_from({a: b, b: a})
    yield from module_changes(evidence)
    for name in inputs:
        yield "earlier", {"input": name}, of_an_earlier_call(evidence, name)
