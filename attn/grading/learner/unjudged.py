"""Say why a check does not judge, and what stands beside its verdict."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from attn.exercises import ran, sources
from attn.exercises.answers import NOT_STARTED, Note, digest
from attn.exercises.spec import Exercise
from attn.exercises.standing import Standing
from attn.grading.diagnosis.judge import Verdict
from attn.grading.learner import progress
from attn.grading.learner.fallback import fallback_of

_FIRST = "run your cell first"


class Unjudged(NamedTuple):
    """What is said in place of a verdict on what is defined.

    Args:
        verdict: with the words.
        word: of the card's badge.
        waits: whether nothing is stored: the verdict of before stands.
        is_open: whether no points are told.
        is_older: whether what is defined stays in its place.
    """

    verdict: Verdict
    word: str = ""
    waits: bool = True
    is_open: bool = True
    is_older: bool = False


def unjudged(
    exercise: Exercise, stands: Standing | None, answer: Any, last: str
) -> Unjudged | None:
    """Return what a check says without judging; None if it judges.

    Args:
        exercise: that is checked.
        stands: its answer in the notebook; None where there is no notebook.
        answer: what the name means now.
        last: what this session's last check said.
    """
    name, said, is_older = exercise.name, "", False
    is_reference = fallback_of(answer) == exercise.id
    if stands is not None:
        text, run = stands.text, stands.failed or stands.run
        is_stub = digest(text) == digest(sources.stub(exercise.id))
        if is_stub or not text and ran.is_reset(name):
            said = f'{NOT_STARTED}. hint("{exercise.id}") gives a hint.'
            verdict = Verdict(False, said, written=False)
            return Unjudged(verdict, waits=False, is_open=False)
        if run is None and (answer is None or is_reference):
            said = f"{name} has not run since the kernel started."
        elif run and ran.has_changed(run):
            said = "Your cell has changed since it ran, or is gone."
            is_older = True
        elif said := stands.trouble:
            before = progress.load().get(exercise.id, {})
            if before.get("text") != digest(text):
                said += " Run it again, then check."
                verdict = Verdict(False, said, judged=False)
                return Unjudged(verdict, "not judged", False, False)
    if is_reference and not said:
        said = f"{name} is still the reference that was put in place of your "
        said += "answer: run your own cell first."
        said += f"\nLast time: {last}" if last else ""
        return Unjudged(Verdict(False, said), _FIRST, is_open=False)
    if answer is None and not said:
        said = f"{name} is not defined."
    if not said:
        return None
    verdict = Verdict(False, f"{said} Run your cell first, then check.")
    return Unjudged(verdict, _FIRST, is_older=is_older)


def below(exercise: Exercise, stands: Standing | None) -> list[str]:
    """Return the sentences below a card: on other cells, and on earlier."""
    entry = progress.load().get(exercise.id, {})
    said = stands.beside if stands else []
    if right := entry.get("right"):
        kept = f": that answer is in {entry['kept']}" if entry["kept"] else ""
        said.append(f"It was right on {right}{kept}.")
    return said


def noted(exercise: Exercise) -> Note | None:
    """Return what a card notes of the answer that stands."""
    entry = progress.load().get(exercise.id, {})
    if not entry.get("text"):
        return None
    return Note(exercise.id, entry["text"], entry["refused"], time.time())
