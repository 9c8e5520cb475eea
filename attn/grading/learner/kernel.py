"""Make a chapter's first cell work, whichever it is: a kernel of attn lab.

Only what has to be there before a cell runs: torch is imported by the cell.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from types import FunctionType
from typing import Any

from attn import grading


def start(names: dict[str, Any]) -> None:
    """Prepare the kernel of a notebook, and run a learner's start-up file.

    Args:
        names: the namespace of the notebook; of Python in a terminal, to
            which nothing is added.
    """
    # The second is inherited by what a cell starts, the first is not.
    if "ipykernel" in sys.modules and "JPY_SESSION_NAME" in os.environ:
        names.update({x: _stand_in(x, names) for x in grading.__all__})
        _run_first(Path(os.environ["JPY_SESSION_NAME"]))
    if own := os.environ.get("ATTN_PYTHONSTARTUP"):
        exec(compile(Path(own).read_text("utf-8"), own, "exec"), names)


def _stand_in(name: str, names: dict[str, Any]) -> FunctionType:
    """Return a function that is one of attn's from its first call.

    Its global names are the notebook's: there check looks for an answer.
    With it, all others give way to what they stand for.
    """

    def function(*args: Any, **kwargs: Any) -> Any:
        for other in grading.__all__:
            if getattr(names.get(other), "__code__", None) is code:
                names[other] = getattr(grading, other)
        return getattr(grading, name)(*args, **kwargs)

    code = function.__code__
    return FunctionType(code, names, name, closure=function.__closure__)


def _run_first(notebook: Path) -> None:
    """Have the cell of the imports run before the first of a learner's."""
    from IPython.core.getipython import get_ipython
    from IPython.display import display
    from IPython.utils.capture import capture_output

    shell: Any = get_ipython()

    def before(info: Any) -> None:
        if not info.store_history:  # a tool's cell, not a learner's
            return
        shell.events.unregister("pre_run_cell", before)
        first: dict[str, Any] = {}
        with suppress(OSError, ValueError, LookupError, TypeError):
            for cell in json.loads(notebook.read_text("utf-8"))["cells"]:
                if "run-first" in cell["metadata"].get("tags", []):
                    first = cell
        source = "".join(first.get("source", ""))
        if not source or info.cell_id == first.get("id"):
            return
        with capture_output():
            is_done = shell.run_cell(source, silent=True).success
        said = "has run: it holds the imports of this chapter."
        if not is_done:
            said = "ended with this error: change that cell, and run it."
        text = {"text/plain": f"Run this first {said}"}
        text["text/markdown"] = f"*Run this first* {said}"
        display(text, metadata={"attn": {"stream": ""}}, raw=True)

    shell.events.register("pre_run_cell", before)
