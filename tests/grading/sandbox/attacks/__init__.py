"""Notebooks with attacks in their cells, in Markdown.

They are written as those with accidents are, and may have flags. ``waits``:
only a limit on time or memory ends it; ``cheats``: the exercise's answer is
wrong, and must earn nothing; ``spoils``: other answers of the notebook may be
lost with it.
"""

from dataclasses import dataclass

from attn.exercises import sources
from tests.grading.classroom.accidents import Accident

_ANSWER = "# %% exercise\n# ANSWER\n"


@dataclass(frozen=True)
class Attack(Accident):
    """Describe a notebook with an attack in it."""

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
