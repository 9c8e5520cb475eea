"""``python -m attn.grading.classroom.speed``: measure how fast a class is.

It grades an invented class of one chapter with different numbers of
processes, and the solved book, and prints seconds. In turn the learners have
solved everything, half of it with one mistake, and nothing.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from attn.exercises import CHAPTERS, sources
from attn.exercises.cells import exercise_id
from attn.exercises.spec import find
from attn.grading.classroom import batch
from attn.grading.classroom.result import Result
from attn.grading.classroom.submissions import find as submissions
from attn.publishing import notebooks


def main(words: list[str] | None = None) -> int:
    """Run the command line, and return the exit status."""
    parser = argparse.ArgumentParser(
        "python -m attn.grading.classroom.speed", description=__doc__
    )
    parser.add_argument("chapter", choices=CHAPTERS.values())
    parser.add_argument("--learners", type=int, default=100)
    parser.add_argument("--jobs", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--book", action="store_true", help="the book, too")
    args = parser.parse_args(words)
    for jobs in args.jobs:
        seconds = _timed(invented(args.chapter, args.learners), jobs)
        name = f"{args.learners} × {args.chapter}"
        print(_said(name, jobs, seconds, args.learners), flush=True)
    if args.book:
        seconds = _timed(solved_book(), args.jobs[-1])
        print(_said("the solved book", args.jobs[-1], seconds, len(CHAPTERS)))
    return 0


def _said(name: str, jobs: int, seconds: float, count: int) -> str:
    each = seconds / count
    return f"{name}, --jobs {jobs}: {seconds:.0f} s, {each:.2f} s each"


def invented(chapter: str, learners: int) -> Iterator[tuple[str, Any]]:
    """Yield the name and the notebook of each learner of a chapter."""
    key = next(x for x, name in CHAPTERS.items() if name == chapter)
    pristine = notebooks.read(sources.notebook_path(key))
    names = [x for cell in pristine.cells if (x := exercise_id(cell))]
    half = names[: len(names) // 2]
    wrong = {name: find(name).mistakes[0].source for name in half[-1:]}
    kinds = cycle(
        [
            {name: sources.solution(name) for name in names},
            {name: sources.solution(name) for name in half} | wrong,
            {},
        ]
    )
    for number, cells in enumerate(islice(kinds, learners), 1):
        yield f"learner-{number:03}", _with(pristine, cells)


def solved_book() -> Iterator[tuple[str, Any]]:
    """Yield the name and the notebook of each chapter, solved."""
    for key, name in CHAPTERS.items():
        path = sources.notebook_path(key)
        yield name, notebooks.solved(notebooks.read(path))


def _with(notebook: Any, cells: dict[str, str]) -> Any:
    for cell in notebook.cells:
        name = exercise_id(cell) or ""
        if name:
            cell.source = cells.get(name, sources.stub(name))
    return notebook


def _timed(class_: Iterator[tuple[str, Any]], jobs: int) -> float:
    """Return the seconds that a class takes, with the start of everything."""
    with tempfile.TemporaryDirectory() as folder:
        handed_in = Path(folder, "in")
        handed_in.mkdir()
        for name, notebook in class_:
            notebooks.write(notebook, handed_in / f"{name}.ipynb")
        start = time.perf_counter()
        results = _graded(handed_in, Path(folder, "out"), jobs)
        seconds = time.perf_counter() - start
    failed = [x for x in results if x.status != "graded"]
    if failed:
        raise RuntimeError(f"{failed[0].submission}: {failed[0].message}")
    return seconds


def _graded(folder: Path, out: Path, jobs: int) -> Sequence[Result]:
    with batch.opened(out, [folder], seed=0) as options:
        found = submissions([folder])
        return list(batch.run(found, options, out, jobs=jobs))


if __name__ == "__main__":
    raise SystemExit(main())
