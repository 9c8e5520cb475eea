"""Answer on the built page: checks as data, recorded and judged.

``record`` lets the real engine run an exercise's cases on the solution and on
each known mistake, and stores what tells them apart. ``judge`` compares an
answer with that, in a browser: it is plain Python, and ``torch`` is whatever
has that name, there the one of the folder ``torch``. Nothing imports this
room but what builds the book.
"""

FILES = (
    "exercises/__init__.py",
    "exercises/bindings.py",
    "exercises/call.py",
    "exercises/case.py",
    "exercises/form.py",
    "exercises/literal.py",
    "exercises/out_of_bounds.py",
    "exercises/outcome.py",
    "exercises/shapes.py",
    "exercises/signature.py",
    "exercises/wrapping.py",
    "grading/__init__.py",
    "grading/checks/__init__.py",
    "grading/checks/clock.py",
    "grading/checks/compare.py",
    "grading/checks/evidence.py",
    "grading/checks/inputs.py",
    "grading/checks/objects.py",
    "grading/checks/problems.py",
    "grading/checks/result.py",
    "grading/checks/show.py",
    "grading/diagnosis/__init__.py",
    "grading/diagnosis/axes.py",
    "grading/diagnosis/errors.py",
    "grading/diagnosis/kinds.md",
    "grading/diagnosis/kinds.py",
    "grading/diagnosis/naming.py",
    "grading/diagnosis/refusal.py",
    "grading/diagnosis/result_changes.py",
    "grading/diagnosis/values.py",
    "grading/diagnosis/where.py",
    "page/__init__.py",
    "page/decode.py",
    "page/judge.py",
    "page/running.py",
    "page/stored.py",
)
"""What the judge imports, below ``attn/``: a browser gets these files.

And an empty ``attn/__init__.py``, and the folder ``torch`` beside ``attn``.
"""
