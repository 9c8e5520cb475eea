"""Show a mistake, or a repair, as the lines that it changes."""

from __future__ import annotations

import re
import textwrap
from difflib import SequenceMatcher, unified_diff
from functools import cache

from attn.exercises import edits, sources


@cache
def chapter_changes(key: str) -> dict[str, list[tuple[str, str, list[str]]]]:
    """Return the changes of all mistakes in each exercise of a chapter."""
    return {x: changes(f"{key}-{x}") for x in sources.names(key)}


def changes(exercise_id: str) -> list[tuple[str, str, list[str]]]:
    """Return the name, the explanation and the diffs of every mistake."""
    right = sources.solution(exercise_id)
    found = []
    for entry in sources.text(exercise_id).mistakes:
        wrong = (edits.edited(right, y, x) for x, y in entry.labelled())
        found.append((entry.name, entry.why, [diff(right, x) for x in wrong]))
    return found


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
        for source in (edits.without_docstrings(right), wrong)
    )
    _, _, _, *lines = unified_diff(*versions, n=1, lineterm="")
    code = textwrap.dedent(
        "\n".join("" if x[0] == "@" else x[1:] for x in lines)
    )
    return "\n".join(
        "…" if sign == "@" else f"{sign} {line}"
        for (sign, *_), line in zip(lines, code.split("\n"), strict=True)
    )


def changed_lines(before: str, after: str) -> tuple[list[int], list[int]]:
    """Return the lines of two versions that say nearly the same, in order.

    Where most of a version is from the one before, its new lines as well.
    """
    old, new = (
        {i: x.strip() for i, x in enumerate(code.splitlines(), 1) if x}
        for code in (before, after)
    )
    gone = {i: x for i, x in old.items() if x not in new.values()}
    come = {j: x for j, x in new.items() if x not in old.values()}
    score = {(i, j): _likeness(gone[i], come[j]) for i in gone for j in come}
    pairs: list[tuple[int, int]] = []
    for i, j in sorted(score, key=score.__getitem__, reverse=True):
        best = max(score[x, y] for x, y in score if x == i or y == j)
        in_order = all((i - x) * (j - y) > 0 for x, y in pairs)
        if score[i, j] == best > 0.62 and in_order:
            pairs.append((i, j))
    left, right = ([pair[side] for pair in pairs] for side in (0, 1))
    return left, list(come) if len(come) < len(new) / 2 else right


def _likeness(*lines: str) -> float:
    """Return how much is common; more if both set a name, or return."""
    a, b = (re.findall(r"\w+|\S", line) for line in lines)
    c, d = (set(re.findall(r"return|\w+(?= = )", line)) for line in lines)
    return SequenceMatcher(None, a, b).ratio() + 0.3 * bool(c & d)
