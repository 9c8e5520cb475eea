"""Judge an answer: right, or wrong and why; and all answers of the lists.

The latter is mutation testing of the checks: each right answer passes, each
wrong one is caught, and called by its name.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from attn.exercises.answers import UNFINISHED
from attn.exercises.kill_rate import kill_rate, names_of
from attn.exercises.mistakes import Mistake
from attn.exercises.outcome import Outcome
from attn.exercises.solution import solution
from attn.exercises.spec import Exercise
from attn.grading.checks.evidence import Evidence
from attn.grading.checks.failures import run_all, stopped
from attn.grading.checks.forbidden import use_of_the_package
from attn.grading.checks.kernels import Flaw, kernel_flaw
from attn.grading.checks.oracle import Oracle
from attn.grading.checks.problems import failures
from attn.grading.checks.run import run
from attn.grading.diagnosis.kinds import kind
from attn.grading.diagnosis.naming import diagnose
from attn.grading.diagnosis.refusal import Parts, explain, question
from attn.profiling.calls import one_thread
from attn.profiling.compat import language_kept_patched


@dataclass(frozen=True)
class Verdict:
    """The result of judging an answer.

    Args:
        passed: whether it is right.
        message: what is wrong, in a few lines.
        details: everything that is known; empty if the message says it all.
        mistake: the name of the matching mistake.
        condition: the first one in which the answer is wrong.
        parts: the message in parts; None where it is a sentence.
        written: whether there is an answer: a stub is none.
        judged: whether the answer ran, and not only its cell.
    """

    passed: bool
    message: str = ""
    details: str = ""
    mistake: str | None = None
    condition: str = ""
    parts: Parts | None = None
    written: bool = True
    judged: bool = True


def judge(
    exercise: Exercise,
    answer: Any,
    *,
    seed: int = 0,
    oracle: Oracle | None = None,
    outcomes: list[Outcome] | None = None,
    runner: Callable[..., Outcome] = run,
) -> Verdict:
    """Judge one answer.

    Args:
        exercise: the exercise that it answers.
        answer: the learner's function, class or kernel.
        seed: draws the inputs.
        oracle: of this exercise and seed, when many answers are judged.
        outcomes: of the answer, where it has run already.
        runner: runs the answer on a case, as ``run`` does; elsewhere, if
            the answer is in another process.

    Returns:
        The verdict, with the diagnosis when it is wrong.
    """
    if borrowed := use_of_the_package(exercise, answer):
        return Verdict(False, borrowed)
    with one_thread(), language_kept_patched():
        oracle = oracle or Oracle(exercise, seed)
        outcomes = outcomes or run_all(answer, oracle, runner=runner)
        wrong = failures(oracle, outcomes)
        if not wrong:
            flaw = kernel_flaw(answer, oracle, runner)
            return _flawed(flaw) if flaw else Verdict(True)
        condition = wrong[0].case.condition
        if isinstance(wrong[0].outcome.error, NotImplementedError):
            stub = f"{UNFINISHED}: `raise NotImplementedError` is still there."
            message = f'{stub} hint("{exercise.id}") gives a hint.'
            return Verdict(False, message, condition=condition, written=False)
        evidence = Evidence(oracle, outcomes, wrong, answer, runner=runner)
        diagnosis = diagnose(evidence)
        message, parts = explain(evidence, diagnosis)
        name = f"{parts.label}: {parts.title}\n" if parts.label else ""
        details = name + parts.details
        return Verdict(
            False, message, details, diagnosis.name, condition, parts
        )


def _flawed(flaw: Flaw) -> Verdict:
    """Refuse a kernel whose results are right."""
    found = kind(flaw.kind, **flaw.words)
    start, name, why = "this looks like", found.name, found.why
    parts = Parts(name, start, question(why), details=why)
    message = f"{start}: {name}\n{why}"
    return Verdict(False, message, mistake=name, parts=parts)


@dataclass(frozen=True)
class MutationScore:
    """The verdicts on all answers of an exercise's lists."""

    exercise: Exercise
    right: dict[str, Verdict]  # by name
    wrong: dict[Mistake, Verdict]

    @property
    def counts(self) -> tuple[Any, ...]:
        """The wrong, caught, named, right and accepted answers; the names."""
        caught = sum(not x.passed for x in self.wrong.values())
        named = sum(x.mistake == own.name for own, x in self.wrong.items())
        accepted = sum(x.passed for x in self.right.values())
        numbers = len(self.wrong), caught, named, len(self.right), accepted
        return *numbers, names_of(self.wrong)

    @property
    def failures(self) -> list[str]:
        """The verdicts that are wrong, in words."""
        wrong = self.wrong.items()
        refused = [(n, x) for n, x in self.right.items() if not x.passed]
        unnamed = [(y.label, x) for y, x in wrong if x.mistake != y.name]
        return [
            *(f"refuses {n}: {x.message}" for n, x in refused),
            *(f"calls {n!r} {x.mistake!r}: {x.message}" for n, x in unnamed),
        ]


def mutation_score(
    exercise: Exercise, *, again: bool = False, oracle: Oracle | None = None
) -> MutationScore:
    """Judge the solution, the right answers in other styles, the mistakes.

    A mistake runs until its name is certain: up to the first case that is
    wrong, to the next ones while another mistake gives the same so far.

    Args:
        exercise: the exercise.
        again: compare each mistake with a second run of it, as a learner's
            answer is, and not with the one that is judged.
        oracle: of this exercise; its references count, and no more.
    """
    oracle = (oracle or Oracle(exercise, seed=0)).without_mistakes()
    answers = {"the solution": solution(exercise)}
    answers |= {x.name: x.answer for x in exercise.equivalents}
    right = {n: judge(exercise, x, oracle=oracle) for n, x in answers.items()}
    wrong: dict[Mistake, Verdict] = {}
    outcomes = {
        x: run_all(x.answer, oracle, quick=True) for x in exercise.mistakes
    }
    if not again:
        oracle.kept |= {x: y for x, y in outcomes.items() if not stopped(y)}
    for x, own in outcomes.items():
        while True:
            verdict = judge(exercise, x.answer, oracle=oracle, outcomes=own)
            is_whole = len(own) == len(oracle.cases) or stopped(own)
            if verdict.mistake == x.name or is_whole:
                break
            own = run_all(x.answer, oracle, quick=True, done=own)
            if not again:
                oracle.kept[x] = own
        wrong[x] = verdict
    return MutationScore(exercise, right, wrong)


def table(scores: list[MutationScore]) -> str:
    """Return one line an exercise, and the kill rate over all of them."""
    lines = [f"{x.exercise.id:<26} {kill_rate([x.counts])}" for x in scores]
    total = kill_rate([x.counts for x in scores])
    return "\n".join([*lines, f"kill rate: {total}"])


def exposures(score: MutationScore) -> str:
    """Return the mistakes below the first condition that exposes each."""
    names: dict[str, list[str]] = {}
    for own, x in score.wrong.items():
        names.setdefault(f"exposed by: {x.condition}", []).append(own.label)
    return "\n".join("\n  ".join([x, *names[x]]) for x in names)
