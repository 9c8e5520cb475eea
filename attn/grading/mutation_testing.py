"""Mutation testing of the checks: judge every right and every wrong answer."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import Any

from attn.exercises import sources
from attn.exercises.spec import Exercise, every_exercise
from attn.grading.judge import judge
from attn.grading.oracle import Oracle


@dataclass
class MutationScore:
    """The result of one exercise's check with one seed.

    ``exposed_by`` gives, for each mistake, the first stage that fails.
    """

    exercise: Exercise
    wrong: int = 0
    caught: int = 0
    named: int = 0
    right: int = 0
    accepted: int = 0
    faults: list[str] = field(default_factory=list)
    exposed_by: dict[str, str] = field(default_factory=dict)


def mutation_score(exercise: Exercise, seed: int = 0) -> MutationScore:
    """Judge the solution, the right answers in other styles, the mistakes."""
    result, oracle = MutationScore(exercise), Oracle(exercise, seed)
    rights = {"the solution": solution(exercise), **exercise.equivalents}
    for style, answer in rights.items():
        verdict = judge(exercise, answer, oracle=oracle)
        result.right += 1
        result.accepted += verdict.passed
        if not verdict.passed:
            result.faults.append(f"refuses {style}: {verdict.message}")
    for wrong in exercise.mistakes:
        verdict = judge(exercise, wrong.answer, oracle=oracle)
        result.wrong += 1
        result.caught += not verdict.passed
        result.named += verdict.mistake == wrong.name
        result.exposed_by[wrong.name] = verdict.stage
        if verdict.passed:
            result.faults.append(f"lets through: {wrong.name}")
        elif verdict.mistake != wrong.name:
            result.faults.append(
                f"calls {wrong.name!r} {verdict.mistake!r}: {verdict.message}"
            )
    return result


def solution(exercise: Exercise) -> Any:
    """Return the solution as an object."""
    key, name = sources.split_id(exercise.id)
    module = importlib.import_module(
        f"solutions.{sources.solutions_path(key).stem}"
    )
    return getattr(module, name)


def table(scores: list[MutationScore] | None = None) -> str:
    """Return one line an exercise, and the kill rate over all of them."""
    if scores is None:
        scores = [mutation_score(x) for x in every_exercise()]
    lines = [
        f"{s.exercise.id:<26} wrong {s.caught}/{s.wrong} caught, "
        f"{s.named}/{s.wrong} named; right {s.accepted}/{s.right} accepted"
        for s in scores
    ]
    wrong, right = sum(s.wrong for s in scores), sum(s.right for s in scores)
    caught = sum(s.caught for s in scores)
    named = sum(s.named for s in scores)
    accepted = sum(s.accepted for s in scores)
    lines.append(
        f"kill rate: {caught} of {wrong} wrong answers caught, {named} named; "
        f"{accepted} of {right} right answers accepted"
    )
    return "\n".join(lines)
