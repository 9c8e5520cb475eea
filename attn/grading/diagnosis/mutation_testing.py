"""Mutation testing of the checks: judge every right and every wrong answer."""

import re
import sys
from dataclasses import dataclass, field
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from attn.exercises import sources
from attn.exercises.spec import Exercise, every_exercise
from attn.grading.checks.failures import run_all, stopped
from attn.grading.checks.oracle import Oracle
from attn.grading.diagnosis.judge import judge


@dataclass
class MutationScore:
    """The result of one exercise's check with one seed.

    ``exposed_by`` gives, for each mistake, the first condition that fails;
    ``refusals`` its message, and all that is known.
    """

    exercise: Exercise
    caught: int = 0
    named: int = 0
    accepted: int = 0
    failures: list[str] = field(default_factory=list)
    exposed_by: dict[str, str] = field(default_factory=dict)
    refusals: dict[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def counts(self) -> tuple[int, ...]:
        """The wrong, caught, named, right and accepted answers."""
        wrong, right = answers(self.exercise)
        return wrong, self.caught, self.named, right, self.accepted


def answers(exercise: Exercise) -> tuple[int, int]:
    """Count the wrong and the right answers; the solution is one of these."""
    return len(exercise.mistakes), len(exercise.equivalents) + 1


def mutation_score(
    exercise: Exercise,
    seed: int = 0,
    *,
    quick: bool = False,
    again: bool = False,
) -> MutationScore:
    """Judge the solution, the right answers in other styles, the mistakes.

    Args:
        exercise: the exercise.
        seed: draws the cases.
        quick: run each mistake until its name is certain: up to the first
            case that is wrong, to the next ones while another mistake gives
            the same so far. Compare it with that run, and watch what it
            calls in its first case only. Else it runs on every case, watched
            in each, and is compared with a second run of it, as a learner's
            answer is.
        again: if quick, compare each mistake with a second run, too.
    """
    score, oracle = MutationScore(exercise), Oracle(exercise, seed)
    rights = {"the solution": solution(exercise)}
    rights |= {x.name: x.answer for x in exercise.equivalents}
    for style, answer in rights.items():
        verdict = judge(exercise, answer, oracle=oracle)
        score.accepted += verdict.passed
        if not verdict.passed:
            score.failures.append(f"refuses {style}: {verdict.message}")
    outcomes = {
        x: run_all(x.answer, oracle, quick=quick) for x in exercise.mistakes
    }
    if quick and not again:
        oracle.kept |= {x: y for x, y in outcomes.items() if not stopped(y)}
    for wrong, own in outcomes.items():
        verdict = judge(exercise, wrong.answer, oracle=oracle, outcomes=own)
        while (
            verdict.mistake != wrong.name
            and len(own) < len(oracle.cases)
            and not stopped(own)
        ):
            own = run_all(wrong.answer, oracle, quick=True, done=own)
            if not again:
                oracle.kept[wrong] = own
            verdict = judge(
                exercise, wrong.answer, oracle=oracle, outcomes=own
            )
        score.caught += not verdict.passed
        score.named += verdict.mistake == wrong.name
        score.exposed_by[wrong.name] = verdict.condition
        score.refusals[wrong.name] = verdict.message, verdict.details
        if verdict.passed:
            score.failures.append(f"lets through: {wrong.name}")
        elif verdict.mistake != wrong.name:
            score.failures.append(
                f"calls {wrong.name!r} {verdict.mistake!r}: {verdict.message}"
            )
    return score


def solution(exercise: Exercise) -> Any:
    """Return the solution as an object."""
    key, name = sources.split_id(exercise.id)
    return getattr(_solutions(sources.solutions_path(key)), name)


def _solutions(path: Path) -> ModuleType:
    """Import a chapter's solutions from their file: a wheel has no package."""
    name = f"solutions.{path.stem}"
    if name not in sys.modules:
        spec = spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise ImportError(f"{path} must be a Python file")
        # Triton looks a kernel's module up by its name.
        sys.modules[name] = module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def table(scores: list[MutationScore]) -> str:
    """Return one line an exercise, and the kill rate over all of them."""
    row = "{:<26} wrong {}/{} caught, {}/{} named; right {}/{} accepted"
    lines = []
    for x in scores:
        wrong, right = answers(x.exercise)
        counts = (x.caught, wrong, x.named, wrong, x.accepted, right)
        lines.append(row.format(x.exercise.id, *counts))
    total = kill_rate([x.counts for x in scores])
    return "\n".join([*lines, f"kill rate: {total}"])


def exposures(score: MutationScore) -> str:
    """Return the mistakes below the first condition that exposes each."""
    names: dict[str, list[str]] = {}
    for name, condition in score.exposed_by.items():
        names.setdefault(f"exposed by: {condition}", []).append(name)
    return "\n".join("\n  ".join([x, *names[x]]) for x in names)


def kill_rate(counts: list[tuple[int, ...]]) -> str:
    """Add up the counts of some exercises, and return them in words."""
    wrong, caught, named, right, accepted = map(sum, zip(*counts, strict=True))
    return (
        f"{caught} of {wrong} wrong answers caught, {named} named; "
        f"{accepted} of {right} right answers accepted"
    )


def state_kill_rate(readme: Path) -> None:
    """Write into the README how many answers the tests judge."""
    counts = [answers(x) for x in every_exercise()]
    rate = kill_rate([(wrong,) * 3 + (right,) * 2 for wrong, right in counts])
    old = r"\d+ of \d+ wrong answers .* accepted(\W+over) \d+ exercises"
    new = rf"{rate}\1 {len(counts)} exercises"
    text, count = re.subn(old, new, readme.read_text("utf-8"))
    if count != 1:
        raise ValueError(
            f"{readme} must state the kill rate once; got {count}"
        )
    readme.write_text(text, "utf-8")
