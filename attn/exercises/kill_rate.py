"""State how many wrong answers the checks catch, in words."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from attn.exercises.mistakes import Mistake
from attn.exercises.spec import every_exercise


def names_of(mistakes: Iterable[Mistake]) -> frozenset[tuple[str, str]]:
    """Return names and paragraphs: those that exercises share count once."""
    return frozenset((x.name, x.why) for x in mistakes)


def kill_rate(counts: Sequence[tuple[Any, ...]]) -> str:
    """Add up the counts of some exercises, and return them in words."""
    *numbers, names = zip(*counts, strict=True)
    wrong, caught, named, right, accepted = map(sum, numbers)
    return (
        f"{caught} of {wrong} wrong answers caught, {named} named, under "
        f"{len(frozenset.union(*names))} names; "
        f"{accepted} of {right} right answers accepted"
    )


def state_kill_rate(readme: Path) -> None:
    """Write into the README how many answers the tests judge."""
    lists = [(x.mistakes, x.equivalents) for x in every_exercise()]
    counts = [
        (len(x),) * 3 + (len(y) + 1,) * 2 + (names_of(x),) for x, y in lists
    ]
    old = r"\d+ of \d+ wrong answers .* accepted(\W+over) \d+ exercises"
    new = rf"{kill_rate(counts)}\1 {len(lists)} exercises"
    text, count = re.subn(old, new, readme.read_text("utf-8"))
    if count != 1:
        raise ValueError(
            f"{readme} must state the kill rate once; got {count}"
        )
    readme.write_text(text, "utf-8")
