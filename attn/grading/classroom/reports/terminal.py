"""Show results in a terminal of any width."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from attn.grading.classroom.reports import plural, share
from attn.grading.classroom.reports.class_ import Class, Learner
from attn.grading.classroom.result import Mark, Result, number

_STYLES = {"✓": "green", "✗": "red", "·": "dim"}
#: The first two and the last shrink where a terminal is narrow.
_COLUMNS: dict[str, dict[str, Any]] = {
    "learner": {"max_width": 24},
    "exercise": {},
    "points": {"justify": "right", "no_wrap": True},
    "what went wrong": {"ratio": 1},
}


def show(class_: Class, console: Console) -> None:
    """Print a table of a class.

    A class has a row for each submission and a total. A single submission
    has a row for each exercise.
    """
    learners, results = class_.learners, class_.results
    notes: list[str] = []
    if len(results) == len(learners) == 1 and results[0].status == "graded":
        heads, rows = ["", "exercise", "points"], _exercises(results[0])
        total = f"{results[0].submission}  {_worth(learners[0])} points"
        notes = [*learners[0].by_hand, *results[0].notes]
    else:
        several = len(class_.chapters) > 1
        heads = ["learner", *["chapter"] * several, "points", "exercises"]
        rows = _submissions(class_, several)
        total = _total(class_)
    table = Table(
        box=box.SIMPLE_HEAD, expand=True, pad_edge=False, show_edge=False
    )
    for head in (*heads, "what went wrong"):
        table.add_column(head, **_COLUMNS.get(head, {"no_wrap": True}))
    for row in rows:
        table.add_row(*row)
    console.print(table, Text(total, "bold"))
    for note in notes:
        console.print(Text(f"note: {note}"))


def _submissions(class_: Class, has_chapter: bool) -> Iterator[list[Text]]:
    for learner in class_.learners:
        own = learner.results
        again = len(own) > max(1, len(learner.counted))
        for x in own:
            yield [
                _short(x.submission if again else learner.name),
                *[_short(x.chapter or "")] * has_chapter,
                _worth(learner if len(own) == 1 else x),
                _signs(x),
                _short(_first_wrong(x)),
            ]
        if not own:
            cells = [_short(learner.name), *[Text("")] * has_chapter]
            yield [*cells, _worth(learner), Text(learner.status, "red")]


def _exercises(result: Result) -> Iterator[list[Text]]:
    for x in result.marks:
        why = [x.headline] if not x.passed else []
        why += [f"note: {note}" for note in x.notes]
        sign = Text(x.sign, _STYLES[x.sign])
        yield [sign, _short(x.exercise), _worth(x), Text("\n".join(why))]


def _short(text: str) -> Text:
    """Return a text of one line, however narrow its column is."""
    return Text(text, no_wrap=True, overflow="ellipsis")


def _worth(scored: Learner | Result | Mark) -> Text:
    """Return the points, and of how many; a dash if nothing was graded."""
    if isinstance(scored, Result) and scored.status == "unreadable":
        return Text("–")
    if isinstance(scored, Learner) and not scored.has_points:
        return Text("–")
    most = f"/{number(scored.max_points)}" if scored.max_points else ""
    return Text(f"{number(scored.points)}{most}")


def _signs(result: Result) -> Text:
    if result.status == "unreadable":
        return Text("unreadable", "red")
    return Text.assemble(*((x.sign, _STYLES[x.sign]) for x in result.marks))


def _first_wrong(result: Result) -> str:
    """Return the first thing that went wrong, and how many more there are."""
    failed = [x for x in result.marks if not x.passed]
    if not failed:
        return " ".join(result.message.split())
    first = next((x for x in failed if not x.is_open), failed[0])
    more = f" (+{len(failed) - 1})" if len(failed) > 1 else ""
    return f"{first.exercise}{more}: {first.headline}"


def _total(class_: Class) -> str:
    """Return the last line: nothing that was handed in is left out."""
    learners = class_.learners
    got = number(sum(x.points for x in learners))
    most = sum(x.max_points or class_.max_points for x in class_.graded)
    again = [x for x in learners if x.replaced]
    dated = all(x.attempt for learner in again for x in learner.results)
    rule = "the latest" if dated else "the best one"
    counts = {
        "unreadable": len(class_.unreadable),
        "handed in nothing": sum(not x.results for x in learners),
        f"handed in again: {rule} counts": sum(len(x.replaced) for x in again),
    }
    parts = [
        plural(len(class_.results), "submission"),
        f"{got}/{number(most)} points ({share(got, most):.0f} %)",
        *(f"{count} {what}" for what, count in counts.items() if count),
    ]
    chapter = f"{[*class_.chapters][0]}: " if len(class_.chapters) == 1 else ""
    return chapter + ", ".join(parts)
