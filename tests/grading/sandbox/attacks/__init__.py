"""Notebooks with attacks in their cells, in Markdown.

Each is a solved chapter in which the cells of one exercise are replaced.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from attn.exercises import sources
from tests.grading.classroom.accidents import Accident

_ATTACK = re.compile(
    r"^## (?P<target>\S+) · (?P<flags>(?:(?:waits|cheats|spoils) · )*)"
    r"(?P<tries>[^\n]+)\n\n```python\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_ANSWER = "# %% exercise\n# ANSWER\n"


@dataclass(frozen=True)
class Attack:
    """Describe a notebook with an attack in it.

    Args:
        family: the name of its file.
        target: the exercise whose cells are replaced.
        tries: what it tries, in a line.
        text: of its cells, with marks as in the accidents; without marks it
            is the exercise's own cell.
        flags: ``waits``: only a limit on time or memory ends it; ``cheats``:
            the target's answer is wrong, and must earn nothing; ``spoils``:
            other answers of the notebook may be lost with it.
    """

    family: str
    target: str
    tries: str
    text: str
    flags: str = ""

    def notebook(self, aimed=str):
        """Return the solved chapter with the attack in it.

        Args:
            aimed: fills in what the attack aims at, as ``Victim.aimed`` does.
        """
        what = self.target, self.tries, aimed(self.text)
        return Accident(self.family, *what, False).notebook()

    def elsewhere(self):
        """Yield it before the answers, between two, and after the last."""
        key, _, name = self.target.partition("-")
        last = f"{key}-{[*sources.names(key)][-1]}"
        called = f"# %%\n{self.text}\n\n{name}(torch.ones(3, 2))\n"
        after = f"{_ANSWER}# %% check\n{called}"
        flags = self.flags.replace("cheats", "")
        for place, target, text in (
            ("before", self.target, called + _ANSWER),
            ("between", self.target, after),
            ("after", last, after),
        ):
            tries = f"{self.tries}, {place} answers"
            may = flags + "spoils" if place == "before" else flags
            yield Attack(self.family, target, tries, text, may)

    def __str__(self):
        return f"{self.family}: {self.target}: {self.tries}"


def attacks():
    """Return every attack, in the order of the files."""
    names = ("target", "tries", "text", "flags")
    return [
        Attack(path.stem, *found.group(*names))
        for path in sorted(Path(__file__).parent.glob("*.md"))
        for found in _ATTACK.finditer(path.read_text("utf-8"))
    ]
