"""Run ``attn grade``: a progress bar, a table, the reports."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attn.grading.classroom import arguments

if TYPE_CHECKING:
    from attn.grading.classroom.register import Register
    from attn.grading.classroom.result import Result
    from attn.grading.classroom.submissions import Submission

#: What workers and reports import, too late to be said in one line.
_NEEDED = ("IPython", "cloudpickle", "jinja2", "jupytext", "safetensors")


def add_arguments(commands: Any) -> None:
    """Add ``grade`` to the commands of ``attn``."""
    arguments.add_parser(commands).set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Grade what the arguments name; return the exit status.

    Raises:
        ModuleNotFoundError: what grading needs is not installed.
    """
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
    for name in _NEEDED:
        if find_spec(name) is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    from attn.grading.classroom import (
        assignment,
        batch,
        progress,
        submissions,
    )
    from attn.grading.classroom.register import Register

    handed_in: list[Submission] = []
    results: dict[str, Result] = {}
    try:
        worth = assignment.read_points(args.points) if args.points else {}
        handed_in += submissions.find(args.paths, skip=args.out)
        register = Register.of(handed_in, args.out, args.roster, args.column)
        again = batch.of_learners(handed_in, args.again)
        with (
            _stoppable(),
            batch.opened(
                args.out,
                args.paths,
                args.seed,
                args.timeout,
                worth,
                args.partial,
            ) as options,
        ):
            with progress.shown(len(handed_in)) as show:
                for result in batch.run(
                    handed_in,
                    options,
                    args.out,
                    jobs=args.jobs,
                    dask=args.dask,
                    again=again,
                ):
                    results[result.submission] = result
                    show(result)
            _report([results[x.name] for x in handed_in], args.out, register)
    except ValueError as error:
        print(f"attn grade: {error}", file=sys.stderr)
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


def _report(results: Sequence[Result], out: Path, register: Register) -> None:
    """Write the reports, and print the table."""
    from rich.console import Console

    from attn.grading.classroom import marks, reports

    marks.prepare(out / marks.NAME)
    seed = results[0].seed
    results, more = register.applied(results)
    written = reports.write(results, out, **more, roster=register.filled)
    console = Console(highlight=False)
    console.print(reports.table(results, **more))
    if register.unknown:
        names = "; ".join(register.unknown)
        console.print(f"not in the roster: {names}", markup=False)
    if totals := register.without_column(results, more["remarks"]):
        console.print(
            f"not in roster.csv: the total by hand of {'; '.join(totals)}. "
            "Its columns are those of chapters: give points of exercises, or "
            "name a column of totals with --column",
            markup=False,
        )
    for isolation in sorted({x.isolation for x in results if x.isolation}):
        console.print(f"isolation: {isolation}", markup=False)
    places = ", ".join(sorted({x.relative_to(out).parts[0] for x in written}))
    line = f"seed {seed} · in {out}: {places}"
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
