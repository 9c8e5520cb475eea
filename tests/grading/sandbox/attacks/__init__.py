"""Notebooks with attacks in their cells, in Markdown.

Each is a solved chapter in which the cells of one exercise are replaced.
"""

import re
from dataclasses import dataclass, replace
from pathlib import Path

from attn.exercises import sources
from tests.grading.classroom.accidents import Accident, filled
from tests.grading.classroom.damage.kinds import solved

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
        waits: whether only a limit on time or memory ends it.
        cheats: whether the target's answer is wrong, and must earn nothing.
        spoils: whether other answers of the notebook may be lost with it.
    """

    family: str
    target: str
    tries: str
    text: str
    waits: bool = False
    cheats: bool = False
    spoils: bool = False

    @property
    def others(self):
        """The exercises whose right answers must count."""
        key = self.target.partition("-")[0]
        names = (f"{key}-{x}" for x in sources.names(key))
        return [] if self.spoils else [x for x in names if x != self.target]

    def notebook(self, aimed=str):
        """Return the solved chapter with the attack in it.

        Args:
            aimed: fills in what the attack aims at, as ``Victim.aimed`` does.
        """
        book = solved(self.target.partition("-")[0])
        text = aimed(self.text)
        if text.startswith("# %% after\n"):
            source = filled(text.partition("\n")[2], self.target)
            cell = {"cell_type": "code", "metadata": {}, "source": source}
            book["cells"].append(cell)
            return book
        attack = Accident(self.family, self.target, self.tries, text, False)
        return attack.notebook(book)

    def elsewhere(self):
        """Yield it before the answer, between two, and after the last."""
        name = self.target.partition("-")[2]
        called = f"{self.text}\n\n{name}(torch.ones(3, 2))\n"
        places = {
            "before": f"# %%\n{called}\n{_ANSWER}",
            "between": f"{_ANSWER}# %% check\n# %%\n{called}",
            "after": f"# %% after\n{called}",
        }
        for place, text in places.items():
            tries = f"{self.tries}, {place} answers"
            spoils = self.spoils or place == "before"
            yield replace(
                self, tries=tries, text=text, cheats=False, spoils=spoils
            )

    def __str__(self):
        return f"{self.family}: {self.target}: {self.tries}"


def attacks():
    """Return every attack, in the order of the files."""
    return [
        Attack(
            path.stem,
            found["target"],
            found["tries"],
            found["text"],
            *(x in found["flags"] for x in ("waits", "cheats", "spoils")),
        )
        for path in sorted(Path(__file__).parent.glob("*.md"))
        for found in _ATTACK.finditer(path.read_text("utf-8"))
    ]
