"""Prove that the checks bite: run every right and every wrong answer."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import Any

from attn.exercises.spec import Exercise, every_exercise
from attn.grading import sources
from attn.grading.judge import judge
from attn.grading.known import Known


@dataclass
class Bite:
    """What one exercise's check did with one seed."""

    exercise: Exercise
    wrong: int = 0
    caught: int = 0
    named: int = 0
    right: int = 0
    accepted: int = 0
    faults: list[str] = field(default_factory=list)


def bite(exercise: Exercise, seed: int = 0) -> Bite:
    """Judge the solution, the equivalents and the misconceptions."""
    result, known = Bite(exercise), Known(exercise, seed)
    rights = {"the solution": solution(exercise), **exercise.equivalents}
    for style, answer in rights.items():
        verdict = judge(exercise, answer, known=known)
        result.right += 1
        result.accepted += verdict.passed
        if not verdict.passed:
            result.faults.append(f"refuses {style}: {verdict.message}")
    for wrong in exercise.misconceptions:
        verdict = judge(exercise, wrong.answer, known=known)
        result.wrong += 1
        result.caught += not verdict.passed
        result.named += verdict.mistake == wrong.name
        if verdict.passed:
            result.faults.append(f"lets through: {wrong.name}")
        elif verdict.mistake != wrong.name:
            result.faults.append(
                f"calls {wrong.name!r} {verdict.mistake!r}: {verdict.message}"
            )
    return result


def solution(exercise: Exercise) -> Any:
    """The solution as an object."""
    key, name = sources.split_id(exercise.id)
    module = importlib.import_module(
        f"solutions.{sources.solutions_path(key).stem}"
    )
    return getattr(module, name)


def table(bites: list[Bite] | None = None) -> str:
    """One line an exercise, and the kill rate of them all."""
    bites = [bite(x) for x in every_exercise()] if bites is None else bites
    lines = [
        f"{b.exercise.id:<26} wrong {b.caught}/{b.wrong} caught, "
        f"{b.named}/{b.wrong} named; right {b.accepted}/{b.right} accepted"
        for b in bites
    ]
    wrong, right = sum(b.wrong for b in bites), sum(b.right for b in bites)
    caught, named = sum(b.caught for b in bites), sum(b.named for b in bites)
    accepted = sum(b.accepted for b in bites)
    lines.append(
        f"kill rate: {caught} of {wrong} wrong answers caught, {named} named; "
        f"{accepted} of {right} right answers accepted"
    )
    return "\n".join(lines)
