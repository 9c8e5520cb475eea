"""Show how far a batch is."""

from __future__ import annotations

import itertools
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attn.grading.classroom.result import Result

PATIENCE = 2.0  # seconds without a word


@contextmanager
def shown(total: int) -> Iterator[Callable[[Result], None]]:
    """Show how far it is on stderr, after two seconds without a word.

    A terminal shows a bar; a file or a pipe gets a line a submission.
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
    )

    console = Console(stderr=True)
    bar = Progress(
        TextColumn("grading"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[last]}", markup=False),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    task = bar.add_task("", total=total, last="")
    start, count = time.monotonic(), itertools.count(1)

    def show(result: Result) -> None:
        done, name = next(count), result.submission
        bar.update(task, advance=1, last=name)
        if bar.disable and time.monotonic() - start > PATIENCE:
            line = f"graded {done} of {total}: {name}"
            print(line, file=sys.stderr, flush=True)

    later = threading.Timer(PATIENCE, bar.start)
    later.daemon = True
    later.start()
    try:
        yield show
    finally:
        later.cancel()
        later.join()
        bar.stop()
