"""Make the pages: one for the class, one for each learner.

A page is one file: it loads nothing, runs no script, and its own policy
forbids both. Every text from outside is escaped.
"""

from __future__ import annotations

import re
import statistics
import textwrap
from functools import cache
from pathlib import Path
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from attn.exercises.markdown import as_html
from attn.grading.classroom.reports.class_ import Class, Learner
from attn.grading.classroom.result import number

#: Words with which a diagnosis begins, and no names of functions.
_PLAIN = re.compile("(in|it|not|right|the|there|this|what|wrong) ")


def class_page(class_: Class) -> str:
    """Return ``index.html``: the class, before the next lecture."""
    page = _environment().get_template("class.html")
    return page.render(class_=class_, results=class_.results)


def learner_page(learner: Learner) -> str:
    """Return a learner's page: nothing about others is on it."""
    page = _environment().get_template("learner.html")
    return page.render(learner=learner, results=learner.results)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    own = (breakable, number, parts, plural, prose, share)
    others = (quote, statistics.median)
    environment.filters |= {x.__name__: x for x in (*own, *others)}
    return environment


def prose(text: str) -> Markup:
    """Return a sentence as HTML, with a capital unless a name is first."""
    if _PLAIN.match(text):
        text = text[0].upper() + text[1:]
    return Markup(as_html(text))


def breakable(name: str) -> Markup:
    """Return a name that may be broken behind its underscores."""
    return Markup(re.sub(r"(?<=[_-])(?=\w)", "<wbr>", str(escape(name))))


def parts(message: str) -> list[tuple[str, str]]:
    """Cut a diagnosis into ``("p", sentence)`` and ``("pre", block)``.

    In a diagnosis tensors, inputs and code are indented, sentences are not.
    """
    blocks: list[tuple[str, str]] = []
    for line in message.splitlines():
        kind = "pre" if line[:1].isspace() else "p"
        if kind == "pre" and blocks and blocks[-1][0] == "pre":
            blocks[-1] = ("pre", f"{blocks[-1][1]}\n{line}")
        elif line.strip():
            blocks.append((kind, line))
    return [(kind, textwrap.dedent(x).rstrip()) for kind, x in blocks]


def share(part: float, whole: float) -> float:
    """Return a share in percent; of nothing, 0."""
    return 100 * part / whole if whole else 0.0


def plural(count: int, noun: str) -> str:
    """Return ``1 learner``, ``2 learners``."""
    return f"{count} {noun}" + ("s" if count != 1 else "")
