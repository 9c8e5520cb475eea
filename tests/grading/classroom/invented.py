"""An invented class, and names and texts that would harm a report."""

import random
from functools import partial

from attn.grading.classroom.result import Mark, Result

WORTH = {"gqa-repeat_kv": 2, "gqa-grouped_attention": 3, "gqa-pool_heads": 2}
TILED = "Heads in tile order (0, 1, 0, 1)"
DIAGNOSIS = f"""this looks like: {TILED}
What is the difference between `repeat` and `repeat_interleave`?
wrong when heads are shared: it differs at [0, 1]: got -2.1, expected 1.5
  x         (2, 3, 2, 1) float32 [1.541, -0.2934, …]
  got       -2.179        0.5684
  expected  1.541         -0.2934"""
DETAILS = f"""this looks like: {TILED}
The heads come in tile order. What does `repeat` repeat?
wrong when heads are shared: it differs at [0, 1]: got -2.1, expected 1.5
  matrix: x differs, . is right"""
#: Each would do harm in one of the formats.
HOSTILE = (
    "=HYPERLINK(\"http://evil.example\",\"Ann\")",
    "+1", "-1", "@SUM(1)", " =1+1", "＝1",
    "<script>alert(1)</script>",
    "</style><img src=x onerror=alert(1)>",
    "{{ 7 * 7 }}{% raw %}",
    "[red]x[/red][link=http://evil.example]",
    "../../../etc/passwd", "..", "/", "", "con", "a/b", "A/B", "a-b",
    "nul\0inside", "two\nlines", "tab\there", "\x1b[2Jcleared",
    "back\u202ewards", "half \ud800", "not \ufffe a character", "]]>&amp;",
    "x" * 300, "Zoë", "Zoe\u0308", "ZOË", "a-b-0123456789abcdef",
)  # fmt: skip


def right(exercise="gqa-repeat_kv", **other):
    return Mark(exercise, WORTH[exercise], WORTH[exercise], "passed", **other)


def wrong(exercise="gqa-repeat_kv", status="wrong", **other):
    known = {"points": 0, "max_points": WORTH[exercise], "status": status}
    if status == "wrong":
        known |= {"message": DIAGNOSIS, "mistake": TILED, "details": DETAILS}
    return Mark(exercise, **known | other)


def graded(learner, *marks, chapter="05_gqa", **other):
    known = {"learner": learner, "chapter": chapter, "marks": marks}
    known |= {"submission": f"{learner}/{chapter}.ipynb", "seed": 7}
    known |= {"isolation": "bubblewrap: no network"}
    return Result(**known | other)


def unreadable(learner, message="the file is empty", **other):
    path = other.pop("submission", f"{learner}.ipynb")
    return Result(path, learner, None, "unreadable", message, **other)


ODD = ("refused", *["not written"] * 2, "missing", "out of time", "died")
KINDS = [*[right] * 12, *[wrong] * 6, *(partial(wrong, status=x) for x in ODD)]


def a_class(size):
    """Invent learners of all kinds; one file in ten cannot be read."""
    draw, results = random.Random(0), []
    for i in range(size):
        drawn = zip(WORTH, draw.choices(KINDS, k=3), strict=True)
        marks = [mark(exercise) for exercise, mark in drawn]
        name = f"learner{i}"
        is_odd = i % 10 == 9
        results.append(unreadable(name) if is_odd else graded(name, *marks))
    return results


def hostile_class():
    """Invent a learner for each hostile text, in every field of text."""
    return [
        graded(
            text,
            right(notes=(text,)),
            wrong("gqa-pool_heads", message=text, mistake=text, details=text),
            submission=f"{i}{text}",
            notes=(text,),
            isolation=text,
        )
        for i, text in enumerate(HOSTILE)
    ] + [unreadable("?", text, submission=text) for text in HOSTILE]
