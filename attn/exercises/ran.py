"""Note what runs in this kernel: the cells, in their order."""

from __future__ import annotations

import time
from typing import Any

from attn.exercises import sources
from attn.exercises.answers import digest
from attn.exercises.bindings import binds
from attn.exercises.place import place
from attn.exercises.standing import Run, Standing, helpers_of

_shell: Any = None
_runs: list[Run] = []
#: The runs that are going on, each with IPython's own object and, by name,
#: the identities of the values that it began with.
_running: list[tuple[Run, Any, dict[str, int]]] = []


def watch() -> None:
    """Have IPython tell of each cell from now on; of earlier ones the texts.

    A front end's id of a cell comes with it, where there is one.
    """
    from IPython.core.getipython import get_ipython

    global _shell
    shell = get_ipython()
    if shell is None or shell is _shell:
        return
    _shell = shell
    texts = enumerate(shell.history_manager.input_hist_raw)
    _runs[:] = [Run(x, None, n, ended=time.time()) for n, x in texts if n]
    shell.events.register("pre_run_cell", _begin)
    shell.events.register("post_run_cell", _end)


def begin(info: Any) -> None:
    """Note a cell that is about to run, where IPython has not told of it."""
    watch()
    if all(x is not info for _, x, _ in _running):
        _begin(info)


def standing(name: str, namespace: dict[str, Any]) -> Standing | None:
    """Return a notebook's answer; None where the namespace is of none."""
    watch()
    if _shell is None or namespace is not _shell.user_ns:
        return None
    _note_changes()
    return Standing(name, _runs)


def has_run(text: str) -> bool:
    """Return whether a cell with a text has run in this kernel."""
    return any(digest(x.text) == digest(text) for x in _runs)


def helpers(name: str, run: Run) -> dict[str, Standing]:
    """Return what the value of a name uses that a run gave it."""
    return helpers_of(name, run, _runs)


def is_own(exercise: str) -> bool:
    """Return whether the cell that runs is an answer's, and no other's too."""
    key, _, name = exercise.partition("-")
    run = current()
    if run is None:
        return False
    if bound := [x for x in sources.names(key) if binds(x, run.text)]:
        return bound == [name]
    cell = run.cell or ""
    return place(exercise).address.endswith(f"#cell-id={cell}") or any(
        cell == x.cell and binds(name, x.text) for x in _runs
    )


def current() -> Run | None:
    """Return the run that is going on."""
    return _running[0][0] if _running else None


def begin_again(name: str, stub: str) -> None:
    """Have the cell that runs define a name from now on by its stub."""
    run = _runs[-1]
    now = time.time()
    _runs.append(Run(stub, run.cell, run.number, {name}, ended=now))


def put(name: str, value: Any, namespace: dict[str, Any]) -> None:
    """Give a name a value that is none of the running cell's doing."""
    _note_changes()
    namespace[name] = value
    for _, _, before in _running:
        before[name] = id(value)


def _begin(info: Any) -> None:
    before = {x: id(y) for x, y in _shell.user_ns.items()}
    run = Run(info.raw_cell, info.cell_id, _shell.execution_count)
    if not _running:  # else a magic runs the rest of its cell
        _runs.append(run)
    _running.append((run, info, before))


def _end(result: Any) -> None:
    if not any(info is result.info for _, info, _ in _running):
        return
    _note_changes()
    error = result.error_before_exec or result.error_in_exec
    while _running:
        run, info, _ = _running.pop()
        run.ended = time.time()
        if error is not None:
            run.error = run.error or _told(error)
        if info is result.info:
            break
    for outer, _, _ in _running:
        outer.error = outer.error or run.error


def _note_changes() -> None:
    """Note the names whose values have changed in the runs that go on."""
    for run, _, before in _running:
        values = _shell.user_ns.items()
        run.bound |= {x for x, y in values if before.get(x) != id(y)}


def _told(error: BaseException) -> str:
    """Return an error's kind with its article, and where or what it is."""
    kind, said = type(error).__name__, ""
    if isinstance(error, SyntaxError):
        said = f" (line {error.lineno})"
    elif isinstance(error, NameError):
        said = f" ({error})"
    return ("an " if kind[0] in "AEIOU" else "a ") + kind + said
