"""Explain a wrong answer to a learner, in a few lines and in full.

A refusal is read in five seconds: the name of the mistake, or the place; one
small input; one question. All that is known is in the details.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from numbers import Number
from typing import Any

import torch
from torch import Tensor

from attn.grading.checks.evidence import Evidence, Failure
from attn.grading.checks.inputs import input_size, named_tensors
from attn.grading.checks.show import (
    WIDTH,
    Grid,
    brief,
    describe,
    difference_lines,
    elements,
    grid,
    how_many,
    listing,
    wrapped,
)
from attn.grading.diagnosis.naming import Diagnosis
from attn.grading.diagnosis.where import about, places

_USUAL, _MOST = 5, 12  # lines between the header and the last one
_FEW = 4  # elements, from which a place can be told
_SENTENCES = re.compile(r"(?:(?<=[.?!:])|(?<=[.?!]\)))\s+(?=[A-Z`\"(])")


@dataclass(frozen=True)
class Parts:
    """The parts of a refusal, for a front end that sets them apart.

    Those that it lacks are empty.

    Args:
        title: the name of the mistake, the place, or what is wrong.
        label: the beginning of the sentence that ends in a name.
        question: what the learner is to think about, or a second sentence.
        condition: the one in which the answer is wrong.
        what: what is wrong in it, where that is not the title.
        more: lines with it: of an error, the line of code that raised it.
        elements: index, got and expected of the first elements that differ.
        grid: the matrix around the first of them.
        inputs: the failing input in one line.
        details: all that is known, but for the name.
    """

    title: str
    label: str = ""
    question: str = ""
    condition: str = ""
    what: str = ""
    more: tuple[str, ...] = ()
    elements: tuple[tuple[str, str, str], ...] = ()
    grid: Grid | None = None
    inputs: str = ""
    details: str = ""


def explain(evidence: Evidence, diagnosis: Diagnosis) -> tuple[str, Parts]:
    """Return a refusal in about five lines, at most twelve, and in parts.

    Args:
        evidence: all that was observed.
        diagnosis: the names that explain it, if there are any.
    """
    shown = most_telling(evidence.failures)
    problem, returns = shown.problem, evidence.exercise.returns
    place, sentences = _without_a_name(evidence, diagnosis, shown)
    what, *more = _what(evidence, shown)
    if not diagnosis.name:
        more += _expected(evidence, shown)
    inputs, found, matrix = _inputs(evidence, shown), [], None
    start = f"wrong when {shown.case.condition}: {what}"
    lines = [start, *more, *inputs]
    if problem.wrong is not None:
        difference = problem.wrong, problem.got, problem.expected
        what = f"{problem.part.name(returns)} {problem.message}"
        if problem.wrong.numel() > 1:
            what += f" in {how_many(problem.wrong)}"
        found = elements(*difference, 4)
        matrix = grid(problem.wrong, problem.got)
        lines += [] if diagnosis.names else listing(*difference, 4)
    whys = [x.why for x in diagnosis.names]
    if whys:
        label, title = diagnosis.headline
        first, asked = [f"{label}: {title}"], question(whys[0])
        lines += place
        is_long = len(whys) > 1 or _count([*first, *lines, whys[0]]) > _USUAL
        last = [asked if is_long else whys[0]]
    else:
        notes = getattr(shown.outcome.error, "__notes__", [])
        first, last = place, [*notes, *sentences][:1]
        label, title, asked = "", "".join(place), "".join(last)
    details = [*_everything(evidence, shown), *place, *sentences]
    details += _printed(shown)
    parts = Parts(
        title or what,
        label,
        asked,
        shown.case.condition,
        what if title else "",
        tuple(more),
        tuple(found),
        matrix,
        "".join(inputs).strip(),
        "\n".join([*whys, *details]),
    )
    text = [*first, *lines, *last]
    while len(text) > 2 and _count(text) > _MOST:
        del text[-2]
    return "\n".join(text), parts


def _without_a_name(
    evidence: Evidence, diagnosis: Diagnosis, shown: Failure
) -> tuple[list[str], list[str]]:
    """Return a place, and other sentences, the most helpful first."""
    if diagnosis.name or shown.problem.kind == "random":
        return [], []
    found, claims = places(evidence, shown), evidence.exercise.properties
    output = [x for _, x in named_tensors(shown.outcome.output)]
    if shown.outcome.error or any(
        not x.is_meta and bool(x.isnan().any()) for x in output
    ):
        claims = ()  # of NaN nothing holds
    broken = [x.says for x in claims if not _holds(x.holds, shown)]
    told = [*found[1:], *about(evidence, shown)]
    exact = [x for x in told if " factor " in x]  # says more than a claim
    return found[:1], [*dict.fromkeys([*exact, *broken, *told])]


def _holds(holds: Any, failure: Failure) -> bool:
    try:
        return bool(holds(failure.case, failure.outcome.output))
    except Exception:  # a claim about a result of another shape
        return True


def _what(evidence: Evidence, shown: Failure) -> list[str]:
    """Return what is wrong; an error in short."""
    what, *more = shown.problem.text(evidence.exercise.returns).splitlines()
    if shown.outcome.error is None:
        return [what, *more]
    more = [x if len(x) <= 76 else f"{x[:74]} …" for x in more[:1]]
    return [textwrap.shorten(what, 130, placeholder=" …"), *more]


def _expected(evidence: Evidence, shown: Failure) -> list[str]:
    """Say what an answer that raised an error should have returned."""
    output = evidence.expected(shown.index).output
    if not shown.problem.message.startswith("it raised"):
        return []  # it says so itself
    if isinstance(output, dict):
        errors = {k: x for k, x in output.items() if "Error" in str(x)}
        output = [f"{k}: {x}" for k, x in errors.items()] or output
    entries, names = [output], [""]
    if isinstance(output, tuple | list):
        entries = [*output]
        names = [*evidence.exercise.returns] or [""] * len(output)
    pairs = zip(names, entries, strict=False)
    text = ", ".join(brief(n, x).strip() for n, x in pairs)
    return [f"  expected: {textwrap.shorten(text, 130, placeholder=' …')}"]


def _inputs(evidence: Evidence, shown: Failure) -> list[str]:
    """Return the failing input in one line; a long one lacks tensors."""
    exercise, case, more = evidence.exercise, shown.case, ""
    inputs = {
        n: x
        for n, x in exercise.inputs(case).items()
        if x is not None and not isinstance(x, torch.Generator)
    }
    start = f"  {_made(evidence, shown)}: " if case.init else "  "
    while True:
        words = [brief(n, x) for n, x in inputs.items()]
        line = f"{start}{', '.join(words)}{more}"
        tensors = [n for n, x in inputs.items() if isinstance(x, Tensor)]
        if len(line) <= WIDTH - 2 or not tensors:
            return [line] if len(wrapped(line, "  ")) <= 2 else []
        del inputs[tensors[-1]]
        more = ", …" if len(inputs) else "…"


def _made(evidence: Evidence, shown: Failure) -> str:
    init = shown.case.init or {}
    words = ", ".join(f"{k}={v!r}" for k, v in init.items())
    return f"{evidence.exercise.name}({words})"


def _everything(evidence: Evidence, shown: Failure) -> Iterator[str]:
    """Yield what was tried, what is wrong, the inputs and the difference."""
    problem, inputs = shown.problem, evidence.exercise.inputs
    conditions = [x.condition for x in evidence.oracle.cases]
    first = evidence.failures[0].case.condition
    if passed := dict.fromkeys(conditions[: conditions.index(first)]):
        yield "right so far: " + "; ".join(passed)
    text = problem.text(evidence.exercise.returns)
    yield f"wrong when {shown.case.condition}: {text}"
    yield from _expected(evidence, shown)
    if shown.case.init:
        yield f"  {_made(evidence, shown)}"
    for earlier in shown.case.before:
        words = ", ".join(
            brief(n, x)
            for n, x in inputs(earlier).items()
            if x is None or isinstance(x, Tensor | Number)
        )
        b = "b " if earlier.another else ""
        yield f"  {b}called earlier with  {words}"
    width = max([8, *map(len, inputs(shown.case))])
    for n, x in inputs(shown.case).items():
        yield f"  {n:<{width}}  {describe(x)}"
    if problem.wrong is not None:
        yield from difference_lines(
            problem.wrong, problem.got, problem.expected
        )


def _printed(shown: Failure) -> Iterator[str]:
    """Yield what an answer printed, its first lines."""
    if printed := shown.outcome.printed.strip().splitlines():
        yield "what it printed there:"
        yield from (f"  | {line[:70]}" for line in printed[:20])
        if len(printed) > 20:
            yield f"  | … {len(printed) - 20} more lines"


def most_telling(failures: list[Failure]) -> Failure:
    """Return a small failure from which a place can be told.

    It is of the first wrong condition, or of the next if the results of the
    first have one or two elements only; with right elements, if it can be.
    """

    def cost(failure: Failure) -> tuple[bool, int]:
        wrong = failure.problem.wrong
        all_wrong = wrong is not None and bool(wrong.all())
        return all_wrong, input_size(failure.case)

    wrong = [(f, f.problem.wrong) for f in failures]
    telling = [f for f, x in wrong if x is None or x.numel() >= _FEW]
    telling = telling or failures
    first = telling[0].case.condition
    return min((f for f in telling if f.case.condition == first), key=cost)


def question(text: str) -> str:
    """Return the question that ends a paragraph, else its last sentence."""
    return re.split(_SENTENCES, text.strip())[-1]


def _count(lines: Iterable[str]) -> int:
    return sum(len(wrapped(x, "  ")) for x in lines)
