"""Print where each wrong answer of an exercise is right, wrong, or raises.

    python -m tests.exercises.try_edits EXERCISE [NAME]
    python -m tests.exercises.try_edits --twins [EXERCISE …]

A mistake's "no", "never", "always", "raises" and "is hidden" are tried here.
Each edit, or those whose names begin with NAME, runs on a typical case; on
the same cut down to lengths of 1, and to equal ones, where the task allows
that; on views; with gradients, and without autograd; with ``+``, on the same
of a case with the most arguments; and on the exercise's own cases, by
condition. The second form prints the questions that several
names of an exercise share word for word.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import combinations
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from attn.exercises.case import Case
from attn.exercises.conditions import gradients, typical, views
from attn.exercises.outcome import Outcome
from attn.exercises.shapes import documented, named_axes
from attn.exercises.spec import Exercise, every_exercise, find
from attn.grading.checks.failures import run_all
from attn.grading.checks.oracle import Oracle
from attn.grading.checks.problems import failures
from attn.grading.checks.run import run
from attn.grading.diagnosis.judge import solution
from attn.grading.diagnosis.refusal import question

NO_GRAD = "no_grad"
FRONT = "..."  # axes before those that have letters
LETTERS = r"[A-Z]\w*|\.\.\."


def standard(exercise: Exercise) -> Iterator[Case]:
    """Yield one or two typical cases, and those that are made of them."""
    own = exercise.generate(0)
    for case, mark in zip(typical(exercise, own), ("", " +"), strict=False):
        lengths = axes(exercise, case)
        limits = {f"{x} = 1": {x: 1, f"{x}kv": 1} for x in lengths}
        for pair in combinations(lengths, 2):
            short = min(lengths[x] for x in pair)
            limits[" = ".join(pair)] = dict.fromkeys(pair, short)
        made = [replace(case, condition="a typical case")]
        made += [cut(exercise, case, x, y) for x, y in limits.items()]
        made += views("views")(exercise, [case])
        if not exercise.launch:
            made += gradients(when="gradients")(exercise, [case])
            made.append(replace(case, condition=NO_GRAD))
        for x in made:
            yield replace(x, condition=x.condition + mark)


def axes(exercise: Exercise, case: Case) -> dict[str, int]:
    """Return the lengths of a case's axes by the task's letters."""
    shapes, found = documented(exercise.id)[0], {}
    for name, x in exercise.inputs(case).items():
        if isinstance(x, Tensor):
            letters = named_axes(shapes, name, x.dim())
            found |= dict(zip(letters, x.shape, strict=True))
    named = {x or FRONT: n for x, n in found.items()}
    return {x: n for x, n in named.items() if re.fullmatch(LETTERS, x)}


def cut(
    exercise: Exercise, case: Case, condition: str, lengths: dict[str, int]
) -> Case:
    """Return a case with axes cut down to lengths, given by their letters."""
    shapes, inputs = documented(exercise.id)[0], {}
    for name, given in exercise.inputs(case).items():

        def shortened(x: Tensor, name: str = name) -> Tensor:
            for k, axis in enumerate(named_axes(shapes, name, x.dim())):
                most = lengths.get(axis or FRONT, x.shape[k])
                x = x.narrow(k, 0, min(x.shape[k], most))
            return x.clone()

        inputs[name] = tree_map_only(Tensor, shortened, given)
    return replace(exercise.with_inputs(case, inputs), condition=condition)


def runner(answer: Any, case: Case, **options: Any) -> Outcome:
    """Run an answer as a check does, or without autograd."""
    without = torch.no_grad()
    if not case.condition.startswith(NO_GRAD):
        pass
    elif options["launch"]:
        options["launch"] = without(options["launch"])
    elif isinstance(answer, type):
        own = {"forward": without(answer.forward)}  # type: ignore[attr-defined]
        answer = type(answer.__name__, (answer,), own)
    else:
        answer = without(answer)
    # What a task forbids would end all: its gradients are tried, too.
    return run(answer, case, **options | {"forbids": ()})


def verdicts(answer: Any, oracle: Oracle) -> list[str]:
    """Return what an answer is in each case: right, wrong, or it raises."""
    outcomes = run_all(answer, oracle, runner=runner)
    wrong = {x.index for x in failures(oracle, outcomes)}
    return [
        f"raises {type(x.error).__name__}"
        if x.error
        else ("right", "wrong")[i in wrong]
        for i, x in enumerate(outcomes)
    ]


def tried(exercise: Exercise, beginning: str) -> Iterator[str]:
    """Yield what to print of the edits whose labels begin so."""
    oracle, cases = Oracle(exercise, 0), []
    with suppress(ValueError):  # no case is typical
        for case in standard(exercise):
            reference = run(exercise.reference, case, launch=exercise.caller)
            cases += [case] * (reference.error is None)
    oracle.cases = cases + oracle.cases
    allowed = verdicts(solution(exercise), oracle)
    where = [x.condition for x in oracle.cases]
    yield "; ".join(dict.fromkeys(where))
    for mistake in exercise.mistakes:
        if not mistake.label.startswith(beginning):
            continue
        found: dict[str, set[str]] = {}
        each = verdicts(mistake.answer, oracle)
        for condition, word, fits in zip(where, each, allowed, strict=False):
            if fits == "right":
                found.setdefault(condition, set()).add(word)
        lists: dict[str, list[str]] = {"right": []}
        for condition, words in found.items():
            lists.setdefault(" or ".join(sorted(words)), []).append(condition)
        yield f"\n{mistake.label}"
        for word, names in lists.items():
            place = "all else" if word == "wrong" else "; ".join(names)
            yield f"  {word}: {place or 'nowhere'}"


def twins(exercises: Iterable[Exercise]) -> Iterator[str]:
    """Yield questions that several names of an exercise have, with these."""
    for exercise in exercises:
        asked: dict[str, dict[str, None]] = {}
        for x in exercise.mistakes:
            asked.setdefault(question(x.why), {})[x.name] = None
        for text, names in asked.items():
            if len(names) > 1:
                yield "\n  ".join([f"{exercise.id}: {text}", *names])


def main(first: str, *rest: str) -> Iterator[str]:
    """Return the lines to print for a command."""
    if first == "--twins":
        return twins(map(find, rest) if rest else every_exercise())
    return tried(find(first), " ".join(rest))


if __name__ == "__main__":
    if not sys.argv[1:]:
        sys.exit(__doc__)
    for line in main(*sys.argv[1:]):
        print(line, flush=True)
