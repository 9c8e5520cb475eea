"""Make the pages: one for the class, one for each learner.

A page is one file: it loads nothing, runs no script, and its own policy
forbids both. Every text from outside is escaped.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from attn.exercises.markdown import as_html
from attn.grading.classroom import lookalikes
from attn.grading.classroom.reports import wording
from attn.grading.classroom.reports.batch import Batch
from attn.grading.classroom.reports.learner import Learner
from attn.grading.classroom.result import Result

#: Words with which a diagnosis begins, and no names of functions.
_PLAIN = re.compile("(in|it|not|right|the|there|this|what|wrong) ")
MOST = 8  # rows of a list; what follows is folded


def class_page(batch: Batch) -> str:
    """Return ``index.html``: the class, before the next lecture."""
    reached = [x.points for x in batch.graded]
    page = _environment().get_template("class.html")
    return page.render(
        batch=batch,
        chapters=list(batch.chapters),
        median=statistics.median(reached) if reached else 0,
        passed=sum(x[1] for x in batch.hardest),
        graded=sum(x[2] for x in batch.hardest),
        hardest=[_exercise(batch, *x) for x in batch.hardest],
        bins=batch.bins(),
        orders={
            "name": batch.learners,
            "points": sorted(
                batch.learners,
                key=lambda x: (x.points, wording.natural(x.name)),
            ),
        },
        unnamed=[
            (mark.exercise, learner, wording.headline(mark))
            for learner in batch.learners
            for mark in learner.marks.values()
            if not (mark.passed or mark.mistake or wording.is_open(mark))
            and mark.status != "by hand"
        ],
        odd=[
            (learner, result)
            for learner in batch.learners
            for result in learner.results
            if _remarks(result)
        ],
        isolations=_each(x.isolation for x in batch.results),
        seeds=_each(x.seed for x in batch.counted),
        most=MOST,
    )


def learner_page(learner: Learner) -> str:
    """Return a learner's page: nothing about others is on it."""
    return (
        _environment()
        .get_template("learner.html")
        .render(
            learner=learner,
            counted=list(learner.counted.values()),
            opening=_opening(learner),
            isolations=_each(x.isolation for x in learner.results),
            seeds=_each(x.seed for x in learner.counted.values()),
        )
    )


def lookalikes_page(batch: Batch) -> str:
    """Return ``lookalikes.html``: pairs of answers for a person to read."""
    page = _environment().get_template("lookalikes.html")
    return page.render(
        pairs=batch.lookalikes.pairs,
        usual=batch.lookalikes.usual,
        enough=lookalikes.ENOUGH,
        many=lookalikes.MANY,
        isolations=[],
        seeds=[],
    )


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
        "by_hand": wording.by_hand,
        "diagnosis": wording.diagnosis,
        "is_open": wording.is_open,
        "remarks": _remarks,
        "remarks_on_all": wording.remarks,
        "share": wording.share,
        "sign": wording.sign,
        "word": wording.word,
    }
    return environment


def _prose(text: str) -> Markup:
    """Return a sentence as HTML.

    A terminal's line begins with a small letter; a paragraph does not,
    unless its first word is a name.
    """
    if _PLAIN.match(text):
        text = text[0].upper() + text[1:]
    return Markup(as_html(text))


def _breakable(name: str) -> Markup:
    """Return a name that may be broken behind its underscores."""
    return Markup(re.sub(r"(?<=[_-])(?=\w)", "<wbr>", str(escape(name))))


def _exercise(
    batch: Batch, name: str, passed: int, graded: int
) -> dict[str, object]:
    """Return a row of the hardest exercises."""
    marks = [x.marks[name] for x in batch.learners if name in x.marks]
    still_open = sum(map(wording.is_open, marks))
    common = [
        (x.exercises[name], x.name)
        for x in batch.misconceptions
        if name in x.exercises
    ]
    return {
        "name": name,
        "passed": passed,
        "graded": graded,
        "wrong": graded - passed - still_open,
        "open": still_open,
        "common": max(common, key=lambda x: x[0], default=None),
    }


def _remarks(result: Result) -> list[str]:
    """Return what is odd about a submission that was graded."""
    if result.status == "unreadable":
        return []
    marked = [
        f"{x.exercise}: {note}" for x in result.marks for note in x.notes
    ]
    return [*wording.remarks(result), *marked]


def _opening(learner: Learner) -> str:
    """Return the first sentence that a learner reads."""
    marks = list(learner.marks.values())
    passed = sum(x.passed for x in marks)
    if not learner.results:
        return "Nothing was handed in."
    if not marks:
        return (
            "This submission could not be graded, and that is often quickly "
            "repaired: the reason is below."
        )
    if passed == len(marks):
        return "Everything here is right. Well done."
    if not passed:
        return (
            "Nothing is right yet, and each exercise below says why. Take "
            "the first one: one step is enough to begin with."
        )
    return (
        f"{passed} of {wording.plural(len(marks), 'exercise')} "
        f"{'is' if passed == 1 else 'are'} right. What is said "
        "about the others is meant as help: most of it ends in a question, "
        "and its answer is the repair."
    )


def _each(values: Iterable[object]) -> list[str]:
    """Return the different values, in order."""
    return sorted({str(x) for x in values if x != ""})
