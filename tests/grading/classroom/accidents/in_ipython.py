"""Run the accidents as a notebook does; print which checks pass.

A process of its own, in which the cells may do what they like.
"""

import contextlib
import io
import json
import warnings
from functools import cache

from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from attn.exercises import cells
from attn.exercises.spec import find
from attn.grading.checks.oracle import Oracle
from attn.grading.diagnosis.judge import judge
from tests.grading.classroom.accidents import accidents

warnings.simplefilter("ignore")


class Shell(InteractiveShell):
    """A notebook's shell without its kernel."""

    def enable_gui(self, gui=None):
        """Show no figure, as ``%matplotlib inline`` wishes."""


@cache
def _oracle(exercise):
    return Oracle(find(exercise), seed=0)


def passes(shell, accident):
    """Return whether the check is passed at its place."""
    shell.reset()
    exercise = find(accident.exercise)
    passed = False
    for _ in range(2 if accident.again else 1):
        for cell in accident.notebook()["cells"]:
            checked = cells.checked_id(cell)
            if checked == exercise.id:
                answer = shell.user_ns.get(exercise.name)
                oracle = _oracle(exercise.id)
                passed = answer is not None and (
                    judge(exercise, answer, oracle=oracle).passed
                )
            elif not checked:
                shell.run_cell("".join(cell["source"]))
    return passed


def main():
    """Print the titles and verdicts as JSON."""
    config = Config()
    config.HistoryManager.enabled = False
    shell = Shell.instance(config=config)
    verdicts = {}
    with contextlib.redirect_stdout(io.StringIO()):
        for accident in accidents():
            verdicts[str(accident)] = passes(shell, accident)
    print(json.dumps(verdicts))


if __name__ == "__main__":
    main()
