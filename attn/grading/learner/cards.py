"""Show what a check, a hint and a goal say, as cards in a notebook.

A card is readable in JupyterLab, VS Code and Colab, in light and dark: its
text has the colour that the front end gives it, and only a badge has a ground
of its own. Elsewhere its text is printed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import Tensor

from attn.exercises.answers import NOT_STARTED, Note
from attn.exercises.markdown import pages
from attn.exercises.place import place
from attn.exercises.wrapping import wrapped

if TYPE_CHECKING:
    from jinja2 import Environment

_OFF = (
    "ATTN_NO_PROGRESS",
    "NBGRADER_EXECUTION",
    "PYTEST_CURRENT_TEST",
    "PYTEST_VERSION",
)


class Kind(NamedTuple):
    """The sign, the word and the colour of a result; white is readable on it.

    The colour alone says nothing.
    """

    sign: str
    word: str
    colour: str


RIGHT = Kind("✓", "right", "#1a7f37")
WRONG = Kind("✗", "not right yet", "#c0322c")
CALM = Kind("·", NOT_STARTED, "#68727d")


def is_enabled() -> bool:
    """Return False in a test, and while the book runs its own chapters."""
    return not any(name in os.environ for name in _OFF)


def is_live() -> bool:
    """Return whether a notebook shows this: no terminal, and no test."""
    from IPython.core.getipython import get_ipython

    return hasattr(get_ipython(), "kernel") and is_enabled()


def show(
    text: str,
    rich: Callable[[], str],
    *,
    mime: str = "text/html",
    wrong: bool = False,
    note: Note | None = None,
    below: Sequence[str] = (),
) -> None:
    """Show a card in a notebook; print its text elsewhere.

    Args:
        text: the card in plain text.
        rich: makes the card, which a terminal does not need.
        mime: the type of the card.
        wrong: whether the text goes to stderr, and not to stdout.
        note: of the answer that a check spoke of, for whoever reads the file.
        below: sentences below the card.
    """
    text = "\n".join([text, *(y for x in below for y in wrapped(x, "  "))])
    if not is_live():
        print(text, file=sys.stderr if wrong else sys.stdout)
        return
    from IPython.display import display

    about: dict[str, Any] = {} if note is None else note._asdict()
    # For whatever compares outputs.
    about["stream"] = "stderr" if wrong else "stdout"
    data = {"text/plain": text, mime: rich() + html("notes", below)}
    display(data, metadata={"attn": about}, raw=True)


def goal(
    claim: str,
    reached: bool | float | Tensor,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
) -> None:
    """Print one line: what is to be achieved, and what has been.

    An open task has goals in place of a model answer: whatever reaches them
    is right. There are no points, and nothing is raised.

    Args:
        claim: what a good answer achieves, in words.
        reached: whether it does, or the measured number, of any 0-dim type.
        at_least, at_most: the bounds of a number, one of them or both; NaN
            is within none.

    Raises:
        ValueError: a number without a bound, or a truth value with one.
    """
    value = reached.item() if isinstance(reached, Tensor) else reached
    bounds = {"at least": at_least, "at most": at_most}
    wanted = [f"{w} {b:.4g}" for w, b in bounds.items() if b is not None]
    if isinstance(value, bool) == bool(wanted):
        raise ValueError(
            "reached must be True or False, or a number with at_least or "
            f"at_most; got {value!r} and {' and '.join(wanted) or 'no bound'}"
        )
    done, measured = bool(value), ""
    if not isinstance(value, bool):
        done = (at_least is None or value >= at_least) and (
            at_most is None or value <= at_most
        )
        measured = f": {value:.4g}, {' and '.join(wanted)}"
    kind, rest = CALM._replace(word="not yet"), "  (not yet)"
    if done:
        kind, rest = RIGHT._replace(word="reached"), ""
    show(
        f"{kind.sign} {claim}{measured}{rest}",
        lambda: html("goal", claim + measured, kind),
    )


def html(name: str, *about: Any, page: str = "cards.html", **more: Any) -> str:
    """Return a card: a macro of a page, by its name, filled in."""
    macros = templates().get_template(page).module
    return str(getattr(macros, name)(*about, **more))


@cache
def templates() -> Environment:
    """Return what fills in this folder's pages; every text is escaped.

    Compiled once for all kernels, where a folder of the user's can be had.
    """
    from jinja2 import FileSystemBytecodeCache

    environment = pages(Path(__file__).parent)
    with suppress(OSError, RuntimeError):
        environment.bytecode_cache = FileSystemBytecodeCache()
    environment.globals |= {
        "CALM": CALM,
        "RIGHT": RIGHT,
        "WRONG": WRONG,
        "in_colab": lambda: "google.colab" in sys.modules,
        "place": place,
    }
    return environment
