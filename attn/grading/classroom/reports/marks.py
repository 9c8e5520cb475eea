"""Say a mark in a sign, in a word, in a line."""

from __future__ import annotations

from attn.grading.classroom.result import Mark, Result, Status

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
        "The notebook has no cell with this exercise's id.",
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


def wrong_in_short(result: Result) -> str:
    """Return the first thing that went wrong, and how many more there are."""
    if result.status == "unreadable":
        return " ".join(result.message.split())
    failed = [x for x in result.marks if not x.passed]
    if not failed:
        return ""
    tried = [x for x in failed if not is_open(x)]
    first = (tried or failed)[0]
    more = f" (+{len(failed) - 1})" if len(failed) > 1 else ""
    return f"{first.exercise}{more}: {headline(first)}"
