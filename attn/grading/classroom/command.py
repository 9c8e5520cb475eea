"""Run ``attn grade``: a progress bar, a table, the reports."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attn.grading.classroom.result import Result
    from attn.grading.classroom.submissions import Submission

_DESCRIPTION = """\
Grade notebooks: one, or a class.

A PATH is a notebook, a Python file, or a folder of them, flat or with a
folder for each learner; nbgrader's and Gradescope's folders are read as they
are. Of each submission only the exercise cells are taken. Each answer is
judged on fresh inputs, from outside the closed process that it runs in.
"""
_EXAMPLES = """\
examples:
  attn grade submitted/                    a class, into grades/
  attn grade alice_05.ipynb --out alice    one notebook
  attn grade submitted/ --points ps1.csv   lines such as gqa-repeat_kv,5

A batch that was stopped goes on with the same command. The exit status is 0
when each submission has its row, whatever the marks; 2 for a wrong argument.
"""


def add_arguments(commands: Any) -> None:
    """Add ``grade`` to the commands of ``attn``."""
    parser = commands.add_parser(
        "grade",
        help="grade a notebook, or a class of them",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("paths", type=Path, nargs="+", metavar="PATH")
    add(
        "--out",
        type=Path,
        default=Path("grades"),
        metavar="DIR",
        help="folder of the reports; a folder that holds a batch resumes it "
        "(default: grades)",
    )
    add(
        "--jobs",
        type=_positive(int),
        metavar="N",
        help="submissions graded at a time (default: the number of cores)",
    )
    add(
        "--dask",
        metavar="ADDRESS",
        help="grade on a Dask cluster, e.g. tcp://10.0.0.1:8786; all of it "
        "needs the same version of the book, its workers the same files",
    )
    add(
        "--seed",
        type=_whole,
        metavar="N",
        help="of the inputs: the same seed gives the same report (default: "
        "drawn, and printed)",
    )
    add(
        "--points",
        type=Path,
        metavar="FILE",
        help="points in place of the book's: JSON {exercise: points}, or CSV "
        "with a line for each",
    )
    add(
        "--timeout",
        type=_positive(float),
        default=60.0,
        metavar="S",
        help="seconds for each exercise (default: 60)",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Grade what the arguments name; return the exit status."""
    from attn.grading.classroom import closed_folders

    with closed_folders.nothing_runs_from(args.paths) as warning:
        if warning:
            print(f"attn grade: {warning}", file=sys.stderr)
        before = os.umask(0o077)
        os.umask(before | 0o022)  # what is written is this user's alone
        try:
            return _grade(args)
        finally:
            os.umask(before)


def _grade(args: argparse.Namespace) -> int:
    from attn.grading.classroom import (
        assignment,
        batch,
        progress,
        submissions,
    )

    handed_in: list[Submission] = []
    results: dict[str, Result] = {}
    try:
        worth = assignment.read_points(args.points) if args.points else {}
        handed_in += submissions.find(args.paths, skip=args.out)
        with (
            _stoppable(),
            batch.opened(
                args.out, args.paths, args.seed, args.timeout, worth
            ) as options,
        ):
            with progress.shown(len(handed_in)) as show:
                for result in batch.run(
                    handed_in,
                    options,
                    args.out,
                    jobs=args.jobs,
                    dask=args.dask,
                ):
                    results[result.submission] = result
                    show(result)
            _report([results[x.name] for x in handed_in], args.out)
    except ValueError as error:
        print(f"attn grade: {error}", file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        print(
            f"attn grade: {error.name} is not installed; what grading needs "
            "comes with `pip install 'attn[learn,grade]'`",
            file=sys.stderr,
        )
        return 2
    except KeyboardInterrupt:
        print(
            f"attn grade: stopped, with {len(results)} of {len(handed_in)} "
            f"submissions graded. What is graded is in {args.out}; the same "
            "command goes on from there.",
            file=sys.stderr,
        )
        return 130
    return 0


def _report(results: Sequence[Result], out: Path) -> None:
    """Write the reports, and print the table."""
    from rich.console import Console

    from attn.grading.classroom import reports

    written = reports.write(results, out)
    console = Console(highlight=False)
    console.print(reports.table(results))
    for isolation in sorted({x.isolation for x in results if x.isolation}):
        console.print(f"isolation: {isolation}", markup=False)
    places = ", ".join(sorted({x.relative_to(out).parts[0] for x in written}))
    line = f"seed {results[0].seed} · in {out}: {places}"
    console.print(line, markup=False, soft_wrap=True)


@contextmanager
def _stoppable() -> Iterator[None]:
    """Let SIGTERM stop the batch as Ctrl-C does."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _positive(kind: type[float]) -> Any:
    def parse(text: str) -> float:
        number = kind(text)
        if not 0 < number < float("inf"):
            raise ValueError
        return number

    parse.__name__ = f"positive {kind.__name__}"
    return parse


def _whole(text: str) -> int:
    number = int(text)
    if not 0 <= number < 2**63:
        raise ValueError
    return number


_whole.__name__ = "whole number from 0"
