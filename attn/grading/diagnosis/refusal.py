"""Explain a wrong answer to a learner, in a few lines and in full.

A refusal is read in five seconds: the name of the mistake, or the place; one
small input; one question. All that is known is in the details.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable
from functools import cached_property
from numbers import Number
from typing import Any

import torch
from torch import Tensor

from attn.exercises.case import Case
from attn.grading.checks.evidence import Evidence, Failure
from attn.grading.checks.inputs import input_size, named_tensors
from attn.grading.checks.show import (
    WIDTH,
    brief,
    describe,
    difference_lines,
    listing,
    wrapped,
)
from attn.grading.diagnosis.locate import about, places
from attn.grading.diagnosis.naming import Diagnosis

_USUAL, _MOST = 5, 12  # lines between the header and the last one
_FEW = 4  # elements, from which a place can be told
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
        if self._is_stub:
            return (
                "not written yet: the stub still raises NotImplementedError. "
                f'hint("{self._exercise.id}") gives a hint.'
            )
        return "\n".join(self._named() if self._names else self._located())

    @property
    def details(self) -> str:
        """The refusal with all that is known."""
        return "" if self._is_stub else "\n".join(self._everything())

    @property
    def _is_stub(self) -> bool:
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

    def _named(self) -> list[str]:
        """Return the name, the input, and the question or all of its text."""
        name, *paragraphs = self._diagnosis.lines
        lines = [name, *self._difference(), *self._inputs()]
        if not self._diagnosis.everywhere:
            lines += self._places[:1]
        text = paragraphs[0]
        if len(paragraphs) > 1 or _count([*lines, text]) > _USUAL:
            text = question(text)
        return _fitting([*lines, text])

    def _located(self) -> list[str]:
        """Return the place, the input, the numbers and a second sentence."""
        first, rest = self._places[:1], self._places[1:]
        lines = [*first, *self._difference(), *self._inputs()]
        problem = self._shown.problem
        if (
            problem.wrong is not None
            and not problem.got.dtype.is_floating_point
        ):
            rest = [*rest]
        if problem.wrong is not None:
            lines += listing(problem.wrong, problem.got, problem.expected, 4)
        notes = getattr(self._shown.outcome.error, "__notes__", [])
        lines += [*notes, *self._properties(), *rest, *self._about][:1]
        return _fitting(lines)

    def _difference(self) -> list[str]:
        """Return the condition and what is wrong in it, an error in short."""
        shown, problem = self._shown, self._shown.problem
        start = f"wrong when {shown.case.condition}: "
        what, *more = problem.text(self._exercise.returns).splitlines()
        if shown.outcome.error is None:
            return [start + what, *more]
        line = f"{start}{textwrap.shorten(what, 130, placeholder=' …')}"
        more = [x if len(x) <= 76 else f"{x[:74]} …" for x in more[:1]]
        is_named = bool(self._diagnosis.name)
        return [line, *more, *([] if is_named else self._expected())]

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

    def _inputs(self) -> list[str]:
        """Return the failing input in one line; a long one lacks tensors."""
        case = self._shown.case
        inputs = {
            n: x
            for n, x in self._exercise.inputs(case).items()
            if x is not None and not isinstance(x, torch.Generator)
        }
        start = f"  {self._made(case)}: " if case.init else "  "
        more = ""
        while True:
            words = [brief(n, x) for n, x in inputs.items()]
            line = f"{start}{', '.join(words)}{more}"
            tensors = [n for n, x in inputs.items() if isinstance(x, Tensor)]
            if len(line) <= WIDTH - 2 or not tensors:
                return [line] if len(wrapped(line, "  ")) <= 2 else []
            del inputs[tensors[-1]]
            more = ", …" if len(inputs) else "…"

    def _made(self, case: Case) -> str:
        words = ", ".join(f"{k}={v!r}" for k, v in (case.init or {}).items())
        return f"{self._exercise.name}({words})"

    def _everything(self) -> Iterable[str]:
        shown, problem = self._shown, self._shown.problem
        yield from self._diagnosis.lines
        conditions = [x.condition for x in self._evidence.oracle.cases]
        first = self._evidence.failures[0].case.condition
        if passed := dict.fromkeys(conditions[: conditions.index(first)]):
            yield "right so far: " + "; ".join(passed)
        text = problem.text(self._exercise.returns)
        yield f"wrong when {shown.case.condition}: {text}"
        if shown.outcome.error:
            yield from self._expected()
        yield from self._all_inputs(shown.case)
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

    def _all_inputs(self, case: Case) -> list[str]:
        """Return the input, one argument a line, and earlier calls."""
        inputs = self._exercise.inputs(case)
        lines = [f"  {self._made(case)}"] if case.init else []
        for earlier in case.before:
            words = ", ".join(
                brief(n, x)
                for n, x in self._exercise.inputs(earlier).items()
                if x is None or isinstance(x, Tensor | Number)
            )
            b = "b " if earlier.another else ""
            lines.append(f"  {b}called earlier with  {words}")
        width = max([8, *map(len, inputs)])
        return lines + [
            f"  {n:<{width}}  {describe(x)}" for n, x in inputs.items()
        ]

    def _properties(self) -> list[str]:
        """Return the claims about right results that do not hold."""
        shown = self._shown
        by_chance = shown.outcome.error or shown.problem.kind == "random"
        if self._diagnosis.name or by_chance or _has_nan(shown):
            return []  # of NaN nothing holds
        claims = self._exercise.properties
        return [x.says for x in claims if not _holds(x.holds, shown)]


def most_telling(failures: list[Failure]) -> Failure:
    """Return a small failure from which a place can be told.

    It is of the first wrong condition, or of the next if the results of the
    first have one or two elements only; with right elements, if it can be.
    """
    first = failures[0].case.condition
    for condition in dict.fromkeys(f.case.condition for f in failures):
        own = [f for f in failures if f.case.condition == condition]
        telling = [f for f in own if _size(f) >= _FEW]
        if telling:
            return min(telling, key=lambda f: (_all_wrong(f), _cost(f)))
    own = [f for f in failures if f.case.condition == first]
    return min(own, key=_cost)


def _cost(failure: Failure) -> int:
    return input_size(failure.case)


def _size(failure: Failure) -> int:
    """Return how many elements tell a place; any number, of another kind."""
    wrong = failure.problem.wrong
    return _FEW if wrong is None else wrong.numel()


def _all_wrong(failure: Failure) -> bool:
    wrong = failure.problem.wrong
    return wrong is not None and bool(wrong.all())


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
