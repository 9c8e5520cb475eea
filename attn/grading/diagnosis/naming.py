"""Name the mistake behind a wrong answer, or say that there is none to name.

A name is given when it explains every case that ran: what the mistake gives,
right or wrong, is what the answer gives. Two mistakes may share the cases
between them. What explains the first wrong condition only is no name: the
answer behaves like it there.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from attn.exercises.mistakes import Mistake
from attn.grading.checks.clock import OutOfTime
from attn.grading.checks.evidence import Evidence, Name
from attn.grading.checks.forbidden import Forbidden
from attn.grading.diagnosis import (
    dicts,
    errors,
    kinds,
    mutants,
    numbers,
    probes,
    wrong_type,
)
from attn.grading.diagnosis.listed import Listed

REGISTERED = (
    dicts,
    errors,
    wrong_type,
    numbers,
)  # importing them registers their kinds
TIME_LIMIT = 0.15  # seconds of work for each way to explain an answer


@dataclass(frozen=True)
class Diagnosis:
    """The names of a wrong answer.

    Args:
        names: one; several that cannot be told apart; or two that share the
            cases between them.
        link: ``or``, ``and``; ``here`` when one name explains the first
            wrong condition only.
        limit: where the name does not hold, ``but not when p is 0``.
    """

    names: tuple[Name | Mistake, ...] = ()
    link: str = ""
    limit: str = ""

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
        said = self._joined
        said += f" — {self.limit}" if self.limit else ""
        return [f"{start}: {said}", *(x.why for x in self.names)]


def diagnose(evidence: Evidence) -> Diagnosis:
    """Return the names that explain all that was observed.

    A result that no operation can look into has no name.
    """
    try:
        return _diagnosis(evidence)
    except (RuntimeError, TypeError, ValueError, IndexError):
        return Diagnosis()


def _diagnosis(evidence: Evidence) -> Diagnosis:
    stopped = evidence.failures[0].outcome.error
    if isinstance(stopped, Forbidden):
        return Diagnosis((kinds.named(stopped.kind),))
    if isinstance(stopped, OutOfTime | NotImplementedError):
        return Diagnosis()
    listed = Listed(evidence)
    if known := listed.everywhere():
        return Diagnosis(tuple(known[:3]), _or(known))
    seen = kinds.explained(evidence)
    failing = set(evidence.failing)
    for kind, cases in seen.items():
        if cases == failing:
            return Diagnosis((kind,))
    end = time.process_time() + TIME_LIMIT
    shares = listed.shares(end)
    both: dict[Any, set[int]] = {**shares, **seen}
    for (a, one), (b, two) in combinations(both.items(), 2):
        if one | two == failing:
            return Diagnosis((a, b), "and")
    found, limit = listed.nearly()
    if found:
        return Diagnosis(tuple(found), _or(found), limit)
    if wrong := listed.without_nan(end):
        return Diagnosis((wrong, kinds.named("nan_replaced")), "and")
    if name := kinds.square_only(evidence):
        return Diagnosis((name,))
    end = time.process_time() + TIME_LIMIT
    if name := probes.explained(evidence, end):
        return Diagnosis((name,))
    if not evidence.exercise.launch:
        end = time.process_time() + TIME_LIMIT
        if changes := mutants.explained(evidence, end):
            return Diagnosis(changes, _or(changes))
        end = max(end, time.process_time() + TIME_LIMIT / 4)
        if pair := listed.merged(end):
            return Diagnosis(pair, "and")
    if here := listed.here():
        return Diagnosis(tuple(here), "here")
    return Diagnosis()


def _or(names: Sequence[Any]) -> str:
    return "or" if len(names) > 1 else ""
