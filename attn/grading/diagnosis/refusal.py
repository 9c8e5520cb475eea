"""Explain a wrong answer to a learner, in a few lines and in full.

A refusal is read in five seconds: the name of the mistake, or the place; one
small input; one question. All that is known is in the details.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable
from functools import cached_property
from typing import Any

from attn.grading.checks.evidence import Evidence, Failure
from attn.grading.checks.inputs import named_tensors
from attn.grading.checks.show import (
    brief,
    difference_lines,
    elements,
    grid,
    how_many,
    listing,
    wrapped,
)
from attn.grading.diagnosis import failing_input
from attn.grading.diagnosis.locate import about, places
from attn.grading.diagnosis.most_telling import most_telling
from attn.grading.diagnosis.naming import Diagnosis
from attn.grading.diagnosis.parts import Parts

_USUAL, _MOST = 5, 12  # lines between the header and the last one
_SENTENCES = re.compile(r"(?:(?<=[.?!:])|(?<=[.?!]\)))\s+(?=[A-Z`\"(])")


class Refusal:
    """A wrong answer in words.

    Args:
        evidence: all that was observed.
        diagnosis: the names that explain it, if there are any.
    """

    def __init__(self, evidence: Evidence, diagnosis: Diagnosis) -> None:
        self._evidence, self._diagnosis = evidence, diagnosis
        self._exercise = evidence.exercise
        self._shown = most_telling(evidence.failures)

    @property
    def message(self) -> str:
        """The refusal in about five lines, and at most twelve."""
        if self.is_stub:
            return (
                "not written yet: the stub still raises NotImplementedError. "
                f'hint("{self._exercise.id}") gives a hint.'
            )
        return "\n".join(self._named() if self._names else self._located())

    @property
    def details(self) -> str:
        """The refusal with all that is known."""
        if not (parts := self.parts):
            return ""
        name = f"{parts.label}: {parts.title}\n" if parts.label else ""
        return name + parts.details

    @cached_property
    def parts(self) -> Parts | None:
        """The refusal in parts, for a front end; None for a stub."""
        if self.is_stub:
            return None
        problem, found, matrix = self._shown.problem, [], None
        what, *more = self._what()
        if problem.wrong is not None:
            what = f"{problem.part.name(self._exercise.returns)} "
            what += problem.message
            if problem.wrong.numel() > 1:
                what += f" in {how_many(problem.wrong)}"
            found = elements(problem.wrong, problem.got, problem.expected, 4)
            matrix = grid(problem.wrong, problem.got)
        label, title, pointer = "", "".join(self._places[:1]), self._pointer
        explained = self._diagnosis.lines[1:]
        if self._names:
            label, title = self._diagnosis.headline
            pointer = [question(explained[0])]
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
            "\n".join([*explained, *self._everything()]),
        )

    @property
    def is_stub(self) -> bool:
        """Tell a stub, in which nothing has been written, from an answer."""
        error = self._evidence.failures[0].outcome.error
        return isinstance(error, NotImplementedError)

    @property
    def _names(self) -> bool:
        return bool(self._diagnosis.names)

    @cached_property
    def _places(self) -> list[str]:
        if self._diagnosis.name or self._shown.problem.kind == "random":
            return []
        return places(self._evidence, self._shown)

    @cached_property
    def _about(self) -> list[str]:
        if self._diagnosis.name or self._shown.problem.kind == "random":
            return []
        return about(self._evidence, self._shown)

    @property
    def _inputs(self) -> list[str]:
        return failing_input.in_a_line(self._exercise, self._shown.case)

    def _named(self) -> list[str]:
        """Return the name, the input, and the question or all of its text."""
        name, *paragraphs = self._diagnosis.lines
        lines = [name, *self._difference(), *self._inputs]
        if not self._diagnosis.everywhere:
            lines += self._places[:1]
        text = paragraphs[0]
        if len(paragraphs) > 1 or _count([*lines, text]) > _USUAL:
            text = question(text)
        return _fitting([*lines, text])

    def _located(self) -> list[str]:
        """Return the place, the input, the numbers and a second sentence."""
        lines = [*self._places[:1], *self._difference(), *self._inputs]
        problem = self._shown.problem
        if problem.wrong is not None:
            lines += listing(problem.wrong, problem.got, problem.expected, 4)
        return _fitting([*lines, *self._pointer])

    @property
    def _pointer(self) -> list[str]:
        """The sentence that helps most where there is no name, if any."""
        notes = getattr(self._shown.outcome.error, "__notes__", [])
        rest = self._places[1:]
        return [*notes, *self._properties(), *rest, *self._about][:1]

    def _difference(self) -> list[str]:
        """Return the condition and what is wrong in it, an error in short."""
        what, *more = self._what()
        return [f"wrong when {self._shown.case.condition}: {what}", *more]

    def _what(self) -> list[str]:
        shown, problem = self._shown, self._shown.problem
        what, *more = problem.text(self._exercise.returns).splitlines()
        if shown.outcome.error is None:
            return [what, *more]
        what = textwrap.shorten(what, 130, placeholder=" …")
        more = [x if len(x) <= 76 else f"{x[:74]} …" for x in more[:1]]
        is_named = bool(self._diagnosis.name)
        return [what, *more, *([] if is_named else self._expected())]

    def _expected(self) -> list[str]:
        """Say what an answer that raised an error should have returned."""
        output = self._evidence.expected(self._shown.index).output
        if not self._shown.problem.message.startswith("it raised"):
            return []  # it says so itself
        if isinstance(output, dict):
            errors = {k: x for k, x in output.items() if "Error" in str(x)}
            output = [f"{k}: {x}" for k, x in errors.items()] or output
        if isinstance(output, tuple | list):
            names = self._exercise.returns or [""] * len(output)
            pairs = zip(names, output, strict=False)
            text = ", ".join(brief(n, x).strip() for n, x in pairs)
        else:
            text = brief("", output).strip()
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
        yield from failing_input.line_by_line(self._exercise, shown.case)
        if problem.wrong is not None:
            yield from difference_lines(
                problem.wrong, problem.got, problem.expected
            )
        yield from [*self._places, *self._about, *self._properties()]
        if printed := shown.outcome.printed.strip().splitlines():
            yield "what it printed there:"
            yield from (f"  | {line[:70]}" for line in printed[:20])
            if len(printed) > 20:
                yield f"  | … {len(printed) - 20} more lines"

    def _properties(self) -> list[str]:
        """Return the claims about right results that do not hold."""
        shown = self._shown
        by_chance = shown.outcome.error or shown.problem.kind == "random"
        if self._diagnosis.name or by_chance or _has_nan(shown):
            return []  # of NaN nothing holds
        claims = self._exercise.properties
        return [x.says for x in claims if not _holds(x.holds, shown)]


def question(text: str) -> str:
    """Return the question that ends a paragraph, else its last sentence."""
    return re.split(_SENTENCES, text.strip())[-1]


def _count(lines: Iterable[str]) -> int:
    return sum(len(wrapped(x, "  ")) for x in lines)


def _fitting(lines: list[str]) -> list[str]:
    """Return the lines that fit, the first ones and the last."""
    kept = [*lines]
    while len(kept) > 2 and _count(kept) > _MOST:
        del kept[-2]
    return kept


def _has_nan(failure: Failure) -> bool:
    tensors = named_tensors(failure.outcome.output)
    return any(not x.is_meta and bool(x.isnan().any()) for _, x in tensors)


def _holds(holds: Any, failure: Failure) -> bool:
    try:
        return bool(holds(failure.case, failure.outcome.output))
    except Exception:  # a claim about a result of another shape
        return True
