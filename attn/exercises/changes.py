"""Show a mistake as the lines that it changes in the right answer."""

from __future__ import annotations

import textwrap
from difflib import unified_diff

from attn.exercises import mistakes, sources


def changes(exercise_id: str) -> list[tuple[str, str, str]]:
    """Return the name, the explanation and the diff of every mistake."""
    right = sources.solution(exercise_id)
    path = sources.mistakes_path(exercise_id)
    return [
        (name, why, diff(right, mistakes.edited(right, code, name)))
        for name, code, why in mistakes.read(path)[1]
    ]


def diff(right: str, wrong: str) -> str:
    """Return the lines that differ, and one around them on either side.

    Args:
        right: a solution, whose docstrings no mistake changes.
        wrong: the solution with an edit applied.

    Returns:
        lines that begin with ``-``, ``+`` or a space; ``…`` between places
        that are apart.
    """
    versions = (
        [line for line in source.splitlines() if line.strip()]
        for source in (mistakes.without_docstrings(right), wrong)
    )
    _, _, _, *lines = unified_diff(*versions, n=1, lineterm="")
    code = textwrap.dedent(
        "\n".join("" if x[0] == "@" else x[1:] for x in lines)
    )
    return "\n".join(
        "…" if sign == "@" else f"{sign} {line}"
        for (sign, *_), line in zip(lines, code.split("\n"), strict=True)
    )
