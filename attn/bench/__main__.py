"""``python -m attn.bench``: measure, show, keep.

``run`` measures all cases that this machine can run, prints the tables, and
writes JSON; ``show FILE`` prints the tables of a file, ``plot FILE IMAGE``
draws it; ``gpu`` checks the kernels, their configurations and their speed on a
GPU.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import torch

from attn.bench import results
from attn.bench.cases import CASES, find
from attn.bench.runner import run_case, why_not


def main(words: list[str] | None = None) -> int:
    """Read the command line and do what it says."""
    parser = argparse.ArgumentParser(
        "python -m attn.bench", description=__doc__
    )
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="measure, print, write JSON")
    run.add_argument("cases", nargs="*", help="names; all when none is given")
    run.add_argument("--out", type=Path, help="the JSON file to write")
    run.add_argument("--repeats", type=int, default=25)
    run.add_argument(
        "--dry-run",
        action="store_true",
        help="small sizes, everywhere: the times mean nothing",
    )
    gpu = commands.add_parser("gpu", help="check, tune and time on a GPU")
    gpu.add_argument("--out", type=Path, required=True)
    gpu.add_argument("--seconds", type=float, help="stop after that long")
    gpu.add_argument("--dry-run", action="store_true", help="as for run")
    show = commands.add_parser("show", help="print a file's tables")
    show.add_argument("file", type=Path)
    plot = commands.add_parser("plot", help="draw a file")
    plot.add_argument("file", type=Path)
    plot.add_argument("image", type=Path)
    plot.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    given = parser.parse_args(words)
    if given.command == "run":
        done = _run(given.cases, given.repeats, given.dry_run)
        _show(done)
        if given.out:
            results.save(done, given.out)
            print(f"written: {given.out}")
    elif given.command == "gpu":
        return _gpu(given.out, given.seconds, given.dry_run)
    elif given.command == "show":
        _show(results.load(given.file))
    else:
        from attn.bench import report

        drawn = report.figure_of(results.load(given.file), given.device)
        drawn.savefig(given.image)
    return 0


def _run(names: list[str], repeats: int, dry: bool) -> dict[str, Any]:
    from tqdm import tqdm

    asked = [find(name) for name in names] or list(CASES)
    able = [case for case in asked if why_not(case, dry) is None]
    measured = []
    for case in tqdm(able, unit="case", leave=False):
        measure = partial(run_case, case, repeats=repeats, dry=dry)
        measured.append(measure() if dry else _alone(measure))
    return {
        "about": results.about_this_machine(),
        "dry": dry,
        "cases": measured,
        "pending": [
            {"case": case.name, "why": why_not(case, dry)}
            for case in asked
            if case not in able
        ],
    }


def _alone(measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """In a process of its own: what a case compiles and leaves behind, such
    as a second pool of threads, is not there for the next one."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as pool:
        return pool.submit(measure).result()


def _gpu(path: Path, seconds: float | None, dry: bool) -> int:
    """Return 1 when a kernel is wrong; a machine without a GPU is none."""
    if not torch.cuda.is_available():
        if not dry:
            print(f"torch {torch.__version__} finds no GPU: nothing measured")
            return 0
        os.environ.setdefault("TRITON_INTERPRET", "1")  # before its import
    from attn.bench import gpu

    code = gpu.measure(path, seconds or gpu.BUDGET, dry)
    _show(results.load(path))
    print(f"written: {path}")
    return code


def _show(run: dict[str, Any]) -> None:
    from rich.console import Console

    from attn.bench import report

    console = Console()
    if "correctness" in run:
        console.print(report.correctness(run))
        console.print(report.configurations(run))
    console.print(report.times(run))
    if not run["dry"]:
        console.print(report.goals(run))
    for one in run["pending"]:
        console.print(f"pending: {find(one['case']).title}: {one['why']}")
    console.print(report.provenance(run), soft_wrap=True)


if __name__ == "__main__":
    raise SystemExit(main())
