"""Explain a wrong answer to a learner, in a few lines and in full.

A refusal is read in five seconds: the name of the mistake, or the place; one
question; one small call, as Python. All that is known is in the details.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from attn.exercises.call import call_of
from attn.exercises.literal import brief, describe
from attn.exercises.wrapping import WIDTH, wrapped
from attn.grading.checks.evidence import Evidence, Failure
from attn.grading.checks.inputs import input_size, named_tensors
from attn.grading.checks.show import (
    Grid,
    difference_lines,
    elements,
    grid,
    how_many,
    listing,
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
        call: the failing call, as Python.
        cell: lines of a notebook that make it.
        details: all that is known, but for the name.
        shown: the failure that all this is about.
        evidence: all that was observed.
    """

    title: str
    label: str = ""
    question: str = ""
    condition: str = ""
    what: str = ""
    more: tuple[str, ...] = ()
    elements: tuple[tuple[str, str, str], ...] = ()
    grid: Grid | None = None
    call: str = ""
    cell: str = ""
    details: str = ""
    shown: Failure | None = field(default=None, repr=False, compare=False)
    evidence: Evidence | None = field(default=None, repr=False, compare=False)


def explain(evidence: Evidence, diagnosis: Diagnosis) -> tuple[str, Parts]:
    """Return a refusal in about five lines, at most twelve, and in parts."""
    shown = most_telling(evidence.failures)
    problem, returns = shown.problem, evidence.exercise.returns
    place, sentences = _without_a_name(evidence, diagnosis, shown)
    what, *more = _what(evidence, shown)
    if not diagnosis.name:
        more += _expected(evidence, shown)
    call = call_of(evidence.exercise, shown.case, evidence.answer)
    found, matrix = [], None
    called = [f"  {x}" for x in call.lines(WIDTH - 4, True)]
    lines = [f"wrong when {shown.case.condition}: {what}", *more]
    if problem.wrong is not None:
        difference = problem.wrong, problem.got, problem.rounded
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
        told = [*first, *lines, whys[0], *called]
        is_long = len(whys) > 1 or _count(told) > _USUAL
        last = [asked if is_long else whys[0]]
    else:
        notes = getattr(shown.outcome.error, "__notes__", [])
        first, last = place, [*notes, *sentences][:1]
        label, title, asked = "", "".join(place), "".join(last)
    details = [*_everything(evidence, shown), *place, *sentences]
    details += [*_of_other_kinds(evidence, shown), *_printed(shown)]
    parts = Parts(
        title or what,
        label,
        asked,
        shown.case.condition,
        what if title else "",
        tuple(more),
        tuple(found),
        matrix,
        "\n".join(called),
        call.cell,
        "\n".join([*whys, *details]),
        shown,
        evidence,
    )
    text, end = [*first, *lines], [*last, *called]
    while len(text) > 1 and _count([*text, *end]) > _MOST:
        del text[-1]
    return "\n".join([*text, *end]), parts


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


def _everything(evidence: Evidence, shown: Failure) -> Iterator[str]:
    """Yield what was tried, what is wrong, the inputs and the difference."""
    problem, inputs = shown.problem, evidence.exercise.inputs(shown.case)
    conditions = [x.condition for x in evidence.oracle.cases]
    first = evidence.failures[0].case.condition
    if passed := dict.fromkeys(conditions[: conditions.index(first)]):
        yield "right so far: " + "; ".join(passed)
    text = problem.text(evidence.exercise.returns)
    yield f"wrong when {shown.case.condition}: {text}"
    yield from _expected(evidence, shown)
    for earlier in (*shown.case.before, shown.case):
        b = "of another object, " if earlier.another else ""
        when = "" if earlier is shown.case else f"{b}called earlier:  "
        call = call_of(evidence.exercise, earlier, evidence.answer)
        first, *below = call.lines(WIDTH - 4 - len(when))
        yield from (f"  {when}{first}", *(f"    {x}" for x in below))
    width = max([8, *map(len, inputs)])
    for n, x in inputs.items():
        yield f"  {n:<{width}}  {describe(x)}"
    if problem.wrong is not None:
        yield from difference_lines(
            problem.wrong, problem.got, problem.rounded
        )


def _of_other_kinds(evidence: Evidence, shown: Failure) -> Iterator[str]:
    """Yield where it is wrong in other ways too, such as with an error."""
    known = {shown.problem.kind}
    for failure in evidence.failures:
        if (what := failure.problem).kind not in known:
            known.add(what.kind)
            text = what.text(evidence.exercise.returns).partition("\n")[0]
            when = failure.case.condition
            yield f"and when {when}: {textwrap.shorten(text, 130)}"


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
    first have one or two elements only. Its axes have several entries, and
    not as many as one another; and some elements are right, if it can be.
    """

    def cost(failure: Failure) -> tuple[bool, bool, bool, int]:
        case, wrong = failure.case, failure.problem.wrong
        all_wrong = wrong is not None and bool(wrong.all())
        first = next(named_tensors([case.args, dict(case.kwargs)]), None)
        of = first[1] if wrong is None and first else wrong
        shape = () if of is None else of.shape
        hidden = len(shape) > 1 and 1 in shape
        alike = len({*shape}) < len(shape)
        return hidden, alike, all_wrong, input_size(case)

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
