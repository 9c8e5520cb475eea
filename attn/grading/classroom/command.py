"""Run ``attn grade``."""

from __future__ import annotations

import argparse
import math
import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attn.grading.classroom.result import ByHand, Result, clean

if TYPE_CHECKING:
    from attn.grading.classroom.tables import Roster

PATIENCE = 2.0  # seconds without a word
#: What workers and reports import, too late to be said in one line.
_NEEDED = "IPython cloudpickle jinja2 jupytext rich safetensors"
#: The book, where it is not installed.
_HOME = Path(__file__).resolve().parents[3]
_DESCRIPTION = """\
Grade notebooks: one, or a class.

A PATH is a notebook, a Python file, or a folder of them, flat or with a
folder for each learner; the downloads of Canvas, Moodle and Gradescope, once
unpacked, and nbgrader's folders are read as they are. Each answer is judged
on fresh inputs, from outside the closed process that it runs in.
"""
_EXAMPLES = """\
examples:
  attn grade submitted/                    a class, into grades/
  attn grade alice_05.ipynb --out alice    one notebook
  attn grade submitted/ --points ps1.csv   lines such as gqa-repeat_kv,5
  attn grade submitted/ --roster class.csv points into a platform's CSV

Points and comments of your own are lines in DIR/marks.csv, which is read at
each run and never written again.

A batch that was stopped goes on with the same command. The exit status is 0
when each submission has its row, whatever the marks; 2 for a wrong argument,
or where notebooks cannot be isolated; 130 for a batch that was stopped.
"""
_KINDS = {"DIR": Path, "FILE": Path, "N": int, "SECONDS": float}
_OPTIONS = {
    "--out DIR": "folder of the reports; a folder that holds a batch resumes "
    "it (default: grades)",
    "--jobs N": "submissions graded at a time (default: the number of cores)",
    "--dask ADDRESS": "grade on a Dask cluster, e.g. tcp://10.0.0.1:8786; all "
    "of it needs the same version of the book, its workers the same files",
    "--seed N": "of the inputs: the same seed gives the same report (default: "
    "drawn, and printed)",
    "--points FILE": "points in place of the book's: JSON {exercise: points}, "
    "or CSV with a line for each",
    "--roster FILE": "a platform's CSV of the class: DIR/roster.csv is that "
    "with the points in it, and the reports list those without a submission",
    "--column NAME": "of the roster, for the points (default: that with the "
    "chapter's name, else Grade, else a new one)",
    "--timeout SECONDS": "for each exercise (default: 60)",
}


def add_arguments(commands: Any) -> None:
    """Add ``grade`` to the commands of ``attn``."""
    parser = commands.add_parser(
        "grade",
        help="grade a notebook, or a class of them",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("paths", type=Path, nargs="+", metavar="PATH")
    for words, text in _OPTIONS.items():
        option, value = words.split()
        kind = _KINDS.get(value, str)
        parser.add_argument(option, metavar=value, type=kind, help=text)
    parser.add_argument(
        "--isolation",
        choices=["bubblewrap", "none"],
        help="what closes notebooks off; none is for a machine that is thrown "
        "away (default: bubblewrap)",
    )
    parser.set_defaults(out=Path("grades"), timeout=60.0)
    parser.set_defaults(run=run, isolation="bubblewrap")


def run(args: argparse.Namespace) -> int:
    """Grade what the arguments name; return the exit status.

    Raises:
        ModuleNotFoundError: what grading needs is not installed.
    """
    before = os.umask(0o077)
    os.umask(before | 0o022)  # what is written is this user's alone
    stop = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with _nothing_runs_from(args.paths):
            return _grade(args)
    except ValueError as error:
        print(f"attn grade: {clean(str(error))}", file=sys.stderr)
        return 2
    finally:
        signal.signal(signal.SIGTERM, stop)
        os.umask(before)


@contextmanager
def _nothing_runs_from(paths: Iterable[Path]) -> Iterator[None]:
    """Import and run nothing from the current folder, or from submissions.

    One could be called ``signal.py``, or ``sh``.
    """
    named = {x.resolve() for x in paths}
    closed = {*named, *(x.parent for x in named if x.is_file()), Path.cwd()}
    path, environment = sys.path[:], dict(os.environ)
    sys.path[:] = [x for x in path if Path(x).resolve() not in closed]
    sys.path += [str(_HOME)] if _HOME in closed else []
    programs = os.environ.get("PATH", os.defpath).split(os.pathsep)
    known = [x for x in map(Path, programs) if x.is_absolute()]
    os.environ["PATH"] = os.pathsep.join(
        str(x) for x in known if x.resolve() not in closed
    )
    os.environ["PYTHONSAFEPATH"] = "1"
    os.environ.pop("PYTHONPATH", None)  # a worker gets this process's paths
    try:
        yield
    finally:
        sys.path[:] = path
        os.environ.clear()
        os.environ.update(environment)


def _grade(args: argparse.Namespace) -> int:
    for name in _NEEDED.split():
        if find_spec(name) is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    from attn.grading.classroom import assignment, batch, dask, pools, tables
    from attn.grading.classroom.submissions import find
    from attn.grading.sandbox import isolation

    isolation.require(args.isolation)
    worth = assignment.read_points(args.points) if args.points else {}
    handed_in = find(args.paths)
    people: dict[str, list[str]] = {}
    for x in handed_in:
        people.setdefault(x.learner, []).extend(x.ids)
    if args.column and not args.roster:
        raise ValueError("--column must come with --roster")
    jobs = pools.cores() if args.jobs is None else args.jobs
    if jobs < 1 or not 0 < args.timeout < math.inf:
        raise ValueError(
            "--jobs must be 1 or more, and --timeout more than 0; got "
            f"{jobs} and {args.timeout}"
        )
    roster = None
    if args.roster:
        roster = tables.Roster(args.roster, args.column, people)
        people = roster.people
    by_hand = tables.read_marks(args.out / tables.MARKS, people)
    pool = partial(dask.cluster, args.dask) if args.dask else pools.processes
    results: list[Result] = []
    try:
        with batch.opened(
            args.out,
            args.paths,
            args.seed,
            timeout=args.timeout,
            points=worth,
            isolation=args.isolation,
        ) as options:
            graded = batch.run(handed_in, options, args.out, pool, jobs)
            for result in _shown(graded, len(handed_in)):
                results.append(result)
            _report(results, args.out, by_hand, roster)
    except KeyboardInterrupt:
        print(
            f"attn grade: stopped, with {len(results)} of {len(handed_in)} "
            f"submissions graded. What is graded is in {args.out}; the same "
            "command goes on from there.",
            file=sys.stderr,
        )
        return 130
    return 0


def _shown(results: Iterable[Result], total: int) -> Iterator[Result]:
    """Show on stderr how far it is: a bar, or lines for a file or a pipe.

    The lines begin after two seconds without a word.
    """
    from rich.console import Console
    from rich.progress import track

    start, console = time.monotonic(), Console(stderr=True)
    is_bar = console.is_terminal
    bar = track(results, "grading", total, console=console, disable=not is_bar)
    for count, result in enumerate(bar, 1):
        if not is_bar and time.monotonic() - start > PATIENCE:
            line = f"graded {count} of {total}: {result.submission}"
            print(line, file=sys.stderr, flush=True)
        yield result


def _report(
    results: Sequence[Result],
    out: Path,
    by_hand: ByHand,
    roster: Roster | None,
) -> None:
    """Write the reports, and print the table."""
    from rich.console import Console

    from attn.grading.classroom import reports, tables
    from attn.grading.classroom.reports.class_ import Class
    from attn.grading.classroom.reports.terminal import show

    if not (out / tables.MARKS).exists():
        (out / tables.MARKS).write_text(f"{tables.MARKS_HEAD}\n")
    marked = tables.applied(results, by_hand)
    class_ = Class(marked, by_hand, roster.absent if roster else ())
    written = reports.write(
        class_, out, roster.filled(class_) if roster else ""
    )
    judged = {(x.learner, y.exercise) for x in results for y in x.marks}
    lines = [
        f"{tables.MARKS}: nothing of {exercise} was judged for {learner}: "
        "leave the exercise empty, to give the total"
        for learner, exercise in by_hand
        if exercise and (learner, exercise) not in judged
    ]
    if roster and roster.unknown:
        lines.append(f"not in the roster: {'; '.join(roster.unknown)}")
    kinds = {x.isolation for x in results if x.isolation}
    lines += [f"isolation: {x}" for x in sorted(kinds)]
    places = ", ".join(sorted({x.relative_to(out).parts[0] for x in written}))
    console = Console(highlight=False)
    show(class_, console)
    for line in lines:
        console.print(line, markup=False)
    line = f"seed {results[0].seed} · in {out}: {places}"
    console.print(line, markup=False, soft_wrap=True)
