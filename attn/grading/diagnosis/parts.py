"""Hold the parts of a refusal, for a front end that sets them apart."""

from __future__ import annotations

from dataclasses import dataclass

from attn.grading.checks.show import Grid


@dataclass(frozen=True)
class Parts:
    """The parts of a refusal; those that it lacks are empty.

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
