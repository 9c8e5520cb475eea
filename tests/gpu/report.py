"""A GPU run as tables."""

from typing import Any

from attn.bench import report
from attn.plot import Table


def show(run: dict[str, Any]) -> None:
    """Print every table of a run."""
    print(f"{correctness(run)}\n\n{configurations(run)}\n")
    report.show(run)


def correctness(run: dict[str, Any]) -> Table:
    """Return the worst error of the kernels, by kernel and dtype."""
    stage = run["correctness"]
    done = len(stage["checks"])
    rows = []
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for check in stage["checks"]:
        groups.setdefault((check["kernel"], check["dtype"]), []).append(check)
    for names, checks in groups.items():
        wrong = sum(not check["right"] for check in checks)
        errors = [y for x in checks for y in x.get("errors", {}).values()]
        worst = max((error / limit for error, limit in errors), default=0.0)
        rows.append((*names, len(checks), wrong, f"{worst:.2f}"))
    title = f"Correctness: {done} of {stage['planned']} checks"
    return Table(
        ("kernel", "dtype", "checks", "wrong", "error / limit"), rows, title
    )


def configurations(run: dict[str, Any]) -> Table:
    """Return every row of the configuration table: shipped, and best here."""
    stage = run["sweep"]
    rows = [
        (
            row["kernel"],
            row["head_dim"],
            row["dtype"],
            _tile(row["shipped"]),
            _tile(row["best"]),
            "-" if row["ratio"] is None else f"{row['ratio']:.2f}",
        )
        for row in stage["rows"]
    ]
    title = f"Configurations: {stage['tried']} of {stage['planned']} tried"
    head = ("kernel", "D", "dtype", "shipped", "best", "shipped / best")
    return Table(head, rows, title)


def _tile(config: dict[str, Any] | None) -> str:
    if config is None:
        return "-"
    tile = "{block_l}x{block_s} w{num_warps} s{num_stages}".format(**config)
    variant = config["variant"]
    return tile if variant == "pointers" else f"{tile} {variant}"
