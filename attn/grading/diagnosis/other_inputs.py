"""Find an input for which the wrong result would be right.

A mistake often does to the result what another input would: a mask that is
inverted, a keyword that is left out, a key that is zero. The reference runs
on such inputs; where it gives what the answer gives, in every case, the other
input says what the answer does.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from attn.grading.checks.compare import alike
from attn.grading.checks.evidence import ENOUGH, Evidence
from attn.grading.checks.run import Outcome
from attn.grading.diagnosis.attention_changes import (
    causal,
    other_scales,
    other_weights,
)
from attn.grading.diagnosis.input_changes import (
    Change,
    Inputs,
    input_changes,
)
from attn.grading.diagnosis.kinds import Kind, kind


def explained(evidence: Evidence) -> Kind | None:
    """Return the change of the inputs that explains every case."""
    if not _has_enough_values(evidence) or evidence.within_rounding:
        return None
    cases = [*evidence.failing, *evidence.passing]
    names = {
        name: change
        for name, change in islice(_changes(evidence), evidence.trials)
        if all(_agrees(evidence, change, i) for i in cases)
    }
    for name, change in names.items():
        if _at_the_other_end(name) & {*names}:
            continue
        if not _has_no_effect(evidence, name, change):
            return name
    return None


def _has_enough_values(evidence: Evidence) -> bool:
    """Return whether there are enough wrong values to compare."""
    problems = [f.problem for f in evidence.failures]
    return evidence.telling >= ENOUGH and all(
        p.kind in ("value", "nan", "shape") and p.part.kind == "result"
        for p in problems
    )


def _at_the_other_end(name: Kind) -> set[Kind]:
    """Return what must not be as true: of equal weights any key is the only.

    The result is then that of the first key for all, and of the last for all.
    """
    words = dict(name.words)
    if "which" not in words:
        return set()
    others = {"first", "last"} - {words["which"]}
    return {kind(name.key, **{**words, "which": x}) for x in others}


def _has_no_effect(evidence: Evidence, name: Kind, change: Change) -> bool:
    """Return whether a formula gives the same for 1.25 times the input.

    Where only the larger of two numbers counts, any formula that makes one
    small explains a result without it.
    """
    if name.key != "computed_with":
        return False
    of = dict(name.words)["input"]

    def exaggerated(i: int, inputs: Inputs) -> Inputs | Outcome | None:
        x = inputs.get(of)
        return None if x is None else change(i, {**inputs, of: 1.25 * x})

    return all(_agrees(evidence, exaggerated, i) for i in evidence.failing)


def _agrees(evidence: Evidence, change: Change, i: int) -> bool:
    """Return whether the reference gives on other inputs what was observed.

    A right result is compared with the reference's own, which is not rounded
    in another way.
    """
    fails = i in evidence.failing
    changed = change(i, evidence.with_defaults(i))
    if changed is None or (evidence.case(i).rtol and not fails):
        return not fails
    if isinstance(changed, dict):
        changed = evidence.reference_on(i, changed)
    if changed.error is not None:
        return False
    if fails:
        output, rtol = evidence.outcomes[i].output, evidence.oracle.rtol(i)
        return alike(output, changed.output, rtol)
    return alike(changed.output, evidence.expected(i).output)


def _changes(evidence: Evidence) -> Iterator[tuple[Kind, Change]]:
    """Yield what is tried, the plainest first."""
    yield from other_scales(evidence)
    yield from input_changes(evidence)
    yield from other_weights(evidence)
    yield from causal(evidence)
