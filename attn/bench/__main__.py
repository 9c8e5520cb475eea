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
    show = commands.add_parser("show", help="print a file's tables")
    show.add_argument("file", type=Path)
    plot = commands.add_parser("plot", help="draw a file")
    plot.add_argument("file", type=Path)
    plot.add_argument("image", type=Path)
    plot.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    given = parser.parse_args(words)
    from attn.bench import report

    if given.command == "run":
        done = _run(given.cases, given.repeats, given.dry_run)
        report.show(done)
        if given.out:
            results.save(done, given.out)
            print(f"written: {given.out}")
    elif given.command == "show":
        report.show(results.load(given.file))
    else:
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


if __name__ == "__main__":
    raise SystemExit(main())
