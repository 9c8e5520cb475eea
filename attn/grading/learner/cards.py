"""Lay out what a check, a hint and a goal say, as cards in a notebook.

A card is readable in JupyterLab, VS Code and Colab, in light and dark: its
text has the colour that the front end gives it, and only a badge has a ground
of its own. Styles are inline, without variables: no other survives where
JupyterLab cleans a notebook that it does not trust. Elsewhere its text is
printed.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from attn.exercises.markdown import as_html
from attn.exercises.place import place

if TYPE_CHECKING:  # `attn progress` needs no judge
    from attn.exercises.spec import Exercise
    from attn.grading.checks.show import Grid
    from attn.grading.diagnosis.judge import Verdict
    from attn.grading.diagnosis.refusal import Parts

GOES_ON = "The chapter goes on with the reference."

_OFF = (
    "ATTN_NO_PROGRESS",
    "NBGRADER_EXECUTION",
    "PYTEST_CURRENT_TEST",
    "PYTEST_VERSION",
)
_LINE = "rgba(128,128,128,.45)"
_TINT = "rgba(128,128,128,.12)"
_CARD = (
    "max-width:44em;margin:.3em 0;padding:.7em 1em .8em;line-height:1.5;"
    f"border:1px solid {_LINE};border-radius:6px;border-left:6px solid "
)
_HEAD = (
    "margin:0;display:flex;flex-wrap:wrap;align-items:baseline;gap:.2em .7em"
)
_BADGE = (
    "padding:.1em .6em;border-radius:1em;font-weight:bold;color:#fff;"
    "white-space:nowrap;background:"
)
_APART = (
    "margin:.7em 0 0;padding:.5em .9em;font-size:1.05em;"
    f"background:{_TINT};border-left:4px solid {_LINE}"
)
_CODE = (
    "margin:.5em 0 0;padding:0;overflow-x:auto;font-size:.9em;"
    "white-space:pre;background:none"
)
_TABLE = (
    "margin:.5em 0 0;border-collapse:collapse;font-family:monospace;"
    "font-size:.95em"
)
_CELL = (
    "background:none;border:0;padding:.1em 1.4em .1em 0;text-align:left;"
    "font-weight:normal;word-break:break-word"
)
_SMALL = "font-family:monospace;font-size:.8em"
_SIGNS = f"margin:0;border-spacing:1px;border-collapse:separate;{_SMALL}"
_SIGN = "padding:0 .15em;text-align:center;min-width:1em;background"


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


def card(
    exercise: Exercise,
    kind: Kind,
    *body: str,
    head: str = "",
    points: int | None = 0,
) -> str:
    """Return a card: a head that a screen reader announces, and the rest.

    Args:
        exercise: which it is about.
        kind: what the card says of it.
        body: HTML.
        head: what is announced below the first line, as HTML.
        points: those of the answer; None to name none.
    """
    title = place(exercise.id).title
    worth = "" if points is None else f"{points}/{exercise.points} points"
    first = (
        f'<p style="{_HEAD}">{_badge(kind)} <span>{escape(title)}'
        f"</span> <code>{escape(exercise.id)}</code> "
        f'<span style="margin-left:auto">{escape(worth)}</span></p>'
    )
    label = escape(f"{kind.word}: {title}")
    return (
        f'<div role="group" aria-label="{label}" '
        f'style="{_CARD}{kind.colour}"><div role="status">{first}{head}</div>'
        f"{''.join(body)}</div>"
    )


def wrong(
    exercise: Exercise, verdict: Verdict, why: str, *, is_open: bool = False
) -> str:
    """Return the card of a wrong answer, or of a stub.

    Args:
        exercise: the exercise that it answers.
        verdict: of the answer.
        why: how the notebook calls ``why``.
        is_open: whether all that is known is unfolded.
    """
    help_at_hand = line(f"A hint: {code(_hint(exercise))}. {GOES_ON}")
    if not verdict.written:
        return card(exercise, CALM, help_at_hand)
    if not (parts := verdict.parts):
        return calm(exercise, WRONG, f"{verdict.message}\n{GOES_ON}")
    title = f"All that is known: {code(why + '()')}"
    return card(
        exercise,
        WRONG,
        *_refusal(parts),
        folded(title, known(parts.details), is_open=is_open),
        help_at_hand,
        head=headline(parts.label, parts.title),
    )


def _refusal(parts: Parts) -> Iterator[str]:
    is_question = parts.question.endswith("?")
    if is_question:
        yield line(as_html(parts.question), _APART)
    if parts.condition:
        what = f": <b>{as_html(parts.what)}</b>" if parts.what else "."
        yield line(f"Wrong when {escape(parts.condition)}{what}")
    if parts.more:
        yield _as_it_is("\n".join(x.strip() for x in parts.more))
    if parts.elements:
        where = _matrix(parts.grid) if parts.grid else ""
        style = "display:flex;flex-wrap:wrap;gap:0 2em;align-items:flex-start"
        yield f'<div style="{style}">{_table(parts.elements)}{where}</div>'
    if parts.inputs:
        yield line(f"Input: {escape(parts.inputs)}")
    is_new = not parts.inputs or not parts.question.endswith(parts.inputs)
    if parts.question and not is_question and is_new:
        yield line(as_html(parts.question))


def calm(
    exercise: Exercise, kind: Kind, text: str, *, points: int | None = 0
) -> str:
    """Return a card of a few sentences."""
    lines = [line(as_html(x)) for x in text.splitlines()]
    return card(exercise, kind, *lines, points=points)


def hints(exercise: Exercise, texts: Sequence[str], of: int) -> str:
    """Return the card of the hints so far, of all that there are."""
    kind = Kind("?", f"hint {len(texts)} of {of}", CALM.colour)
    items = "".join(
        f'<li style="margin:.4em 0 0">{as_html(x)}</li>' for x in texts
    )
    shown = f'<ol style="margin:.4em 0 0;padding-left:1.5em">{items}</ol>'
    last = len(texts) == of
    call = f'solution("{exercise.id}")' if last else _hint(exercise)
    after = f"{'The solution' if last else 'The next one'}: {code(call)}"
    return card(exercise, kind, shown, line(after), points=None)


def _hint(exercise: Exercise) -> str:
    return f'hint("{exercise.id}")'


def goal(claim: str, measured: str, *, reached: bool) -> str:
    """Return the line of an open task's goal."""
    kind = RIGHT if reached else CALM
    kind = kind._replace(word="reached" if reached else "not yet")
    return (
        f'<p role="status" style="margin:.3em 0">{_badge(kind)} '
        f"{escape(claim + measured)}</p>"
    )


def _badge(kind: Kind) -> str:
    """Return the sign and the word of a result on its colour."""
    sign = f'<span aria-hidden="true">{kind.sign}</span>'
    word = f"{sign} {escape(kind.word)}"
    return f'<span style="{_BADGE}{kind.colour}">{word}</span>'


def headline(label: str, text: str) -> str:
    """Return the largest text of a card, below the words that lead to it."""
    lead = f"{escape(label.capitalize())}<br>" if label else ""
    text = as_html(re.sub("^it ", "It ", text))
    style = "font-size:1.25em;line-height:1.3"
    return line(f'{lead}<b style="{style}">{text}</b>')


def line(html: str, style: str = "margin:.6em 0 0") -> str:
    """Return a paragraph."""
    return f'<p style="{style}">{html}</p>'


def _table(rows: Iterable[Sequence[str]]) -> str:
    """Return elements as a small table, whose first column names the rows."""
    names = ("index", "got", "expected")
    head = "".join(f'<th scope="col" style="{_CELL}">{x}</th>' for x in names)
    body = "".join(
        f'<tr style="background:none"><th scope="row" style="{_CELL}">'
        f"{escape(name)}</th>{_cells(values, lambda _: _CELL)}</tr>"
        for name, *values in rows
    )
    return (
        f'<table style="{_TABLE}"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table>"
    )


def _matrix(grid: Grid) -> str:
    """Return a matrix in signs, with a ground for those that are wrong."""
    styles = dict.fromkeys("+-x", f"{_SIGN}:{WRONG.colour};color:#fff")
    styles["#"] = f"{_SIGN}:{_LINE}"
    body = "".join(
        f'<tr style="background:none">'
        f"{_cells([label, *signs], lambda x: styles.get(x, _SIGN + ':none'))}"
        "</tr>"
        for label, signs in [("", grid.columns), *grid.rows]
    )
    return (
        f"<div>{line(escape(grid.key), f'margin:.7em 0 .2em;{_SMALL}')}"
        f'<table aria-label="{escape(grid.name)}" style="{_SIGNS}">'
        f"<tbody>{body}</tbody></table></div>"
    )


def _cells(values: Iterable[object], style: Callable[[str], str]) -> str:
    texts = map(str, values)
    return "".join(f'<td style="{style(x)}">{escape(x)}</td>' for x in texts)


def folded(title: str, body: str, *, is_open: bool = False) -> str:
    """Return HTML that opens below its title at a click, or with Enter."""
    return (
        f'<details{" open" * is_open} style="margin:.6em 0 0">'
        f'<summary style="cursor:pointer">{title}</summary>{body}</details>'
    )


def known(text: str) -> str:
    """Return a text of paragraphs and, indented, of lines as they are."""
    html = ""
    for is_table, lines in groupby(
        text.splitlines(), lambda x: x.startswith("  ")
    ):
        if is_table:
            html += _as_it_is("\n".join(lines))
        else:
            html += "".join(line(as_html(x)) for x in lines)
    return html


def _as_it_is(text: str) -> str:
    """Return lines of code or of numbers; what is too wide can be scrolled."""
    return f'<pre tabindex="0" style="{_CODE}">{escape(text)}</pre>'


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
