"""Name the mistake behind a wrong answer, or say that there is none to name.

A name is given when it explains every case that ran: what the mistake gives,
right or wrong, is what the answer gives. Two mistakes may share the cases
between them. What explains the first wrong condition only is no name: the
answer behaves like it there.
"""

from __future__ import annotations

import time
from collections.abc import Set
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from attn.exercises.mistakes import Mistake
from attn.grading.checks.clock import OutOfTime
from attn.grading.checks.evidence import Evidence
from attn.grading.checks.forbidden import Forbidden
from attn.grading.diagnosis import (
    errors,
    kinds,
    mutants,
    numbers,
    partly_listed,
    probes,
    wrong_type,
)
from attn.grading.diagnosis.kinds import Kind, kind
from attn.grading.diagnosis.listed import Listed
from attn.grading.diagnosis.partly_listed import Limit

KINDS = (*errors.KINDS, *numbers.KINDS, *wrong_type.KINDS)
TIME_LIMIT = 0.15  # seconds of work for each way to explain an answer

Name = Kind | Mistake
#: How several names explain an answer: each of them alone, all of them
#: together, or each of them alone but in the first wrong condition only.
Link = Literal["or", "and", "here"]


@dataclass(frozen=True)
class Diagnosis:
    """The names of a wrong answer.

    Args:
        names: one; several that cannot be told apart; or two that share the
            cases between them.
        link: between the names.
        limit: the cases in which they hold.
    """

    names: tuple[Name, ...] = ()
    link: Link = "or"
    limit: Limit = Limit()

    @property
    def name(self) -> str | None:
        """The name as the learner reads it; None if there is none."""
        if self.link == "here" or not self.names:
            return None
        return self._joined

    @property
    def _joined(self) -> str:
        link = ", and: " if self.link == "and" else " — or: "
        return link.join(x.name for x in self.names)

    @property
    def lines(self) -> list[str]:
        """Return what the learner reads: the names, and a paragraph each."""
        if not self.names:
            return []
        start = "this looks like"
        if self.link == "here":
            start = "in this case it behaves like"
        limit = f" — {self.limit.text}" if self.limit.text else ""
        first = f"{start}: {self._joined}{limit}"
        return [first, *(x.why for x in self.names)]


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
        return Diagnosis(tuple(mistakes[:3]))
    seen = kinds.explained(evidence, KINDS)
    failing = set(evidence.failing)
    for name, cases in seen.items():
        if cases == failing:
            return Diagnosis((name,))
    end = _end()
    matches = list(partly_listed.matches(listed, end))
    shares: list[tuple[Name, Set[int]]] = [
        *((x.mistake, x.cases) for x in matches if not x.exceptions),
        *seen.items(),
    ]
    for (a, some), (b, others) in combinations(shares, 2):
        if some | others == failing:
            return Diagnosis((a, b), "and")
    mistakes, limit = partly_listed.nearly_everywhere(evidence, matches)
    if mistakes:
        return Diagnosis(tuple(mistakes), limit=limit)
    if mistake := partly_listed.without_nan(listed, end):
        return Diagnosis((mistake, kind("nan_replaced")), "and")
    if special_case := kinds.special_case_only(evidence):
        return Diagnosis((special_case,))
    if other_input := probes.explained(evidence, _end()):
        return Diagnosis((other_input,))
    if not evidence.exercise.launch:
        end = _end()
        if changes := mutants.explained(evidence, end):
            return Diagnosis(changes)
        end = max(end, _end(TIME_LIMIT / 4))
        if pair := partly_listed.merged(listed, end):
            return Diagnosis(pair, "and")
    return Diagnosis(tuple(listed.in_first_condition()), "here")


def _end(limit: float | None = None) -> float:
    """Return the time, of ``time.process_time``, at which to stop."""
    return time.process_time() + (TIME_LIMIT if limit is None else limit)
