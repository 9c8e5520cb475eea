"""Show results in a terminal of any width."""

from __future__ import annotations

from collections.abc import Iterator

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table
from rich.text import Text

from attn.grading.classroom.reports.class_ import Class, Learner
from attn.grading.classroom.reports.wording import (
    headline,
    is_open,
    number,
    plural,
    share,
    sign,
)
from attn.grading.classroom.result import Mark, Result

_STYLES = {"✓": "green", "✗": "red", "·": "dim"}
_WIDE = 64  # columns of text from which on a diagnosis fits beside the rest


class View:
    """A table of a class, for rich's ``Console.print``.

    A class has a row for each submission and a total. A single submission
    has a row for each exercise. A narrow terminal shows fewer columns.

    Args:
        class_: what to show.
    """

    def __init__(self, class_: Class) -> None:
        self.class_ = class_

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        learners, results = self.class_.learners, self.class_.results
        is_one = len(results) == len(learners) == 1
        if is_one and results[0].status == "graded":
            yield _exercises(results[0], options.max_width)
            worth = _worth(learners[0])
            yield Text(f"{results[0].submission}  {worth} points", "bold")
            for note in (*learners[0].by_hand, *results[0].notes):
                yield Text(f"note: {note}")
        else:
            yield _submissions(self.class_, options.max_width)
            yield Text(_total(self.class_), "bold")


def _submissions(class_: Class, width: int) -> Table:
    has_chapter = len(class_.chapters) > 1 and width >= _WIDE
    says_why = width - 26 * has_chapter >= _WIDE
    view = _table(width)
    view.add_column("learner", max_width=24)  # the one that shrinks
    if has_chapter:
        view.add_column("chapter", no_wrap=True)
    view.add_column("points", justify="right", no_wrap=True)
    view.add_column("exercises", no_wrap=True)
    if says_why:
        view.add_column("what went wrong", ratio=1)
    for learner in class_.learners:
        several = len(learner.results) > max(1, len(learner.counted))
        for result in learner.results:
            name = result.submission if several else learner.name
            is_alone = len(learner.results) == 1
            view.add_row(
                _short(name),
                *[_short(result.chapter or "")] * has_chapter,
                _worth(learner if is_alone else result),
                _signs(result),
                *[_short(_first_wrong(result))] * says_why,
            )
        if not learner.results:
            cells = _short(learner.name), *[Text("")] * has_chapter
            view.add_row(*cells, _worth(learner), Text(learner.status, "red"))
    return view


def _exercises(result: Result, width: int) -> Table:
    view = _table(width)
    view.add_column("", no_wrap=True)
    view.add_column("exercise", no_wrap=width >= _WIDE)
    view.add_column("points", justify="right", no_wrap=True)
    if width >= _WIDE:
        view.add_column("what went wrong", ratio=1)
    for mark in result.marks:
        lines = [] if mark.passed else [headline(mark)]
        why = Text("\n".join([*lines, *(f"note: {x}" for x in mark.notes)]))
        name = _short(mark.exercise)
        if width < _WIDE and why:
            name = Text.assemble(mark.exercise, "\n", why)
        signs = Text(sign(mark), _STYLES[sign(mark)])
        view.add_row(signs, name, _worth(mark), *[why] * (width >= _WIDE))
    return view


def _table(width: int) -> Table:
    return Table(
        box=box.SIMPLE_HEAD,
        expand=width >= _WIDE,
        pad_edge=False,
        show_edge=False,
    )


def _short(text: str) -> Text:
    """Return a text of one line, however narrow its column is."""
    return Text(text, no_wrap=True, overflow="ellipsis")


def _worth(scored: Learner | Result | Mark) -> Text:
    """Return the points, and of how many; a dash if nothing was graded."""
    is_nothing = isinstance(scored, Result) and scored.status == "unreadable"
    if is_nothing or (isinstance(scored, Learner) and not scored.has_points):
        return Text("–")
    most = f"/{number(scored.max_points)}" if scored.max_points else ""
    return Text(f"{number(scored.points)}{most}")


def _signs(result: Result) -> Text:
    if result.status == "unreadable":
        return Text("unreadable", "red")
    signs = map(sign, result.marks)
    return Text.assemble(*((x, _STYLES[x]) for x in signs))


def _first_wrong(result: Result) -> str:
    """Return the first thing that went wrong, and how many more there are."""
    failed = [x for x in result.marks if not x.passed]
    if result.status == "unreadable" or not failed:
        return " ".join(result.message.split())
    first = next((x for x in failed if not is_open(x)), failed[0])
    more = f" (+{len(failed) - 1})" if len(failed) > 1 else ""
    return f"{first.exercise}{more}: {headline(first)}"


def _total(class_: Class) -> str:
    """Return the last line: nothing that was handed in is left out."""
    got = sum(x.points for x in class_.learners)
    most = sum(x.max_points or class_.max_points for x in class_.graded)
    again = [x for x in class_.learners if x.replaced]
    dated = all(x.attempt for learner in again for x in learner.results)
    rule = "the latest" if dated else "the best one"
    parts = [
        plural(len(class_.results), "submission"),
        f"{number(got)}/{number(most)} points ({share(got, most):.0f} %)",
    ]
    if class_.unreadable:
        parts.append(f"{len(class_.unreadable)} unreadable")
    if class_.absent:
        parts.append(f"{len(class_.absent)} handed in nothing")
    if again:
        count = sum(len(x.replaced) for x in again)
        parts.append(f"{count} handed in again: {rule} counts")
    chapter = "".join(f"{x}: " for x in class_.chapters)
    return chapter * (len(class_.chapters) == 1) + ", ".join(parts)
