"""Explain a wrong answer to a learner, in a few lines and in full.

A refusal is read in five seconds: the name of the mistake, or the place; one
small input; one question. All that is known is in the details.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
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


class Refusal:
    """A wrong answer in words.

    Args:
        evidence: all that was observed.
        diagnosis: the names that explain it, if there are any.
    """

    def __init__(self, evidence: Evidence, diagnosis: Diagnosis) -> None:
        self._evidence, self._diagnosis = evidence, diagnosis
        self._exercise = evidence.exercise
        self._shown = shown = most_telling(evidence.failures)
        self._whys = [x.why for x in diagnosis.names]
        self._place: list[str] = []
        self._more: list[str] = []  # sentences, the most helpful first
        if not diagnosis.name and shown.problem.kind != "random":
            found = places(evidence, shown)
            self._place, rest = found[:1], found[1:]
            self._more = [*self._properties(), *rest, *about(evidence, shown)]

    @property
    def message(self) -> str:
        """The refusal in about five lines, and at most twelve."""
        what, *more = self._what()
        start = f"wrong when {self._shown.case.condition}: {what}"
        first, last, problem = self._place, self._pointer, self._shown.problem
        lines = [start, *more, *self._inputs]
        if self._whys:
            first = [": ".join(self._diagnosis.headline)]
            lines += self._place
            text, *others = self._whys
            is_long = others or _count([*first, *lines, text]) > _USUAL
            last = [question(text) if is_long else text]
        elif problem.wrong is not None:
            lines += listing(problem.wrong, problem.got, problem.expected, 4)
        return _fitting([*first, *lines, *last])

    @property
    def details(self) -> str:
        """The refusal with all that is known."""
        parts = self.parts
        name = f"{parts.label}: {parts.title}\n" if parts.label else ""
        return name + parts.details

    @cached_property
    def parts(self) -> Parts:
        """The refusal in parts."""
        problem, found, matrix = self._shown.problem, [], None
        what, *more = self._what()
        if problem.wrong is not None:
            what = f"{problem.part.name(self._exercise.returns)} "
            what += problem.message
            if problem.wrong.numel() > 1:
                what += f" in {how_many(problem.wrong)}"
            found = elements(problem.wrong, problem.got, problem.expected, 4)
            matrix = grid(problem.wrong, problem.got)
        label, title, pointer = "", "".join(self._place), self._pointer
        if self._whys:
            label, title = self._diagnosis.headline
            pointer = [question(self._whys[0])]
        return Parts(
            title or what,
            label,
            "".join(pointer),
            self._shown.case.condition,
            what if title else "",
            tuple(more),
            tuple(found),
            matrix,
            "".join(self._inputs).strip(),
            "\n".join([*self._whys, *self._everything()]),
        )

    @property
    def _pointer(self) -> list[str]:
        """The sentence that helps most where there is no name, if any."""
        notes = getattr(self._shown.outcome.error, "__notes__", [])
        return [*notes, *self._more][:1]

    def _what(self) -> list[str]:
        """Return what is wrong; an error in short, and what it hides."""
        shown, problem = self._shown, self._shown.problem
        what, *more = problem.text(self._exercise.returns).splitlines()
        if shown.outcome.error is None:
            return [what, *more]
        what = textwrap.shorten(what, 130, placeholder=" …")
        more = [x if len(x) <= 76 else f"{x[:74]} …" for x in more[:1]]
        return [what, *more, *([] if self._diagnosis.name else self._expected())]

    def _expected(self) -> list[str]:
        """Say what an answer that raised an error should have returned."""
        output = self._evidence.expected(self._shown.index).output
        if not self._shown.problem.message.startswith("it raised"):
            return []  # it says so itself
        if isinstance(output, dict):
            errors = {k: x for k, x in output.items() if "Error" in str(x)}
            output = [f"{k}: {x}" for k, x in errors.items()] or output
        entries, names = [output], [""]
        if isinstance(output, tuple | list):
            entries = [*output]
            names = [*self._exercise.returns] or [""] * len(output)
        pairs = zip(names, entries, strict=False)
        text = ", ".join(brief(n, x).strip() for n, x in pairs)
        return [f"  expected: {textwrap.shorten(text, 130, placeholder=' …')}"]

    def _everything(self) -> Iterable[str]:
        shown, problem = self._shown, self._shown.problem
        conditions = [x.condition for x in self._evidence.oracle.cases]
        first = self._evidence.failures[0].case.condition
        if passed := dict.fromkeys(conditions[: conditions.index(first)]):
            yield "right so far: " + "; ".join(passed)
        text = problem.text(self._exercise.returns)
        yield f"wrong when {shown.case.condition}: {text}"
        if shown.outcome.error:
            yield from self._expected()
        yield from self._arguments()
        if problem.wrong is not None:
            yield from difference_lines(
                problem.wrong, problem.got, problem.expected
            )
        yield from [*self._place, *self._more]
        if printed := shown.outcome.printed.strip().splitlines():
            yield "what it printed there:"
            yield from (f"  | {line[:70]}" for line in printed[:20])
            if len(printed) > 20:
                yield f"  | … {len(printed) - 20} more lines"

    @property
    def _inputs(self) -> list[str]:
        """The failing input in one line; a long one lacks tensors."""
        case, more = self._shown.case, ""
        inputs = {
            n: x
            for n, x in self._exercise.inputs(case).items()
            if x is not None and not isinstance(x, torch.Generator)
        }
        start = f"  {self._made}: " if case.init else "  "
        while True:
            words = [brief(n, x) for n, x in inputs.items()]
            line = f"{start}{', '.join(words)}{more}"
            tensors = [n for n, x in inputs.items() if isinstance(x, Tensor)]
            if len(line) <= WIDTH - 2 or not tensors:
                return [line] if len(wrapped(line, "  ")) <= 2 else []
            del inputs[tensors[-1]]
            more = ", …" if len(inputs) else "…"

    def _arguments(self) -> Iterator[str]:
        """Yield the failing input, one argument a line, and earlier calls."""
        case, inputs = self._shown.case, self._exercise.inputs
        if case.init:
            yield f"  {self._made}"
        for earlier in case.before:
            words = ", ".join(
                brief(n, x)
                for n, x in inputs(earlier).items()
                if x is None or isinstance(x, Tensor | Number)
            )
            b = "b " if earlier.another else ""
            yield f"  {b}called earlier with  {words}"
        width = max([8, *map(len, inputs(case))])
        for n, x in inputs(case).items():
            yield f"  {n:<{width}}  {describe(x)}"

    @property
    def _made(self) -> str:
        init = self._shown.case.init or {}
        words = ", ".join(f"{k}={v!r}" for k, v in init.items())
        return f"{self._exercise.name}({words})"

    def _properties(self) -> list[str]:
        """Return the claims about right results that do not hold."""
        shown, tensors = self._shown, named_tensors(self._shown.outcome.output)
        if shown.outcome.error:
            return []
        if any(not x.is_meta and bool(x.isnan().any()) for _, x in tensors):
            return []  # of NaN nothing holds
        claims = self._exercise.properties
        return [x.says for x in claims if not _holds(x.holds, shown)]


def _holds(holds: Any, failure: Failure) -> bool:
    try:
        return bool(holds(failure.case, failure.outcome.output))
    except Exception:  # a claim about a result of another shape
        return True


def most_telling(failures: list[Failure]) -> Failure:
    """Return a small failure from which a place can be told.

    It is of the first wrong condition, or of the next if the results of the
    first have one or two elements only; with right elements, if it can be.
    """

    def cost(failure: Failure) -> tuple[bool, int]:
        wrong = failure.problem.wrong
        all_wrong = wrong is not None and bool(wrong.all())
        return all_wrong, input_size(failure.case)

    def is_telling(failure: Failure) -> bool:
        wrong = failure.problem.wrong
        return wrong is None or wrong.numel() >= _FEW

    telling = [f for f in failures if is_telling(f)] or failures
    first = telling[0].case.condition
    return min((f for f in telling if f.case.condition == first), key=cost)


def question(text: str) -> str:
    """Return the question that ends a paragraph, else its last sentence."""
    return re.split(_SENTENCES, text.strip())[-1]


def _count(lines: Iterable[str]) -> int:
    return sum(len(wrapped(x, "  ")) for x in lines)


def _fitting(lines: list[str]) -> str:
    """Return the lines that fit, the first ones and the last."""
    kept = [*lines]
    while len(kept) > 2 and _count(kept) > _MOST:
        del kept[-2]
    return "\n".join(kept)
