"""Note what runs in this kernel, and find an exercise's answer in it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from attn.exercises import sources
from attn.exercises.answers import NOT_STARTED, binds, digest
from attn.exercises.place import place
from attn.exercises.standing import Run, Standing

#: The words for no new verdict: that of before counts, or there is none.
FIRST, UNJUDGED = "run your cell first", "not judged"
_NEXT = {
    "": "",
    FIRST: "Run your cell first, then check.",
    UNJUDGED: "Run it again, then check.",
}

_shell: Any = None
_runs: list[Run] = []
#: The runs that are going on, each with IPython's own object and, by name,
#: the identities of the values that it began with.
_running: list[tuple[Run, Any, dict[str, int]]] = []
#: How many of the runs a reset took back, by the name that they defined.
_void: dict[str, int] = {}


class Found(NamedTuple):
    """The state of an answer, before a check judges it.

    Args:
        text: that a verdict is about; empty if it is not known.
        said: why there is nothing to judge; empty if there is.
        word: ``FIRST`` or ``UNJUDGED``; empty if it is not started.
        beside: sentences on the answer's cell, and on others with the name.
    """

    text: str
    said: str = ""
    word: str = ""
    beside: Sequence[str] = ()


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


def found(
    exercise: str, namespace: dict[str, Any], value: Any, judged: str | None
) -> Found | None:
    """Return what a check finds; None where the namespace is no notebook's.

    Args:
        exercise: its id.
        namespace: in which it is checked.
        value: what its name means there.
        judged: digest of the text whose verdict is stored; None where none is.
    """
    name = exercise.partition("-")[2]
    stands = standing(name, namespace)
    if stands is None:
        return None
    text, run = stands.text, stands.failed or stands.run
    stub, word, said = sources.stub(exercise), "", ""
    is_reference = hasattr(value, "__attn_reference__")
    if digest(text) == digest(stub) or not text and name in _void:
        said = f'{NOT_STARTED}. hint("{exercise}") gives a hint.'
        return Found(stub, said)
    if run is None and (value is None or is_reference):
        word, said = FIRST, f"{name} has not run since the kernel started."
    elif run and _has_changed(run):
        word, said = FIRST, "Your cell has changed since it ran, or is gone."
    elif said := stands.trouble:
        word = FIRST if digest(text) == judged else UNJUDGED
    elif value is None or is_reference and judged not in (None, digest(text)):
        word, said = FIRST, f"{name} is not defined."
    return Found(text, f"{said} {_NEXT[word]}".strip(), word, stands.beside)


def standing(name: str, namespace: dict[str, Any]) -> Standing | None:
    """Return a notebook's answer; None where the namespace is of none."""
    watch()
    if _shell is None or namespace is not _shell.user_ns:
        return None
    _note_changes()
    return Standing(name, _runs[_void.get(name, 0) :])


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


def take_back(name: str) -> None:
    """Let no run so far define a name."""
    _void[name] = len(_runs)


def put(name: str, value: Any, namespace: dict[str, Any]) -> None:
    """Give a name a value that is none of the running cell's doing."""
    _note_changes()
    namespace[name] = value
    for _, _, before in _running:
        before[name] = id(value)


def _has_changed(run: Run) -> bool:
    """Return whether the notebook was saved after a run, without its text."""
    known = _shell.user_ns.get("__vsc_ipynb_file__")
    path = Path(known or os.environ.get("JPY_SESSION_NAME", ""))
    with suppress(OSError, ValueError, LookupError, TypeError):
        if run.ended and path.stat().st_mtime > run.ended:
            cells = json.loads(path.read_text("utf-8"))["cells"]
            texts = {digest("".join(x["source"])) for x in cells}
            return digest(run.text) not in texts
    return False


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
