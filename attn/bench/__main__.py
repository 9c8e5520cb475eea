"""``python -m attn.bench``: measure, show, keep.

``run`` measures all cases that this machine can run, prints the tables, and
writes JSON; ``show FILE`` prints the tables of a file, ``plot FILE IMAGE``
draws it.
"""

from __future__ import annotations

import argparse
import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from tqdm import tqdm

from attn.bench import report, results
from attn.bench.cases import CASES, find
from attn.bench.runner import not_runnable_reason, run_case


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit code."""
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
        help="small sizes, on any machine: the times mean nothing",
    )
    show = commands.add_parser("show", help="print a file's tables")
    show.add_argument("file", type=Path)
    plot = commands.add_parser("plot", help="draw a file")
    plot.add_argument("file", type=Path)
    plot.add_argument("image", type=Path)
    plot.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    args = parser.parse_args(arguments)
    if args.command == "run":
        measured = _run(args.cases, args.repeats, args.dry_run)
        report.show(measured)
        if args.out:
            results.save(measured, args.out)
            print(f"written: {args.out}")
    elif args.command == "show":
        report.show(results.load(args.file))
    else:
        report.plot(results.load(args.file), args.device).savefig(args.image)
    return 0


def _run(names: list[str], repeats: int, dry: bool) -> dict[str, Any]:
    measured, pending = [], []
    cases = [find(name) for name in names] or CASES
    for case in tqdm(cases, unit="case", leave=False):
        measure = partial(run_case, case, repeats=repeats, dry=dry)
        reason = not_runnable_reason(case, dry)
        if reason:
            pending.append({"case": case.name, "why": reason})
        else:
            measured.append(measure() if dry else _alone(measure))
    return {
        "about": results.about_this_machine(),
        "dry": dry,
        "cases": measured,
        "pending": pending,
    }


def _alone(measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Measure in a new process, free of what other cases have compiled."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as pool:
        return pool.submit(measure).result()


if __name__ == "__main__":
    raise SystemExit(main())
