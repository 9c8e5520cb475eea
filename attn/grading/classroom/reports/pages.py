"""Make the pages: one for the class, one for each learner.

A page is one file: it loads nothing, runs no script, and its own policy
forbids both. Every text from outside is escaped.
"""

from __future__ import annotations

import re
import statistics
from functools import cache
from pathlib import Path
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from attn.exercises.markdown import as_html
from attn.grading.classroom.reports import wording
from attn.grading.classroom.reports.class_ import Class, Learner

#: Words with which a diagnosis begins, and no names of functions.
_PLAIN = re.compile("(in|it|not|right|the|there|this|what|wrong) ")
_MOST = 8  # rows of a list; what follows is folded


def class_page(class_: Class) -> str:
    """Return ``index.html``: the class, before the next lecture."""
    reached = [x.points for x in class_.graded]
    by_points = sorted(class_.learners, key=lambda x: x.points)
    marks = [(x, m) for x in class_.learners for m in x.marks.values()]
    page = _environment().get_template("class.html")
    return page.render(
        class_=class_,
        median=statistics.median(reached) if reached else 0,
        passed=sum(x[1] for x in class_.hardest),
        graded=sum(x[2] for x in class_.hardest),
        hardest=[_exercise(class_, *x) for x in class_.hardest],
        bins=class_.bins(),
        orders={"name": class_.learners, "points": by_points},
        unnamed=[
            (mark.exercise, learner, wording.headline(mark))
            for learner, mark in marks
            if not (mark.passed or mark.mistake or wording.is_open(mark))
        ],
        results=class_.results,
        most=_MOST,
    )


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
    environment.filters |= {
        "breakable": _breakable,
        "number": wording.number,
        "parts": wording.parts,
        "plural": wording.plural,
        "prose": _prose,
        "quote": quote,
    }
    environment.globals |= {
        "diagnosis": wording.diagnosis,
        "is_open": wording.is_open,
        "share": wording.share,
        "sign": wording.sign,
        "word": wording.word,
    }
    return environment


def _prose(text: str) -> Markup:
    """Return a sentence as HTML, with a capital unless a name is first."""
    if _PLAIN.match(text):
        text = text[0].upper() + text[1:]
    return Markup(as_html(text))


def _breakable(name: str) -> Markup:
    """Return a name that may be broken behind its underscores."""
    return Markup(re.sub(r"(?<=[_-])(?=\w)", "<wbr>", str(escape(name))))


def _exercise(
    class_: Class, name: str, passed: int, graded: int
) -> dict[str, object]:
    """Return a row of the hardest exercises."""
    marks = [x.marks[name] for x in class_.learners if name in x.marks]
    still_open = sum(map(wording.is_open, marks))
    mistakes = [x for x in class_.misconceptions if name in x.exercises]
    return {
        "name": name,
        "passed": passed,
        "graded": graded,
        "wrong": graded - passed - still_open,
        "open": still_open,
        "common": max(mistakes, key=lambda x: x.exercises[name], default=None),
    }
