"""Runs as tables, for the terminal and for a page, and as a figure."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from attn.bench.cases import CASES, find
from attn.bench.results import median, ratios, speed, spread
from attn.plot import BLUE, GREY, ORANGE, describe, figure

__all__ = [
    "figure_of",
    "goals",
    "pending",
    "printed",
    "provenance",
    "show",
    "times",
]

_OURS = ("auto", "triton", "triton_split_kv")


def provenance(run: dict[str, Any]) -> str:
    """Machine, versions, date and commit, in one line."""
    about = run["about"]
    versions = ", ".join(f"{k} {v}" for k, v in about["versions"].items())
    machine = about.get("gpu") or f"{about['cpu']}, {about['threads']} threads"
    commit = about["commit"] or "unknown"
    commit += " and changes" if about["changed"] else ""
    dry = " DRY RUN: the times mean nothing." if run["dry"] else ""
    return f"{machine}; {versions}; {about['date']}; commit {commit}.{dry}"


def printed(table: Table, width: int = 79) -> None:
    """A table as plain text, the same everywhere."""
    Console(width=width, force_jupyter=False, color_system=None).print(table)


def show(run: dict[str, Any]) -> None:
    """Print every table of a run."""
    console = Console()
    console.print(times(run))
    if not run["dry"]:
        console.print(goals(run))
    for one in run["pending"]:
        console.print(f"pending: {find(one['case']).title}: {one['why']}")
    console.print(provenance(run), soft_wrap=True)


def times(run: dict[str, Any]) -> Table:
    """Every peer of every case: time, spread, speed."""
    table = Table(title="Medians, interleaved")
    for name in ("case", "peer"):
        table.add_column(name)
    for name in ("ms", "spread", "speed", "peak"):
        table.add_column(name, justify="right")
    for case in run["cases"]:
        title = case["title"]
        for name, peer in case["peers"].items():
            if "missing" in peer:
                table.add_row(title, name, "-", "", peer["missing"][:40], "")
            else:
                table.add_row(title, name, *_figures(case, peer))
            title = ""
        table.add_section()
    return table


def _figures(case: dict[str, Any], peer: dict[str, Any]) -> list[str]:
    peak = peer.get("peak_bytes")
    return [
        f"{1000 * median(peer):.3g}",
        f"{100 * spread(peer):.0f} %",
        _speed(speed(peer), case["unit"]),
        "" if peak is None else f"{peak / 2**20:.0f} MiB",
    ]


def _speed(number: float, unit: str) -> str:
    size, letter = (1e12, "T") if number >= 1e12 else (1e9, "G")
    return f"{number / size:.3g} {letter}{'B' if unit == 'byte' else unit}/s"


def goals(run: dict[str, Any]) -> Table:
    """Every goal: what was hoped for, and what came out."""
    table = Table(title="Goals")
    for name in ("case", "goal", "measured", "it is"):
        table.add_column(name)
    for case in run["cases"]:
        title = case["title"]
        for goal, against, ratio, met in ratios(case):
            if goal.memory:
                hope = f"≤ {goal.at_most:g}x the memory of {against}"
            else:
                hope = f"{goal.ours} ≥ {goal.at_least:g}x {against}"
            mark = "met" if met else "missed"
            table.add_row(title, hope, f"{ratio:.3g}x", mark)
            title = ""
    return table


def pending(runs: list[dict[str, Any]]) -> list[str]:
    """Titles of the cases that none of these runs has measured."""
    done = {case["case"] for run in runs for case in run["cases"]}
    return [case.title for case in CASES if case.name not in done]


def figure_of(run: dict[str, Any], device: str = "cpu") -> Figure:
    """Each case's peers as bars of speed, ours being 1.

    Args:
        run: what was measured.
        device: ``"cpu"`` or ``"cuda"``.

    Raises:
        ValueError: nothing was measured there.
    """
    cases = [case for case in run["cases"] if case["device"] == device]
    if not cases:
        raise ValueError(f"device is {device!r}: this run has no such case")
    bars: list[tuple[str, float, str]] = []
    ticks = []
    for case in cases:
        ran = {n: p for n, p in case["peers"].items() if "seconds" in p}
        own = speed(ran["auto"])
        ticks.append((len(bars), case["title"]))
        bars += [(n, speed(p) / own, case["case"]) for n, p in ran.items()]
    picture, ax = figure(6.4, 0.32 * len(bars) + 0.5 * len(ticks) + 0.6)
    place, said = 0.0, []
    for i, (name, ratio, _) in enumerate(bars):
        for start, title in ticks:
            if start == i:
                place += 1.2
                ax.text(0, place - 0.75, title, color=GREY, fontsize=9)
                said.append(f"{title}:")
        color = BLUE if name in _OURS else ORANGE
        ax.barh(place, ratio, height=0.7, color=color)
        ax.text(ratio, place, f" {name} {ratio:.2f}", va="center", color=GREY)
        said.append(f"{name} {ratio:.2f},")
        place += 1
    ax.set(yticks=[], ylim=(place, -0.5), xlabel="speed, attn.attention = 1")
    top = max(ratio for _, ratio, _ in bars)
    ax.set_xlim(0, 1.35 * top)
    text = " ".join(said).rstrip(",")
    return describe(picture, f"Bars of speed relative to ours. {text}.")
