"""Word a mark, a number and a diagnosis, harmless in every format."""

from __future__ import annotations

import re
import textwrap
from dataclasses import fields, is_dataclass, replace
from typing import Any

from attn.grading.classroom.result import Mark, Status

#: Read by learners: a sign, a short word, and a sentence for a mark without
#: a message.
_WORDS: dict[Status, tuple[str, str, str]] = {
    "passed": ("✓", "right", "This answer is right."),
    "wrong": ("✗", "not right yet", "A result differs from the right one."),
    "refused": (
        "✗",
        "not allowed",
        "It uses something that the task rules out.",
    ),
    "not written": ("·", "not written yet", "There is no answer here yet."),
    "missing": (
        "·",
        "not found",
        "Nothing in the notebook defines it.",
    ),
    "out of time": (
        "✗",
        "out of time",
        "It was stopped at the time limit: is there an endless loop?",
    ),
    "died": (
        "✗",
        "died",
        "Its process ended before it gave a result, or ran out of memory.",
    ),
}
#: What no format may hold or no reader sees: control characters, marks that
#: reverse the direction of a line, halves of characters.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069"
    "\ud800-\udfff\ufeff\ufffe\uffff]"
)
_WITH_LINES = ("message", "details", "code")


def sign(mark: Mark) -> str:
    """Return ✓, ✗, or · for what is not there."""
    return _WORDS[mark.status][0]


def word(mark: Mark) -> str:
    """Return the status as a learner reads it."""
    return _WORDS[mark.status][1]


def is_open(mark: Mark) -> bool:
    """Return whether there is no answer at all."""
    return sign(mark) == "·"


def diagnosis(mark: Mark) -> str:
    """Return the message, or the sentence of its status."""
    return mark.message.strip("\n") or _WORDS[mark.status][2]


def headline(mark: Mark) -> str:
    """Return the diagnosis in a line: the mistake's name if there is one."""
    lines = [x.strip() for x in diagnosis(mark).splitlines()]
    wrong = [x for x in lines if x and not x.startswith("right so far: ")]
    first = mark.mistake or next(iter(wrong or lines))
    plain = ("passed", "wrong", "not written")
    return first if mark.status in plain else f"{mark.status}: {first}"


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


def clean(value: Any) -> Any:
    """Return a result whose texts can be printed.

    A hidden character becomes its escape, ``\\x1b``. Only a ``message``,
    its ``details`` and ``code`` have lines and tabs.
    """
    if isinstance(value, str):
        return re.sub(r"[\t\n]", _escape, _visible(value))
    if isinstance(value, tuple):
        return tuple(map(clean, value))
    if not is_dataclass(value) or isinstance(value, type):
        return value
    texts = {x.name: getattr(value, x.name) for x in fields(value)}
    return replace(
        value,
        **{
            name: _visible(x) if name in _WITH_LINES else clean(x)
            for name, x in texts.items()
        },
    )


def _visible(text: str) -> str:
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _HIDDEN.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()


def natural(name: str) -> tuple[Any, ...]:
    """Return a key that sorts ``student2`` before ``student10``."""
    pieces = re.split(r"(\d{1,400})", name.casefold())
    return [int(x) if i % 2 else x for i, x in enumerate(pieces)], name


def number(points: float) -> int | float:
    """Return points as they are read: 3, not 3.0; 0.3, not 0.1 + 0.2."""
    rounded = round(points, 6)
    return int(rounded) if rounded == int(rounded) else rounded


def share(part: float, whole: float) -> float:
    """Return a share in percent; of nothing, 0."""
    return 100 * part / whole if whole else 0.0


def plural(count: int, noun: str) -> str:
    """Return ``1 learner``, ``2 learners``."""
    return f"{count} {noun}" + ("s" if count != 1 else "")
