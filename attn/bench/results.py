"""What was measured, where and when, as JSON.

A file holds one run: ``about`` (machine, versions, date, commit), ``dry``,
``cases`` and ``pending``, cases that could not be run there and why. A
case's peers keep every time that was taken; medians, spreads and ratios
are computed when they are shown.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import time
from pathlib import Path
from typing import Any, NamedTuple

import torch

from attn.bench.cases import Goal, find
from attn.data.book import root

__all__ = [
    "Ratio",
    "about_this_machine",
    "load",
    "median",
    "ratios",
    "save",
    "speed",
    "spread",
    "stored",
]

_PACKAGES = ("torch", "triton", "numpy", "transformers")


class Ratio(NamedTuple):
    """How a goal came out."""

    goal: Goal
    against: str  # the best of those that ran
    ratio: float
    met: bool


def about_this_machine(*sources: str) -> dict[str, Any]:
    """Return the provenance of a run.

    Args:
        sources: folders that the run depends on, besides ``attn``.
    """
    versions = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "not installed"
    about: dict[str, Any] = {
        "cpu": _cpu(),
        "threads": torch.get_num_threads(),
        "system": f"{platform.system()} {platform.machine()}",
        "versions": versions,
        "date": time.strftime("%Y-%m-%d"),
        # A copy of the tree has no history: COMMIT says whose it is.
        "commit": _git("rev-parse", "--short", "HEAD")
        or os.environ.get("COMMIT", ""),
        "changed": bool(_changes("attn", *sources)),
    }
    if torch.cuda.is_available():
        gpu = torch.cuda.get_device_properties("cuda")
        about["gpu"] = gpu.name
        about["capability"] = f"{gpu.major}.{gpu.minor}"
        about["processors"] = gpu.multi_processor_count
        about["memory"] = gpu.total_memory
        about["cuda"] = torch.version.cuda
        about["cudnn"] = torch.backends.cudnn.version()
        about["driver"] = _driver()
    return about


def _cpu() -> str:
    path = Path("/proc/cpuinfo")
    if path.exists():
        for line in path.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _git(*words: str) -> str:
    return _said("git", "-C", str(Path(__file__).parent), *words)


def _changes(*folders: str) -> str:
    paths = [f":(top){folder}" for folder in folders]
    return _git("status", "--porcelain", "--", *paths)


def _driver() -> str:
    query = ("--query-gpu=driver_version", "--format=csv,noheader", "--id=0")
    return _said("nvidia-smi", *query)


def _said(*command: str) -> str:
    """Return what a program printed; nothing when it failed."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=30
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def save(run: dict[str, Any], path: Path) -> None:
    """Write a run; a reader finds the one before or this one, whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(run, indent=1, ensure_ascii=False)
    part = path.with_suffix(".part")
    part.write_text(text + "\n", encoding="utf-8")
    part.replace(path)


def load(path: Path) -> dict[str, Any]:
    """Read a run.

    Raises:
        ValueError: it is none.
    """
    run = json.loads(path.read_text(encoding="utf-8"))
    lacks = {"about", "dry", "cases", "pending"} - set(run)
    if lacks:
        raise ValueError(f"{path.name} is no run: it lacks {sorted(lacks)}")
    return run


def stored() -> list[dict[str, Any]]:
    """The runs that came with the book, oldest first."""
    paths = (root() / "book" / "benchmarks").glob("*.json")
    runs = [load(path) for path in sorted(paths)]
    return sorted(runs, key=lambda run: run["about"]["date"])


def median(peer: dict[str, Any]) -> float:
    """Seconds."""
    return statistics.median(peer["seconds"])


def spread(peer: dict[str, Any]) -> float:
    """Half the distance between the quartiles, relative to the median."""
    if len(peer["seconds"]) < 4:
        return 0.0
    low, _, high = statistics.quantiles(peer["seconds"], n=4)
    return (high - low) / 2 / median(peer)


def speed(peer: dict[str, Any]) -> float:
    """Work a second."""
    return peer["work"] / median(peer)


def ratios(case: dict[str, Any]) -> list[Ratio]:
    """The goals of a measured case; none for a peer that did not run."""
    found = []
    ran = {n: p for n, p in case["peers"].items() if "seconds" in p}
    for goal in find(case["case"]).goals:
        rivals = [name for name in goal.against if name in ran]
        if goal.ours not in ran or not rivals:
            continue
        if goal.memory:
            best = min(rivals, key=lambda name: ran[name]["peak_bytes"])
            least = max(ran[best]["peak_bytes"], 1)
            ratio = ran[goal.ours]["peak_bytes"] / least
            found.append(Ratio(goal, best, ratio, ratio <= goal.at_most))
            continue
        best = max(rivals, key=lambda name: speed(ran[name]))
        ratio = speed(ran[goal.ours]) / speed(ran[best])
        found.append(Ratio(goal, best, ratio, ratio >= goal.at_least))
    return found
