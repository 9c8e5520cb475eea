"""Repeat the book's experiments, and record the margins of its claims.

``python -m attn.publishing.claims [NOTEBOOK…]`` runs the experiments of
these chapters, of all by default, with four seeds, with twice the steps and
with the longer run's, two at a time, and writes ``record/``. ``--stale``
leaves out those whose code is as recorded. The exit status is 1 when a claim
fails.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from attn.publishing.claims import record


def main(words: list[str] | None = None) -> int:
    """Repeat experiments, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m attn.publishing.claims")
    parser.add_argument("notebooks", type=Path, nargs="*")
    parser.add_argument("--stale", action="store_true")
    parser.add_argument("--processes", type=int, default=2)
    args = parser.parse_args(words)

    from tqdm import tqdm

    from attn.bench.results import about_this_machine
    from attn.publishing import notebooks
    from attn.publishing.claims import run

    paths = args.notebooks or notebooks.pristine()
    about = about_this_machine("notebooks", "solutions")
    context = multiprocessing.get_context("spawn")
    status = 0
    with ProcessPoolExecutor(
        args.processes, context, run.one_thread, max_tasks_per_child=1
    ) as pool:
        jobs: dict[Future[Any], tuple[Path, str]] = {}
        for path in paths:
            old, names = record.chapter(path.stem), run.experiments(path)
            if set(old) - set(names):
                record.write(path.stem, old, names)
            for name in names:
                digest = run.digest(path, name)
                if args.stale and old.get(name, {}).get("digest") == digest:
                    continue
                job = pool.submit(run.entry, path, name, about)
                jobs[job] = path, name
        for job in tqdm(
            as_completed(jobs), total=len(jobs), unit="experiment"
        ):
            path, name = jobs[job]
            try:
                entry = job.result()
            except Exception as error:
                status = 1
                print(f"{path.stem}: {name}: {error!r}", file=sys.stderr)
                continue
            entries = record.chapter(path.stem) | {name: entry}
            record.write(path.stem, entries, run.experiments(path))
            for line in failures(entry):
                status = 1
                print(f"{path.stem}: {name}: {line}", file=sys.stderr)
    return status


def failures(entry: dict[str, Any]) -> list[str]:
    """Return a line for each claim that failed in a run."""
    return [
        f"seed {run['seed']}, {run['steps']} steps: {one['text']}: "
        f"{one['value']:.4g}, bound {one['bound']:.4g}"
        for run in entry["runs"]
        for one in run["claims"]
        if not one["margin"] > 0
    ]


if __name__ == "__main__":
    sys.exit(main())
