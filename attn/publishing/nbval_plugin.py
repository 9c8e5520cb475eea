"""Add up what the checks of a notebook say: a plugin of pytest.

``pytest --nbval notebooks/`` runs every cell. A check cell passes when its
check says ✓, whatever the notebook stores; the points are printed, and JUnit
has them. Only notebooks with exercises of the book are touched. A learner's
code shares its kernel with the check: a score is information, and no proof.
"""

from __future__ import annotations

import os
import re
import textwrap
from functools import cache, partial
from typing import Any

from attn.exercises import CHAPTERS, cells, sources

#: By notebook and exercise: sign, points, worth, and what the check said.
_scores: dict[str, dict[str, tuple[str, int, int, str]]] = {}


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    from attn.publishing.notebooks import notice_dead_kernels

    for item in items:
        if not hasattr(item, "cell") or not (key := _chapter(item.parent)):
            continue  # it is no cell, or of another project
        os.environ["ATTN_NO_PROGRESS"] = "1"
        if not config.option.nbval_kernel_name:
            config.option.nbval_current_env = True
        notice_dead_kernels()
        cells.as_printed(item.cell)
        item.user_properties.append(("attn_chapter", key))
        if (name := cells.checked_id(item.cell)) in _worth(key):
            item.cell.update(source=f'check("{name}")', outputs=[])
            item.options.update(check=False, skip=False, check_exception=False)
            about = {"exercise": name, "max_points": _worth(key)[name]}
            item.user_properties += about.items()
            item.runtest = partial(_collect, item, name, item.runtest)


@cache
def _chapter(file: Any) -> str:
    """Return the key of the first exercise of the book in a notebook."""
    for cell in file.nb.cells:
        name = cells.checked_id(cell) or cells.exercise_id(cell) or ""
        if name in _worth(key := name.partition("-")[0]):
            return key
    return ""


@cache
def _worth(key: str) -> dict[str, int]:
    return cells.points(sources.notebook(key)) if key in CHAPTERS else {}


def _collect(item: Any, name: str, run: Any) -> None:
    """Run a check, and note what it said: only a ✓ passes."""
    try:
        run()
    except Exception as error:
        item.user_properties.append(("message", str(error)))
        raise
    said = "".join(x.get("text", "") for x in item.test_outputs).strip()
    right = re.match(rf"✓ {name}  (\d+)/", said)
    points = int(right[1]) if right and not item.parent.timed_out else 0
    item.user_properties += [("points", points), ("message", said[:2000])]
    if not points:
        item.raise_cell_error("The check says no", said)


def pytest_runtest_logreport(report: Any) -> None:
    """Collect the points, in the process that prints them."""
    about = dict(report.user_properties)
    if not (key := about.get("attn_chapter")):
        return
    said = "its check cell is not in this notebook"
    none = {name: ("·", 0, worth, said) for name, worth in _worth(key).items()}
    scores = _scores.setdefault(report.nodeid.partition("::")[0], none)
    name = about.get("exercise", "")
    has_run = name and (report.when == "call" or report.failed)
    if has_run and scores[name][0] != "✗":  # one of several checks failed
        points = about.get("points", 0)
        said = about.get("message", "its kernel did not start")
        sign = "✓" if points else "✗"
        scores[name] = sign, points, about["max_points"], said


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if not _scores:
        return
    write = terminalreporter.write_line
    terminalreporter.section("points")
    for path, scores in _scores.items():
        write(f"{path}  {_total([scores])}")
        for name, (sign, points, worth, said) in scores.items():
            lines = re.findall(r"(?m)^\s*([^\s✗✓].*)", said)
            short = textwrap.shorten("".join(lines[:1]), 60, placeholder=" …")
            write(f"  {sign} {name:<24}{points:>3}/{worth}  {short}".rstrip())
    write(f"total  {_total(_scores.values())} points")


def _total(notebooks: Any) -> str:
    scores = [score for x in notebooks for score in x.values()]
    return f"{sum(x[1] for x in scores)}/{sum(x[2] for x in scores)}"
