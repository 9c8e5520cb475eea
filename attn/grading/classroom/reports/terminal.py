"""Show results in a terminal of any width."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table
from rich.text import Text

from attn.grading.classroom.marks import Remark
from attn.grading.classroom.reports.batch import Batch
from attn.grading.classroom.reports.learner import Learner
from attn.grading.classroom.reports.wording import (
    headline,
    number,
    plural,
    remarks,
    share,
    sign,
    wrong_in_short,
)
from attn.grading.classroom.result import Result

_STYLES = {"✓": "green", "✗": "red", "·": "dim", "✎": ""}
_WIDE = 64  # columns of text from which on a diagnosis fits beside the rest


def table(
    results: Iterable[Result],
    remarks: Mapping[str, Remark] | None = None,
    absent: Iterable[str] = (),
) -> RenderableType:
    """Return a table of results, for rich's ``Console.print``.

    A class has a row for each submission and a total. A single submission
    has a row for each exercise. A narrow terminal shows fewer columns.
    """
    return _Results(Batch.of(results, remarks, absent))


class _Results:
    """Choose the columns when the width of the terminal is known."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        results = self.batch.results
        is_one = len(results) == len(self.batch.learners) == 1
        if is_one and results[0].status == "graded":
            yield _exercises(results[0], options.max_width)
            yield from _remarks(self.batch.learners[0], results[0])
        else:
            yield _submissions(self.batch, options.max_width)
            yield Text(_total(self.batch), style="bold")


def _submissions(batch: Batch, width: int) -> Table:
    has_chapter = len(batch.chapters) > 1 and width >= _WIDE
    says_why = width - 26 * has_chapter >= _WIDE
    view = _table(width)
    view.add_column("learner", max_width=24)  # the one that shrinks
    if has_chapter:
        view.add_column("chapter", no_wrap=True)
    view.add_column("points", justify="right", no_wrap=True)
    view.add_column("exercises", no_wrap=True)
    if says_why:
        view.add_column("what went wrong", ratio=1)
    for learner in batch.learners:
        several = len(learner.results) > max(1, len(learner.counted))
        for result in learner.results:
            name = result.submission if several else learner.name
            cells = [_short(name)]
            if has_chapter:
                cells.append(_short(result.chapter or ""))
            alone = None if len(learner.results) > 1 else learner
            cells += [_points(result, alone), _signs(result)]
            if says_why:
                cells.append(_short(wrong_in_short(result)))
            view.add_row(*cells)
        if not learner.results:
            cells = [_short(learner.name), *[Text("")] * has_chapter]
            points = _of(learner) if learner.has_points else Text("–")
            view.add_row(*cells, points, Text(learner.status, style="red"))
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
        cells = [Text(sign(mark), _STYLES[sign(mark)]), _short(mark.exercise)]
        if width < _WIDE and why:
            cells[1] = Text.assemble(mark.exercise, "\n", why)
        worth = f"{number(mark.points)}/{number(mark.max_points)}"
        cells.append(Text(worth))
        view.add_row(*cells, *([why] if width >= _WIDE else ()))
    return view


def _remarks(learner: Learner, result: Result) -> Iterator[Text]:
    """Yield the total, and what is odd about the file."""
    whole = f"{_of(learner)} points"
    yield Text(f"{result.submission}  {whole}", style="bold")
    yield from (Text(f"by hand: {x}") for x in learner.by_hand)
    for note in remarks(result):
        yield Text(f"note: {note}")


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


def _points(result: Result, alone: Learner | None) -> Text:
    """Return the points of a submission, or of the learner whose it is."""
    if alone and alone.remark.points is not None:
        return _of(alone)
    if result.status == "unreadable":
        return Text("–")
    return Text(f"{number(result.points)}/{number(result.max_points)}")


def _of(learner: Learner) -> Text:
    most = f"/{number(learner.max_points)}" if learner.counted else ""
    return Text(f"{number(learner.points)}{most}")


def _signs(result: Result) -> Text:
    if result.status == "unreadable":
        return Text("unreadable", style="red")
    signs = [sign(x) for x in result.marks]
    return Text.assemble(*((x, _STYLES[x]) for x in signs))


def _total(batch: Batch) -> str:
    """Return the last line: nothing that was handed in is left out."""
    got = sum(x.points for x in batch.learners)
    most = sum(x.max_points or batch.max_points for x in batch.graded)
    parts = [
        plural(len(batch.submissions), "submission"),
        f"{number(got)}/{number(most)} points ({share(got, most):.0f} %)",
    ]
    if batch.unreadable:
        parts.append(f"{len(batch.unreadable)} unreadable")
    if batch.absent:
        parts.append(f"{len(batch.absent)} handed in nothing")
    if hand := sum(bool(x.by_hand) for x in batch.learners):
        parts.append(f"{plural(hand, 'learner')} with marks by hand")
    again = len(batch.results) - len(batch.counted) - len(batch.unreadable)
    if again:
        parts.append(f"{again} handed in again: {_rule(batch)} counts")
    chapter = (
        f"{next(iter(batch.chapters))}: " if len(batch.chapters) == 1 else ""
    )
    return chapter + ", ".join(parts)


def _rule(batch: Batch) -> str:
    """Say which of the attempts at a chapter counts."""
    again = [x for x in batch.learners if x.replaced]
    if all(x.attempt for learner in again for x in learner.results):
        return "the latest"
    return "the best one"
