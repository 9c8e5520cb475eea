"""Judge an answer: right, or wrong and why."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from attn.exercises.spec import Exercise
from attn.grading.checks.evidence import Evidence
from attn.grading.checks.failures import failures, one_thread, run_all
from attn.grading.checks.forbidden import use_of_the_package
from attn.grading.checks.kernels import kernel_flaw
from attn.grading.checks.oracle import Oracle
from attn.grading.checks.run import Outcome, run
from attn.grading.diagnosis.kinds import kind
from attn.grading.diagnosis.naming import diagnose
from attn.grading.diagnosis.refusal import Parts, Refusal, question
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
    """

    passed: bool
    message: str = ""
    details: str = ""
    mistake: str | None = None
    condition: str = ""
    parts: Parts | None = None
    written: bool = True


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
            found = kernel_flaw(answer, oracle, runner)
            if found is None:
                return Verdict(True)
            flaw = kind(found.kind, **found.words)
            message = f"this looks like: {flaw.name}\n{flaw.why}"
            parts = Parts(
                flaw.name,
                "this looks like",
                question(flaw.why),
                details=flaw.why,
            )
            return Verdict(False, message, mistake=flaw.name, parts=parts)
        evidence = Evidence(oracle, outcomes, wrong, answer, runner=runner)
        diagnosis = diagnose(evidence)
        refusal = Refusal(evidence, diagnosis)
        return Verdict(
            False,
            refusal.message,
            refusal.details,
            diagnosis.name,
            wrong[0].case.condition,
            refusal.parts,
            not refusal.is_stub,
        )
