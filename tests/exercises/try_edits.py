"""Print where each wrong answer of an exercise is right, wrong, or raises.

    python -m tests.exercises.try_edits EXERCISE [NAME]
    python -m tests.exercises.try_edits --twins [EXERCISE …]

For whoever writes a mistake's paragraph: each "no", "never", "always",
"raises" and "is hidden" in it is tried here. Each edit, or those whose names
begin with NAME, runs on a typical case; on the same cut down to lengths of 1
and to equal lengths, as far as the task allows them; on views; with
gradients, and without autograd; and on the exercise's own cases, by
condition. The second form prints the questions that two names of an exercise
share word for word.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import combinations
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from attn.exercises.case import Case
from attn.exercises.conditions import gradients, typical, views
from attn.exercises.mistakes import Mistake
from attn.exercises.shapes import documented, named_axes
from attn.exercises.spec import Exercise, every_exercise, find
from attn.grading.checks.failures import failures, run_all
from attn.grading.checks.oracle import Oracle
from attn.grading.checks.run import Outcome, run
from attn.grading.diagnosis.refusal import question

NO_GRAD = "no_grad"


def standard(exercise: Exercise) -> Iterator[Case]:
    """Yield a typical case, and those that are made of it."""
    own = exercise.generate(0)
    first = typical(exercise, own)[0]
    yield replace(first, condition="a typical case")
    yield replace(first, condition=NO_GRAD)
    lengths = axes(exercise, first)
    for letter in lengths:
        yield cut(exercise, first, f"{letter} = 1", {letter: 1})
    for pair in combinations(lengths, 2):
        if len(both := {lengths[x] for x in pair}) == 2:
            equal = dict.fromkeys(pair, min(both))
            yield cut(exercise, first, " = ".join(pair), equal)
    for text, condition in {"views": views(), "gradients": gradients()}.items():
        for case in condition(exercise, own):
            yield replace(case, condition=text)


def axes(exercise: Exercise, case: Case) -> dict[str, int]:
    """Return the lengths of a case's axes by the task's letters."""
    shapes, found = documented(exercise.id)[0], {}
    for name, x in exercise.inputs(case).items():
        if isinstance(x, Tensor):
            letters = named_axes(shapes, name, x.dim())
            found |= dict(zip(letters, x.shape, strict=True))
    return {x: n for x, n in found.items() if re.fullmatch(r"[A-Z]\w*", x)}


def cut(
    exercise: Exercise, case: Case, condition: str, lengths: dict[str, int]
) -> Case:
    """Return a case with axes cut down to lengths, given by their letters."""
    shapes = documented(exercise.id)[0]
    inputs = {}
    for name, given in exercise.inputs(case).items():

        def shortened(x: Tensor, name: str = name) -> Tensor:
            for k, axis in enumerate(named_axes(shapes, name, x.dim())):
                if x.shape[k] > lengths.get(axis, x.shape[k]):
                    x = x.narrow(k, 0, lengths[axis])
            return x.clone()

        inputs[name] = tree_map_only(Tensor, shortened, given)
    return replace(exercise.with_inputs(case, inputs), condition=condition)


def with_standard(exercise: Exercise) -> Oracle:
    """Return an oracle that also has the standard cases that are allowed."""
    oracle, probe = Oracle(exercise, 0), Oracle(exercise, 0)
    with suppress(ValueError):  # no case is typical
        probe.cases = [*standard(exercise)]
        allowed = []
        for i, case in enumerate(probe.cases):
            with suppress(RuntimeError):
                probe.expected(i), probe.expected_fp64(i)
                allowed.append(case)
        oracle.cases = allowed + oracle.cases
    return oracle


def runner(answer: Any, case: Case, **options: Any) -> Outcome:
    """Run an answer as a check does, or without autograd."""
    if case.condition != NO_GRAD:
        return run(answer, case, **options)
    if use := options.pop("launch"):
        options["launch"] = torch.no_grad()(use)
    elif isinstance(answer, type):
        forward: Callable[..., Any] = torch.no_grad()(answer.forward)
        answer = type(answer.__name__, (answer,), {"forward": forward})
    else:
        answer = torch.no_grad()(answer)
    return run(answer, case, **options)


def verdicts(mistake: Mistake, oracle: Oracle) -> dict[str, list[str]]:
    """Return the conditions in which an answer is right, wrong, or raises."""
    outcomes = run_all(mistake.answer, oracle, runner=runner)
    wrong = {x.index for x in failures(oracle, outcomes)}
    words: dict[str, set[str]] = {}
    for i, outcome in enumerate(outcomes):
        word = "wrong" if i in wrong else "right"
        if outcome.error:
            word = f"raises {type(outcome.error).__name__}"
        words.setdefault(oracle.cases[i].condition, set()).add(word)
    found: dict[str, list[str]] = {}
    for condition, said in words.items():
        found.setdefault(" or ".join(sorted(said)), []).append(condition)
    return found


def twins(exercise: Exercise) -> dict[str, list[str]]:
    """Return the questions that several names have, with these."""
    asked: dict[str, dict[str, None]] = {}
    for x in exercise.mistakes:
        asked.setdefault(question(x.why), {})[x.name] = None
    return {x: [*names] for x, names in asked.items() if len(names) > 1}


def main(words: list[str]) -> Iterable[str]:
    """Yield the lines to print."""
    if words[0] == "--twins":
        for exercise in map(find, words[1:]) if words[1:] else every_exercise():
            for asked, names in twins(exercise).items():
                yield "\n  ".join([f"{exercise.id}: {asked}", *names])
        return
    exercise, beginning = find(words[0]), " ".join(words[1:])
    oracle = with_standard(exercise)
    for mistake in exercise.mistakes:
        if mistake.label.startswith(beginning):
            yield f"\n{mistake.label}"
            for word, conditions in verdicts(mistake, oracle).items():
                yield f"  {word}: {'; '.join(conditions)}"


if __name__ == "__main__":
    if not sys.argv[1:]:
        sys.exit(__doc__)
    for line in main(sys.argv[1:]):
        print(line, flush=True)
