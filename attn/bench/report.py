"""Turn runs into tables, for the terminal and for a page, and a figure."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from attn.bench.cases import find
from attn.bench.results import measured, median, ratios, speed, spread
from attn.plot import GREY, Table, color_of, describe, figure


def show(run: dict[str, Any]) -> None:
    """Print all tables of a run."""
    print(f"{times(run)}\n")
    print(provenance(run) if run["dry"] else goals(run))
    for case in run["pending"]:
        print(f"pending: {find(case['case']).title}: {case['why']}")


def provenance(run: dict[str, Any]) -> str:
    """Return machine, versions, date and commit in one line."""
    about = run["about"]
    versions = ", ".join(f"{k} {v}" for k, v in about["versions"].items())
    width = f", {about['width']}" if "width" in about else ""
    threads = f"{about['threads']} threads"
    machine = about.get("gpu") or f"{about['cpu']}{width}, {threads}"
    commit = about["commit"] or "unknown"
    commit += " and changes" if about["changed"] else ""
    dry = " DRY RUN: the times mean nothing." if run["dry"] else ""
    return f"{machine}; {versions}; {about['date']}; commit {commit}.{dry}"


def times(run: dict[str, Any]) -> Table:
    """Return a table of every peer of every case: time, spread, speed."""
    rows = []
    for case in run["cases"]:
        title = case["title"]
        for name, peer in case["peers"].items():
            if "missing" in peer:
                cells = ["", "", "", "", peer["missing"][:40]]
            else:
                peak = peer.get("peak_bytes")
                cells = [
                    f"{1000 * median(peer):.3g}",
                    f"{100 * spread(peer):.0f} %",
                    _speed(speed(peer), case["unit"]),
                    "" if peak is None else f"{peak / 2**20:.0f} MiB",
                    "",
                ]
            rows.append([title, name, *cells])
            title = ""
    head = ("case", "peer", "ms", "spread", "speed", "peak", "did not run")
    return Table(head, rows, "Medians, interleaved")


def _speed(number: float, unit: str) -> str:
    if unit == "token":
        return f"{number:.3g} {unit}s/s"
    size, letter = (1e12, "T") if number >= 1e12 else (1e9, "G")
    return f"{number / size:.3g} {letter}{'B' if unit == 'byte' else unit}/s"


def goals(run: dict[str, Any]) -> Table:
    """Return a table of every goal, and what was measured."""
    rows = []
    for case in run["cases"]:
        title = case["title"]
        for goal, against, ratio, met, of_limit in ratios(case):
            ours = " or ".join(goal.ours)
            hope = f"{ours} ≥ {goal.at_least:g}x {against}"
            if goal.at_most is not None:
                hope = f"≤ {goal.at_most:g}x the memory of {against}"
            mark = "✓ met" if met else "✗ missed"
            limit = "" if of_limit is None else f"{of_limit:.3g}x {goal.limit}"
            rows.append([title, hope, f"{ratio:.3g}x", mark, limit])
            title = ""
    head: tuple[str, ...]
    head = ("case", "goal", "measured", "it is", "of its limit")
    if not any(row[-1] for row in rows):
        head, rows = head[:-1], [row[:-1] for row in rows]
    return Table(head, rows, provenance(run))


def plot(run: dict[str, Any], device: str = "cpu") -> Figure:
    """Draw the peers of each case as bars of speed, relative to ours.

    Args:
        run: what was measured.
        device: ``"cpu"`` or ``"cuda"``.

    Raises:
        ValueError: the run has no case on this device.
    """
    cases = [case for case in run["cases"] if case["device"] == device]
    if not cases:
        raise ValueError(f"device must be a measured one; got {device!r}")
    bars = {case["title"]: _relative_speeds(case) for case in cases}
    rows = sum(map(len, bars.values()))
    picture, ax = figure(6.4, 0.32 * rows + 0.5 * len(bars) + 0.6)
    y, words = 0.0, []
    small: Any = {"fontsize": 8, "in_layout": False}  # may cross the edge
    for title, speeds in bars.items():
        y += 1.2
        ax.text(0, y - 0.75, title, color=GREY, **small)
        for name, ratio in speeds.items():
            color = color_of(name) or GREY
            ax.barh(y, ratio, height=0.7, color=color)
            label = f" {name.removeprefix('auto, ')} {ratio:.2f}"  # is blue
            ax.text(ratio, y, label, va="center", color=GREY)
            y += 1
        texts = (f"{name} {ratio:.2f}" for name, ratio in speeds.items())
        words.append(f"{title}: {', '.join(texts)}")
    ax.set(yticks=[], ylim=(y, -0.5), xlabel="speed, attn.attention = 1")
    ax.spines.left.set_visible(False)  # the titles begin there
    ax.set_xlim(0, 1.45 * max(max(x.values()) for x in bars.values()))
    text = ", ".join(words)
    return describe(picture, f"Bars of speed relative to ours. {text}.")


def _relative_speeds(case: dict[str, Any]) -> dict[str, float]:
    speeds = {name: speed(peer) for name, peer in measured(case).items()}
    return {name: x / speeds["auto"] for name, x in speeds.items()}
