"""Notebooks with attacks in their cells, in Markdown.

Each is a solved chapter in which the cells of one exercise are replaced.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from attn.exercises import sources
from tests.grading.classroom.accidents import Accident

_ATTACK = re.compile(
    r"^## (?P<exercise>\S+) · (?P<flags>(?:(?:waits|cheats|spoils) · )*)"
    r"(?P<title>[^\n]+)\n\n```python\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_ANSWER = "# %% exercise\n# ANSWER\n"


@dataclass(frozen=True)
class Attack(Accident):
    """Describe a notebook with an attack in it.

    Args:
        flags: ``waits``: only a limit on time or memory ends it; ``cheats``:
            the exercise's answer is wrong, and must earn nothing; ``spoils``:
            other answers of the notebook may be lost with it.
    """

    flags: str = ""

    def elsewhere(self):
        """Yield it before the answers, between two, and after the last."""
        key, _, name = self.exercise.partition("-")
        last = f"{key}-{[*sources.names(key)][-1]}"
        called = f"# %%\n{self.text}\n\n{name}(torch.ones(3, 2))\n"
        after = f"{_ANSWER}# %% check\n{called}"
        flags = self.flags.replace("cheats", "")
        for place, exercise, text in (
            ("before", self.exercise, called + _ANSWER),
            ("between", self.exercise, after),
            ("after", last, after),
        ):
            title = f"{self.title}, {place} answers"
            may = flags + "spoils" if place == "before" else flags
            yield Attack(self.family, exercise, title, text, flags=may)

    def __str__(self):
        return f"{self.family}: {super().__str__()}"


def attacks():
    """Return every attack, in the order of the files."""
    return [
        Attack(path.stem, **found.groupdict())
        for path in sorted(Path(__file__).parent.glob("*.md"))
        for found in _ATTACK.finditer(path.read_text("utf-8"))
    ]
