"""Have what a chapter needs in a kernel, whichever cell runs.

"Continue here" leads to an exercise in the middle of a chapter, where nothing
has run yet: the cell of the imports runs before a learner's first. Nothing
here needs torch.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

#: The tag of that cell, and its title.
TAG, TITLE = "run-first", "Run this first"
#: A cell that begins with a call without arguments, or with an exercise's id.
_CALL = re.compile(r"\s*(\w+)\((?:(['\"])[\w-]+\2)?\)")


def prepare(notebook: Path) -> None:
    """Have this kernel run that cell first, unless a learner does.

    Args:
        notebook: of the kernel. What was saved in it last is what runs; one
            without such a cell is left alone.
    """
    from IPython.core.getipython import get_ipython
    from IPython.utils.capture import capture_output

    shell: Any = get_ipython()

    def before(info: Any) -> None:
        if not info.store_history:  # a tool's cell, not a learner's
            return
        shell.events.unregister("pre_run_cell", before)
        cell = _cell(notebook)
        if not cell or info.cell_id == cell.get("id"):
            return
        with capture_output():
            result = shell.run_cell("".join(cell["source"]), silent=True)
        _say(result.success)
        if result.success:
            from attn.exercises import ran

            ran.begin(info)  # the imports may have begun to watch

    shell.events.register("pre_run_cell", before)


def keep(functions: Mapping[str, Callable[..., Any]]) -> None:
    """Put functions in this kernel, and put back one that a cell calls.

    It may be gone (``%reset``), or be another thing (``check = 3``).

    Args:
        functions: by their names.
    """
    from IPython.core.getipython import get_ipython

    shell: Any = get_ipython()
    names = shell.user_ns
    names.update(functions)

    def before(info: Any) -> None:
        call = _CALL.match(info.raw_cell)
        name = call[1] if call else ""
        if name not in functions or callable(value := names.get(name)):
            return
        names[name] = functions[name]
        if value is not None:
            kind = type(value).__name__
            _show(f"`{name}`", f"was a {kind}; now it is the book's again.")

    shell.events.register("pre_run_cell", before)


def _cell(notebook: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError, LookupError, TypeError):
        return of(json.loads(notebook.read_text("utf-8")))
    return {}


def of(notebook: Any) -> dict[str, Any]:
    """Return the cell of a notebook; an empty one where there is none."""
    for cell in notebook["cells"]:
        if TAG in cell["metadata"].get("tags", []):
            return cell
    return {}


def _say(is_done: bool) -> None:
    """Say what has run."""
    said = "ended with this error: change that cell, and run it."
    if is_done:
        said = "has run: it holds the imports of this chapter."
    _show(f"*{TITLE}*", said)


def _show(what: str, said: str) -> None:
    """Show a line that is no part of a cell's result."""
    from IPython.display import display

    text = {
        "text/plain": f"{what.strip('*`')} {said}",
        "text/markdown": f"{what} {said}",
    }
    display(text, metadata={"attn": {"stream": ""}}, raw=True)
