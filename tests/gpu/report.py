"""A GPU run as tables."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from attn.bench import report

__all__ = ["configurations", "correctness", "show"]


def show(run: dict[str, Any]) -> None:
    """Print every table of a run."""
    console = Console()
    console.print(correctness(run))
    console.print(configurations(run))
    report.show(run)


def correctness(run: dict[str, Any]) -> Table:
    """Return the worst error of the kernels, by kernel and dtype."""
    stage = run["correctness"]
    done = len(stage["checks"])
    title = f"Correctness: {done} of {stage['planned']} checks"
    table = Table("kernel", "dtype", title=title)
    for name in ("checks", "wrong", "error / limit"):
        table.add_column(name, justify="right")
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for check in stage["checks"]:
        groups.setdefault((check["kernel"], check["dtype"]), []).append(check)
    for names, checks in groups.items():
        wrong = sum(not check["right"] for check in checks)
        worst = max(
            (
                error / limit
                for check in checks
                for error, limit in check.get("errors", {}).values()
            ),
            default=0.0,
        )
        table.add_row(*names, str(len(checks)), str(wrong), f"{worst:.2f}")
    return table


def configurations(run: dict[str, Any]) -> Table:
    """Return every row of the configuration table: shipped, and best here."""
    stage = run["sweep"]
    title = f"Configurations: {stage['tried']} of {stage['planned']} tried"
    table = Table("kernel", "D", "dtype", "shipped", "best", title=title)
    table.add_column("shipped / best", justify="right")
    for row in stage["rows"]:
        ratio = row["ratio"]
        table.add_row(
            row["kernel"],
            str(row["head_dim"]),
            row["dtype"],
            _tile(row["shipped"]),
            _tile(row["best"]),
            "-" if ratio is None else f"{ratio:.2f}",
        )
    return table


def _tile(config: dict[str, int] | None) -> str:
    if config is None:
        return "-"
    return "{block_l}x{block_s} w{num_warps} s{num_stages}".format(**config)
