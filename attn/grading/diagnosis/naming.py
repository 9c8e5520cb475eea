"""Name the mistake behind a wrong answer, or say that there is none to name.

A name is given when it explains every case that ran: what the mistake gives,
right or wrong, is what the answer gives. What explains the first wrong
condition only is no name: the answer behaves like it there.
"""

from __future__ import annotations

from dataclasses import dataclass

from attn.exercises.mistakes import Mistake
from attn.grading.checks.clock import OutOfTime
from attn.grading.checks.evidence import Evidence
from attn.grading.checks.forbidden import Forbidden
from attn.grading.diagnosis import (
    errors,
    kinds,
    mutants,
    other_inputs,
    result_changes,
)
from attn.grading.diagnosis.kinds import Kind, kind
from attn.grading.diagnosis.listed import MOST_NAMES, Listed

KINDS = {**errors.KINDS, **result_changes.KINDS}

Name = Kind | Mistake


@dataclass(frozen=True)
class Diagnosis:
    """The names of a wrong answer.

    Args:
        names: one, or several that cannot be told apart.
        everywhere: they explain every case; else the first wrong condition.
    """

    names: tuple[Name, ...] = ()
    everywhere: bool = True

    @property
    def name(self) -> str | None:
        """The name as the learner reads it; None if there is none."""
        return self._joined if self.names and self.everywhere else None

    @property
    def _joined(self) -> str:
        return " — or: ".join(x.name for x in self.names)

    @property
    def headline(self) -> tuple[str, str]:
        """The beginning of the sentence that ends in the names, and they."""
        start = "this looks like"
        if not self.everywhere:
            start = "in this case it behaves like"
        return start, self._joined

    @property
    def lines(self) -> list[str]:
        """Return what the learner reads: the names, and a paragraph each."""
        if not self.names:
            return []
        return [": ".join(self.headline), *(x.why for x in self.names)]


def diagnose(evidence: Evidence) -> Diagnosis:
    """Return the names that explain all that was observed.

    A result that no operation can look into has no name.
    """
    try:
        return _diagnosis(evidence)
    except (RuntimeError, TypeError, ValueError, IndexError):
        return Diagnosis()


def _diagnosis(evidence: Evidence) -> Diagnosis:
    error = evidence.failures[0].outcome.error
    if isinstance(error, Forbidden):
        return Diagnosis((kind(error.kind),))
    if isinstance(error, OutOfTime | NotImplementedError):
        return Diagnosis()
    listed = Listed(evidence)
    if mistakes := listed.everywhere():
        return Diagnosis(tuple(mistakes[:MOST_NAMES]))
    seen = kinds.explained(evidence, KINDS)
    for name, cases in seen.items():
        if cases == set(evidence.failing):
            return Diagnosis((name,))
    if special_case := kinds.special_case_only(evidence):
        return Diagnosis((special_case,))
    if other_input := other_inputs.explained(evidence):
        return Diagnosis((other_input,))
    if changes := mutants.explained(evidence):
        return Diagnosis(changes)
    return Diagnosis(tuple(listed.in_first_condition()), everywhere=False)
