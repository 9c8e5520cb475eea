"""State how many wrong answers the checks catch, in words."""

import re
from collections.abc import Sequence
from pathlib import Path

from attn.exercises.spec import every_exercise


def kill_rate(counts: Sequence[tuple[int, ...]]) -> str:
    """Add up the counts of some exercises, and return them in words."""
    wrong, caught, named, right, accepted = map(sum, zip(*counts, strict=True))
    return (
        f"{caught} of {wrong} wrong answers caught, {named} named; "
        f"{accepted} of {right} right answers accepted"
    )


def state_kill_rate(readme: Path) -> None:
    """Write into the README how many answers the tests judge."""
    lists = [(x.mistakes, x.equivalents) for x in every_exercise()]
    counts = [(len(x),) * 3 + (len(y) + 1,) * 2 for x, y in lists]
    old = r"\d+ of \d+ wrong answers .* accepted(\W+over) \d+ exercises"
    new = rf"{kill_rate(counts)}\1 {len(lists)} exercises"
    text, count = re.subn(old, new, readme.read_text("utf-8"))
    if count != 1:
        raise ValueError(
            f"{readme} must state the kill rate once; got {count}"
        )
    readme.write_text(text, "utf-8")
