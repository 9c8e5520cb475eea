"""Add up what the checks of a notebook say: a plugin of pytest.

``pytest --nbval notebooks/`` runs every cell. A check cell passes when its
check says ✓, whatever the notebook stores; it runs below the answer, wherever
that is. The points are printed, and JUnit has them. Only notebooks
with exercises of the book are touched. A learner's code shares its kernel with
the check: a score is information, and no proof.
"""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from attn.exercises import answers, cells, place
from attn.exercises.bindings import binds

#: By notebook and exercise: sign, points, worth, and what the check said.
_scores: dict[str, dict[str, tuple[str, int, int, str]]] = {}
#: What a learner's cell shows that depends on what was done before.
_STATE = re.compile(
    r"(?m)^\s*(?:\w+ = )?(?:case|check|hint|progress|reset|start|why)\("
)


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    from attn.publishing.notebooks import notice_dead_kernels

    files: dict[Any, list[int]] = {}
    for n, item in enumerate(items):
        if hasattr(item, "cell"):
            files.setdefault(item.parent, []).append(n)
    for file, places in files.items():
        if not (key := place.key_of(file.nb)):
            continue  # it is of another project
        os.environ["ATTN_NO_PROGRESS"] = "1"
        if not config.option.nbval_kernel_name:
            config.option.nbval_current_env = True
        notice_dead_kernels()
        own = [items[n] for n in places]
        parts = [x.cell for x in own]
        cells.adopt_checks(parts)
        found = answers.in_notebook(parts, key)
        for n, m in zip(places, answers.order(parts, found), strict=True):
            items[n] = own[m]
            _prepare(own[m], key, found)


def _prepare(item: Any, key: str, found: dict[str, answers.Answer]) -> None:
    """Have a cell compared as it was printed, and a check add to the score."""
    cells.as_printed(item.cell)
    item.user_properties.append(("attn_chapter", key))
    # It belongs to a kernel that is gone.
    item.cell.source = re.sub(r"(?m)^%reset\b.*", "", item.cell.source)
    if (name := cells.checked_id(item.cell)) in place.points(key):
        own = cells.without_checks(item.cell.source)
        own = own if binds(name.partition("-")[2], own) else ""
        item.cell.update(source=f'{own}\ncheck("{name}")', outputs=[])
        item.options.update(check=False, skip=False, check_exception=False)
        about = {"exercise": name, "max_points": place.points(key)[name]}
        item.user_properties += about.items()
        settled = found[name].settled
        item.runtest = partial(_collect, item, name, item.runtest, settled)
        usual = item.repr_failure
        item.repr_failure = lambda info: (
            str(info.value) if info.type is AssertionError else usual(info)
        )
    elif _STATE.search(item.cell.source):
        item.options["check"] = False


def _collect(item: Any, name: str, run: Any, settled: str) -> None:
    """Run a check, and note what it said: only a ✓ passes."""
    said = f"✗ {name}\n  {settled}"
    if settled != answers.REFUSED:
        try:
            run()
        except Exception as error:
            item.user_properties.append(("message", str(error)))
            raise
        said = "".join(x.get("text", "") for x in item.test_outputs).strip()
    *_, said = re.split(rf"(?m)^(?=[✓✗·] {name} )", said)
    right = re.match(rf"✓ {name}  (\d+)/", said)
    points = int(right[1]) if right and not item.parent.timed_out else 0
    item.user_properties += [("points", points), ("message", said[:2000])]
    if not points:
        raise AssertionError(said)


def pytest_runtest_logreport(report: Any) -> None:
    """Collect the points, in the process that prints them."""
    about = dict(report.user_properties)
    if not (key := about.get("attn_chapter")):
        return
    said = "its check cell is not in this notebook"
    none = {
        name: ("·", 0, worth, said)
        for name, worth in place.points(key).items()
    }
    scores = _scores.setdefault(report.nodeid.partition("::")[0], none)
    name = about.get("exercise", "")
    has_run = name and (report.when == "call" or report.failed)
    if has_run and scores[name][0] != "✗":  # one of several checks failed
        points = about.get("points", 0)
        said = about.get("message", "its kernel did not start")
        sign = "✓" if points else "·" if said[:1] == "·" else "✗"
        scores[name] = sign, points, about["max_points"], said


@pytest.hookimpl(hookwrapper=True, tryfirst=True)  # pytest 7 has no other
def pytest_terminal_summary(terminalreporter: Any) -> Iterator[None]:
    """Print the points; what is not started has only its line there."""
    stats = terminalreporter.stats
    failed = stats.pop("failed", [])
    stats["failed"] = [
        x
        for x in failed
        if dict(x.user_properties).get("message", "")[:1] != "·"
    ]
    yield
    stats["failed"] = failed
    if not _scores:
        return
    write = terminalreporter.write_line
    terminalreporter.section("points")
    for path, scores in _scores.items():
        write(f"{path}  {_total([scores])}")
        for name, (sign, points, worth, said) in scores.items():
            lines = re.findall(r"(?m)^\s*([^\s✗✓·].*)", said)
            short = textwrap.shorten("".join(lines[:1]), 60, placeholder=" …")
            write(f"  {sign} {name:<24}{points:>3}/{worth}  {short}".rstrip())
    write(f"total  {_total(_scores.values())} points")


def _total(notebooks: Any) -> str:
    scores = [score for x in notebooks for score in x.values()]
    return f"{sum(x[1] for x in scores)}/{sum(x[2] for x in scores)}"
