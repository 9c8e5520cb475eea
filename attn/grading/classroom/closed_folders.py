"""Keep folders of submissions from what Python imports and the shell runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

#: The book, where it is not installed.
_HOME = Path(__file__).resolve().parents[3]
_COMES_LATE = (
    "Python has imported from {where} before the grader could prevent it, "
    "and a submission called types.py would have run: it was started there "
    "with -m, or PYTHONPATH names the folder. Type `attn grade …`, without "
    "such a PYTHONPATH"
)


@contextmanager
def nothing_runs_from(paths: Iterable[Path]) -> Iterator[str]:
    """Let this and new processes import and run nothing from some folders.

    Submissions are there, and one could be called ``signal.py``, or ``sh``.

    Args:
        paths: of submissions, and of folders of them; the current folder is
            closed, too.

    Yields:
        A warning if Python has imported from one of them until now, or an
        empty text.
    """
    closed = {x.resolve() for x in paths}
    closed |= {x.parent for x in closed if not x.is_dir()} | {Path.cwd()}
    path, environment = sys.path[:], dict(os.environ)
    was_open = {x for x in map(Path, path) if x.resolve() in closed}
    if _by_its_name() and not sys.flags.safe_path:
        was_open.add(Path.cwd())
    sys.path[:] = [x for x in path if Path(x).resolve() not in closed]
    if _HOME in closed:
        sys.path.append(str(_HOME))
    os.environ["PYTHONSAFEPATH"] = "1"
    os.environ.pop("PYTHONPATH", None)  # a worker gets this process's paths
    programs = os.environ.get("PATH", os.defpath).split(os.pathsep)
    os.environ["PATH"] = os.pathsep.join(
        x
        for x in programs
        if Path(x).is_absolute() and Path(x).resolve() not in closed
    )
    try:
        where = " and ".join(sorted(map(str, was_open - {_HOME})))
        yield _COMES_LATE.format(where=where) if where else ""
    finally:
        sys.path[:] = path
        os.environ.clear()
        os.environ.update(environment)


def _by_its_name() -> bool:
    """Return whether this process was started as ``python -m attn``."""
    started = getattr(sys.modules["__main__"], "__spec__", None)
    return started is not None and started.name == "attn.__main__"
