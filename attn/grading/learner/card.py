"""Show cards in a notebook, and their text everywhere else.

A card is readable in JupyterLab, VS Code and Colab, in light and dark: its
text has the colour that the front end gives it, and only a badge has a ground
of its own. Styles are inline, without variables: no other survives where
JupyterLab cleans a notebook that it does not trust.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from html import escape
from typing import NamedTuple

from attn.exercises.markdown import as_html
from attn.grading.checks.grid import Grid
from attn.grading.learner import progress_store

_LINE = "rgba(128,128,128,.45)"
_TINT = "rgba(128,128,128,.12)"
_CELL = (
    "background:none;border:0;padding:.1em 1.4em .1em 0;text-align:left;"
    "font-weight:normal;word-break:break-word"
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
CALM = Kind("·", "not written yet", "#68727d")


def is_live() -> bool:
    """Return whether a notebook shows this: no terminal, and no test."""
    from IPython.core.getipython import get_ipython

    has_front_end = hasattr(get_ipython(), "kernel")
    return has_front_end and progress_store.is_enabled()


def show(
    text: str,
    rich: Callable[[], str],
    *,
    mime: str = "text/html",
    wrong: bool = False,
) -> None:
    """Show a card in a notebook; print its text elsewhere.

    Args:
        text: the card in plain text.
        rich: makes the card, which a terminal does not need.
        mime: the type of the card.
        wrong: whether the text goes to stderr, and not to stdout.
    """
    if not is_live():
        print(text, file=sys.stderr if wrong else sys.stdout)
        return
    from IPython.display import display

    stream = "stderr" if wrong else "stdout"  # for whatever compares outputs
    data = {"text/plain": text, mime: rich()}
    display(data, metadata={"attn": {"stream": stream}}, raw=True)


def frame(kind: Kind, label: str, head: str, *body: str) -> str:
    """Return a card: a head that a screen reader announces, and the rest."""
    style = (
        "max-width:44em;margin:.3em 0;padding:.7em 1em .8em;line-height:1.5;"
        f"border:1px solid {_LINE};border-left:6px solid {kind.colour};"
        "border-radius:6px"
    )
    return (
        f'<div role="group" aria-label="{escape(label)}" style="{style}">'
        f'<div role="status">{head}</div>{"".join(body)}</div>'
    )


def header(kind: Kind, title: str, name: str, points: str) -> str:
    """Return a card's first line."""
    style = "display:flex;flex-wrap:wrap;align-items:baseline;gap:.2em .7em"
    return (
        f'<p style="margin:0;{style}">{badge(kind)} <span>{escape(title)}'
        f"</span> <code>{escape(name)}</code> "
        f'<span style="margin-left:auto">{escape(points)}</span></p>'
    )


def badge(kind: Kind) -> str:
    """Return the sign and the word of a result on its colour."""
    style = (
        "padding:.1em .6em;border-radius:1em;font-weight:bold;color:#fff;"
        f"background:{kind.colour};white-space:nowrap"
    )
    return (
        f'<span style="{style}"><span aria-hidden="true">{kind.sign}</span> '
        f"{escape(kind.word)}</span>"
    )


def headline(label: str, text: str) -> str:
    """Return the largest text of a card, below the words that lead to it."""
    lead = f"{escape(label.capitalize())}<br>" if label else ""
    text = re.sub("^it ", "It ", text)
    return (
        f'<p style="margin:.6em 0 0">{lead}'
        f'<b style="font-size:1.25em;line-height:1.3">{as_html(text)}</b></p>'
    )


def line(html: str) -> str:
    """Return a paragraph."""
    return f'<p style="margin:.6em 0 0">{html}</p>'


def apart(text: str) -> str:
    """Return a sentence set apart: the one to think about."""
    style = (
        "margin:.7em 0 0;padding:.5em .9em;font-size:1.05em;"
        f"background:{_TINT};border-left:4px solid {_LINE}"
    )
    return f'<p style="{style}">{as_html(text)}</p>'


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a small table, whose first column names the rows."""
    columns = "".join(
        f'<th scope="col" style="{_CELL}">{escape(x)}</th>' for x in head
    )
    body = ""
    for first, *rest in rows:
        cells = "".join(f'<td style="{_CELL}">{escape(x)}</td>' for x in rest)
        name = f'<th scope="row" style="{_CELL}">{escape(first)}</th>'
        body += f'<tr style="background:none">{name}{cells}</tr>'
    style = "margin:.5em 0 0;border-collapse:collapse;font-family:monospace"
    return (
        f'<table style="{style};font-size:.95em"><thead><tr>{columns}</tr>'
        f"</thead><tbody>{body}</tbody></table>"
    )


def matrix(grid: Grid) -> str:
    """Return a matrix in signs, with a ground for those that are wrong."""
    cell = "padding:0 .15em;text-align:center;min-width:1em;background"
    styles = dict.fromkeys("+-x", f"{cell}:{WRONG.colour};color:#fff")
    styles["#"] = f"{cell}:{_LINE}"
    body = ""
    for label, signs in [("", map(str, grid.columns)), *grid.rows]:
        cells = "".join(
            f'<td style="{styles.get(x, cell + ":none")}">{escape(x)}</td>'
            for x in [str(label), *signs]
        )
        body += f'<tr style="background:none">{cells}</tr>'
    small = "font-family:monospace;font-size:.8em"
    table = f"margin:0;border-spacing:1px;border-collapse:separate;{small}"
    return (
        f'<div><p style="margin:.7em 0 .2em;{small}">{escape(grid.key)}</p>'
        f'<table aria-label="{escape(grid.name)}" style="{table}">'
        f"<tbody>{body}</tbody></table></div>"
    )


def beside(*blocks: str) -> str:
    """Return blocks side by side; one below the other in a narrow pane."""
    style = "display:flex;flex-wrap:wrap;gap:0 2em;align-items:flex-start"
    return f'<div style="{style}">{"".join(blocks)}</div>'


def folded(title: str, *body: str, is_open: bool = False) -> str:
    """Return what opens at a click, or with Enter.

    Args:
        title: HTML.
        body: HTML.
        is_open: whether it is open at first.
    """
    return (
        f'<details{" open" * is_open} style="margin:.6em 0 0">'
        f'<summary style="cursor:pointer">{title}</summary>'
        f"{''.join(body)}</details>"
    )


def known(text: str) -> str:
    """Return a text of paragraphs and, indented, of lines as they are."""
    html, lines = "", text.splitlines()
    while lines:
        is_table = lines[0].startswith("  ")
        block = [lines.pop(0)]
        while is_table and lines and lines[0].startswith("  "):
            block.append(lines.pop(0))
        html += (
            as_it_is("\n".join(block)) if is_table else line(as_html(*block))
        )
    return html


def as_it_is(text: str) -> str:
    """Return lines of code or of numbers; what is too wide can be scrolled."""
    style = (
        "margin:.5em 0 0;padding:0;overflow-x:auto;font-size:.9em;"
        "white-space:pre;background:none"
    )
    return f'<pre tabindex="0" style="{style}">{escape(text)}</pre>'


def link(address: str, text: str) -> str:
    """Return a link; in Colab its text, for an output there has no folder."""
    if "google.colab" in sys.modules:
        return escape(text)
    return f'<a href="{escape(address)}">{escape(text)}</a>'


def code(text: str) -> str:
    """Return a call to copy: a click selects all of it, where that is kept."""
    return f'<code style="user-select:all">{escape(text)}</code>'


def bar(share: float) -> str:
    """Return a bar that is full at 1; beside it the number must be given."""
    green = f"width:{100 * share:.0f}%;height:.7em;background:{RIGHT.colour}"
    return (
        f'<span style="display:block;border:1px solid {_LINE};'
        'border-radius:.4em;overflow:hidden">'
        f'<span style="display:block;{green}"></span></span>'
    )
