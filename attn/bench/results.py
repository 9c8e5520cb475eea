"""Keep runs as JSON: what was measured, where and when.

A file holds one run: ``about`` (machine, versions, date, commit), ``dry``,
``cases``, and ``pending``, the cases that did not run, with the reason. The
peers of a case keep every measured time; medians, spreads and ratios are
computed for display.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import re
import statistics
import subprocess
import time
from pathlib import Path
from typing import Any, NamedTuple

import torch

from attn.bench.case import Goal
from attn.bench.cases import find
from attn.data.book import root


class Ratio(NamedTuple):
    """A measured goal."""

    goal: Goal
    against: str  # the best of those that ran
    ratio: float
    met: bool
    of_limit: float | None = None  # our speed relative to the limit's


def about_this_machine(*sources: str) -> dict[str, Any]:
    """Return the provenance of a run on this machine.

    ``sources`` are folders that the run depends on, next to ``attn``.
    """
    packages = ("torch", "triton", "numpy", "transformers")
    versions = {name: _version(name) for name in packages}
    paths = [f":(top){folder}" for folder in ("attn", *sources)]
    given = os.environ.get("COMMIT")  # of a copy that has no history
    about: dict[str, Any] = {
        "cpu": _cpu(),
        "threads": torch.get_num_threads(),
        "width": torch.backends.cpu.get_cpu_capability(),
        "system": f"{platform.system()} {platform.machine()}",
        "versions": {"python": platform.python_version(), **versions},
        "date": time.strftime("%Y-%m-%d"),
        "commit": given or _git("rev-parse", "--short", "HEAD"),
        "changed": not given
        and bool(_git("status", "--porcelain", "--", *paths)),
    }
    if torch.cuda.is_available():
        gpu = torch.cuda.get_device_properties("cuda")
        about |= {
            "gpu": gpu.name,
            "capability": f"{gpu.major}.{gpu.minor}",
            "processors": gpu.multi_processor_count,
            "memory": gpu.total_memory,
            "cuda": torch.version.cuda,
            "cudnn": torch.backends.cudnn.version(),
            "driver": _driver(),
        }
    return about


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _cpu() -> str:
    path = Path("/proc/cpuinfo")
    for line in path.read_text().splitlines() if path.exists() else ():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _git(*arguments: str) -> str:
    return _output("git", "-C", str(Path(__file__).parent), *arguments)


def _driver() -> str:
    query = ("--query-gpu=driver_version", "--format=csv,noheader", "--id=0")
    return _output("nvidia-smi", *query)


def _output(*command: str) -> str:
    """Return what a program prints; nothing if it fails."""
    try:
        process = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=30
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return process.stdout.strip()


def save(run: dict[str, Any], path: Path) -> None:
    """Write a run, so that a reader finds the file before or after it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(run, indent=1, ensure_ascii=False)
    # A list of numbers is a line, to four digits.
    text = re.sub(r"\[\s([^\[\]{}\"]+)\]", _on_one_line, text)
    part = path.with_suffix(".part")
    part.write_text(text + "\n", encoding="utf-8")
    part.replace(path)


def _on_one_line(found: re.Match[str]) -> str:
    numbers = (x.strip() for x in found[1].split(","))
    few = (f"{float(x):.4g}" if "." in x else x for x in numbers)
    return f"[{', '.join(few)}]"


def load(path: Path) -> dict[str, Any]:
    """Read a run.

    Raises:
        ValueError: the file is not a run.
    """
    run = json.loads(path.read_text(encoding="utf-8"))
    missing = {"about", "dry", "cases", "pending"} - set(run)
    if missing:
        raise ValueError(f"path must be a run; it lacks {sorted(missing)}")
    return run


def stored() -> list[dict[str, Any]]:
    """Return the runs that came with the book, oldest first."""
    paths = (root() / "book" / "benchmarks").glob("*.json")
    runs = [load(path) for path in sorted(paths)]
    return sorted(runs, key=lambda run: run["about"]["date"])


def latest(device: str) -> dict[str, Any]:
    """Return the latest stored run with cases on ``"cpu"`` or ``"cuda"``.

    Raises:
        ValueError: there is none.
    """
    for run in reversed(stored()):
        if any(case["device"] == device for case in run["cases"]):
            return run
    raise ValueError(f"device must be a measured one; got {device!r}")


def measured(case: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the peers of a case that ran."""
    return {n: p for n, p in case["peers"].items() if "seconds" in p}


def median(peer: dict[str, Any]) -> float:
    """Return the median time of a peer in seconds."""
    return statistics.median(peer["seconds"])


def spread(peer: dict[str, Any]) -> float:
    """Return half the interquartile range, relative to the median."""
    if len(peer["seconds"]) < 4:
        return 0.0
    low, _, high = statistics.quantiles(peer["seconds"], n=4)
    return (high - low) / 2 / median(peer)


def speed(peer: dict[str, Any]) -> float:
    """Return the work of a peer per second."""
    return peer["work"] / median(peer)


def ratios(case: dict[str, Any]) -> list[Ratio]:
    """Compare a case with those of its goals whose peers ran."""
    compared = []
    peers = measured(case)
    for goal in find(case["case"]).goals:
        own = [peers[name] for name in goal.ours if name in peers]
        rivals = [name for name in goal.against if name in peers]
        if not own or not rivals:
            continue
        ours = max(own, key=speed)
        if goal.at_most is None:
            best = max(rivals, key=lambda name: speed(peers[name]))
            ratio = speed(ours) / speed(peers[best])
            met = ratio >= goal.at_least
        else:
            best = min(rivals, key=lambda name: peers[name]["peak_bytes"])
            ratio = ours["peak_bytes"] / max(peers[best]["peak_bytes"], 1)
            met = ratio <= goal.at_most
        limit = peers.get(goal.limit or "")
        of_limit = speed(ours) / speed(limit) if limit else None
        compared.append(Ratio(goal, best, ratio, met, of_limit))
    return compared
