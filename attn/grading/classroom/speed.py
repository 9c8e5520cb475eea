"""``python -m attn.grading.classroom.speed``: measure how fast a class is.

It grades an invented class with different numbers of processes, on a Dask
cluster of this machine, and the solved book, and prints seconds. Each learner
hands in one of the chapters, and has solved in turn everything, half of it
with one mistake, and nothing. Where a class was graded more than once, the
results must be the same to the byte.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from attn.exercises import CHAPTERS, sources
from attn.exercises.cells import exercise_id
from attn.exercises.spec import find
from attn.grading.classroom import batch
from attn.grading.classroom.submissions import find as submissions
from attn.publishing import notebooks

#: The notebook of each learner.
Class = Mapping[str, Any]
#: The results, by the names of their files.
Files = dict[str, bytes]


def main(words: list[str] | None = None) -> int:
    """Run the command line, and return the exit status."""
    parser = argparse.ArgumentParser(
        "python -m attn.grading.classroom.speed", description=__doc__
    )
    parser.add_argument("chapters", nargs="+", choices=CHAPTERS.values())
    parser.add_argument("--learners", type=int, default=100)
    parser.add_argument("--jobs", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--dask", type=int, metavar="WORKERS", default=0)
    parser.add_argument("--book", action="store_true", help="the book, too")
    args = parser.parse_args(words)
    class_ = dict(invented(args.chapters, args.learners))
    name = f"{args.learners} × {', '.join(args.chapters)}"
    kept: Files = {}
    for jobs in args.jobs:
        print(_line(name, f"--jobs {jobs}", class_, kept, jobs=jobs))
    if args.dask:
        with cluster(args.dask) as address:
            how = f"--dask, {args.dask} workers"
            print(_line(name, how, class_, kept, dask=address))
    if args.book:
        jobs, solved = args.jobs[-1], dict(solved_book())
        print(_line("the book", f"--jobs {jobs}", solved, {}, jobs=jobs))
    return 0


def _line(
    name: str, how: str, class_: Class, kept: Files, **options: Any
) -> str:
    """Grade a class, and say how long it took.

    Raises:
        RuntimeError: a submission was not graded, or the results differ from
            those that are kept.
    """
    seconds, files = _timed(class_, **options)
    for file, data in files.items():
        if kept.setdefault(file, data) != data:
            raise RuntimeError(
                f"{name}, {how}: {file} differs from an earlier one:\n"
                f"{data.decode()}\n{kept[file].decode()}"
            )
    each = seconds / len(class_)
    return f"{name}, {how}: {seconds:.0f} s, {each:.2f} s each"


@contextmanager
def cluster(workers: int, **options: Any) -> Iterator[str]:
    """Start a scheduler with workers of one thread; yield its address."""
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        protocol="tcp",
        dashboard_address=None,
        **options,
    ) as started:
        yield started.scheduler_address


def invented(
    chapters: Sequence[str], learners: int
) -> Iterator[tuple[str, Any]]:
    """Yield the name and the notebook of each learner of a class."""
    handed_in = cycle([x for y in chapters for x in _kinds(y)])
    for number, notebook in enumerate(islice(handed_in, learners), 1):
        yield f"learner-{number:03}", notebook


def _kinds(chapter: str) -> Iterator[Any]:
    """Yield a chapter solved, half-way with one mistake, and untouched."""
    key = next(x for x, name in CHAPTERS.items() if name == chapter)
    pristine = notebooks.read(sources.notebook_path(key))
    names = [x for cell in pristine.cells if (x := exercise_id(cell))]
    half = names[: len(names) // 2]
    wrong = {name: find(name).mistakes[0].source for name in half[-1:]}
    yield _with(pristine, {name: sources.solution(name) for name in names})
    yield _with(
        pristine, {name: sources.solution(name) for name in half} | wrong
    )
    yield _with(pristine, {})


def solved_book() -> Iterator[tuple[str, Any]]:
    """Yield the name and the notebook of each chapter, solved."""
    for key, name in CHAPTERS.items():
        path = sources.notebook_path(key)
        yield name, notebooks.solved(notebooks.read(path))


def _with(notebook: Any, cells: dict[str, str]) -> Any:
    own = deepcopy(notebook)
    for cell in own.cells:
        name = exercise_id(cell) or ""
        if name:
            cell.source = cells.get(name, sources.stub(name))
    return own


def _timed(class_: Class, **options: Any) -> tuple[float, Files]:
    """Grade a class; return the seconds, with every start, and its results."""
    with tempfile.TemporaryDirectory() as folder:
        handed_in, out = Path(folder, "in"), Path(folder, "out")
        handed_in.mkdir()
        for name, notebook in class_.items():
            notebooks.write(notebook, handed_in / f"{name}.ipynb")
        start = time.perf_counter()
        with batch.opened(out, [handed_in], seed=0) as own:
            found = submissions([handed_in])
            results = list(batch.run(found, own, out, **options))
        seconds = time.perf_counter() - start
        files = {x.name: x.read_bytes() for x in out.glob("results/*.json")}
    failed = [x for x in results if x.status != "graded"]
    if failed:
        raise RuntimeError(f"{failed[0].submission}: {failed[0].message}")
    return seconds, files


if __name__ == "__main__":
    raise SystemExit(main())
