"""Sum up the recorded runs of an experiment, a row for each claim."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from attn.publishing.claims import record


@dataclass(frozen=True)
class Row:
    """A claim and what its runs gave.

    Args:
        text: the claim.
        bound: the bound of the run with the least margin, with its side.
        values: of each kind of run, the value with the least margin, or
            ``""`` where the claim is about other runs.
        margin: the least margin of all runs.
        bar: where the bound is, from 0 to 100 on the claim's own scale.
        good: where the claim holds: a beginning and a length.
        dots: where its runs are.
    """

    text: str
    bound: str
    values: tuple[str, ...]
    margin: str
    bar: float
    good: tuple[float, float]
    dots: list[float]


@dataclass(frozen=True)
class Table:
    """Hold what the book shows of an experiment.

    Args:
        columns: the kinds of run, as headings.
        rows: the claims.
        provenance: machine, versions, date and commit.
    """

    columns: tuple[str, ...]
    rows: list[Row]
    provenance: str


def chapter(stem: str) -> dict[str, Table]:
    """Return the table of each experiment of a chapter, by name."""
    return {
        name: Table(columns(entry), rows(entry), provenance(entry))
        for name, entry in record.chapter(stem).items()
    }


def columns(entry: dict[str, Any]) -> tuple[str, ...]:
    """Return the kinds of run that an experiment has, as headings."""
    return tuple(heading for heading, _ in _kinds(entry))


def rows(entry: dict[str, Any]) -> list[Row]:
    """Return a row for each claim of an experiment, in its order."""
    texts = dict.fromkeys(
        one["text"] for run in entry["runs"] for one in run["claims"]
    )
    return [_row(entry, text) for text in texts]


def provenance(entry: dict[str, Any]) -> str:
    """Return a record's machine, versions, date and commit in one line."""
    about = entry["about"]
    versions = ", ".join(f"{k} {v}" for k, v in about["versions"].items())
    commit = about["commit"] or "unknown"
    commit += " and changes" if about["changed"] else ""
    return f"{about['cpu']}; {versions}; {about['date']}; commit {commit}"


def number(value: float, digits: int = 3) -> str:
    """Return a number as it is set: a power of ten is one."""
    figures, _, power = f"{value:.{digits}g}".partition("e")
    if not power:
        return figures
    return f"{figures}·10<sup>{int(power)}</sup>".removeprefix("1·")


def _row(entry: dict[str, Any], text: str) -> Row:
    made = [
        (run, one)
        for run in entry["runs"]
        for one in run["claims"]
        if one["text"] == text
    ]
    least = min((one for _, one in made), key=_margin)
    values = []
    for _, belongs in _kinds(entry):
        found = [one for run, one in made if belongs(run)]
        worst = min(found, key=_margin, default=None)
        values.append(number(worst["value"]) if worst else "")
    side = "above" if least["above"] else "below"
    bar, *dots = places([least["bound"], *(one["value"] for _, one in made)])
    return Row(
        text,
        f"{side} {number(least['bound'])}",
        tuple(values),
        number(least["margin"], 2),
        bar,
        (bar, 100 - bar) if least["above"] else (0, bar),
        dots,
    )


def places(values: list[float]) -> list[float]:
    """Return where values are between 4 and 96, the least and the greatest."""
    low, high = min(values), max(values)
    return [round(4 + 92 * (x - low) / (high - low or 1), 1) for x in values]


def _kinds(
    entry: dict[str, Any],
) -> list[tuple[str, Callable[[dict[str, Any]], bool]]]:
    """Return the headings and tests of an experiment's kinds of run.

    The runs come in the order of ``run.plan``: the page's steps, twice these,
    and the longer run's.
    """
    found: list[tuple[str, Callable[[dict[str, Any]], bool]]] = []
    for steps in dict.fromkeys(run["steps"] for run in entry["runs"]):
        seeds = sum(run["steps"] == steps for run in entry["runs"])
        heading = f"{steps:,} steps" if steps else ""
        heading += f"{', ' if steps else ''}{seeds} seeds" * (seeds > 1)

        def belongs(run: dict[str, Any], steps: int | None = steps) -> bool:
            return run["steps"] == steps

        found.append((heading, belongs))
    return found


def _margin(one: dict[str, Any]) -> float:
    return one["margin"]
