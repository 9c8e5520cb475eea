"""Turn nbval's results into a score: a plugin of pytest.

``pytest --nbval notebooks/`` runs every cell. A check cell is replaced by the
one of the pristine chapter with the same id. The plugin prints points per
exercise and chapter, adds them to JUnit's properties, and writes JSON with
``--score-json FILE``. It does nothing where no notebook of the book is
collected: pytest loads it wherever attn is installed.

A learner's code runs in the same kernel as the check, so this score is
information for the learner, and not proof for a teacher.
"""

from __future__ import annotations

import json
import os
import re
import textwrap
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

_POLL = 1.0  # seconds from one look at a silent kernel to the next
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_CHAPTER = "attn_chapter"  # a property that no other project has
_scores: dict[str, dict[str, dict[str, Any]]] = {}  # notebook, exercise


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("attn").addoption(
        "--score-json",
        metavar="FILE",
        help="write the points of the book's exercises to this file",
    )


def _is_on(config: pytest.Config) -> bool:
    options = ("nbval", "nbval_lax")
    return any(getattr(config.option, name, False) for name in options)


def pytest_configure() -> None:
    _scores.clear()


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Give each check cell its pristine source and output."""
    if not _is_on(config):
        return
    cells: dict[Any, list[Any]] = {}
    for item in items:
        if hasattr(item, "cell"):
            cells.setdefault(item.parent, []).append(item)
    ours = [own for file, own in cells.items() if _is_ours(file.nb)]
    if not ours:
        return
    os.environ["ATTN_NO_PROGRESS"] = "1"
    if not config.option.nbval_kernel_name:
        config.option.nbval_current_env = True  # this environment's kernel
    _notice_dead_kernels()
    for own in ours:
        for item in own:
            _as_printed(item.cell.get("outputs", []))
        _take_pristine_checks(own)


def _is_ours(notebook: Any) -> bool:
    """Return whether a notebook is of the book, or a copy of one of these."""
    from attn.exercises.cells import checked_id, exercise_id

    if "attn" in notebook.metadata:  # a copy in a workspace
        return True
    cells = [x for x in notebook.cells if x.cell_type == "code"]
    if cells and 'find_spec("attn") is None' in cells[0].source:
        return True
    ids = [read(x) for x in cells for read in (checked_id, exercise_id)]
    return _chapter_of(ids) is not None


def _as_printed(outputs: list[Any]) -> None:
    """Put its text in place of a learner's card: here a text is printed."""
    for output in outputs:
        if stream := output.get("metadata", {}).get("attn", {}).get("stream"):
            text = output["data"]["text/plain"] + "\n"
            output.clear()
            output.update(output_type="stream", name=stream, text=text)


def _take_pristine_checks(items: list[Any]) -> None:
    from attn.exercises.cells import checked_id, exercise_id

    checked = [checked_id(i.cell) for i in items]
    key = _chapter_of(checked + [exercise_id(i.cell) for i in items])
    if key is None:
        return
    items[0].user_properties.append((_CHAPTER, key))
    pristine = _pristine_checks(key)
    for item, name in zip(items, checked, strict=True):
        if name not in pristine:
            continue
        cell = pristine[name]
        item.attn_check = name
        item.cell.update(source=cell.source, outputs=cell.outputs)
        item.cell.execution_count = 1  # nbval compares only cells that ran
        item.options.update(check=True, skip=False, check_exception=False)
        item.user_properties += [
            ("exercise", name),
            ("max_points", cell.metadata["nbgrader"]["points"]),
        ]


@cache
def _known(key: str) -> frozenset[str]:
    return frozenset(_pristine_checks(key))


def _pristine_checks(key: str) -> dict[str, Any]:
    """Return the check cells of a pristine chapter, by exercise."""
    from attn.exercises import sources
    from attn.exercises.cells import checked_id
    from attn.publishing import notebooks

    cells = notebooks.read(sources.notebook_path(key)).cells
    return {name: cell for cell in cells if (name := checked_id(cell))}


def _chapter_of(ids: list[str | None]) -> str | None:
    """Return the key of the chapter of most ids in a notebook."""
    from attn.exercises import CHAPTERS

    keys = [
        key
        for name in ids
        if name
        and (key := name.partition("-")[0]) in CHAPTERS
        and name in _known(key)
    ]
    best = max(CHAPTERS, key=keys.count)  # the first of several
    return best if best in keys else None


@pytest.hookimpl(hookwrapper=True)  # of any pytest, new and old
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo
) -> Generator[None, Any, None]:
    """Add a check's result to its report.

    The report may go to another process (xdist), and to JUnit.
    """
    outcome = yield
    if not hasattr(item, "attn_check"):
        return
    report = outcome.get_result()
    if call.when == "call" or (call.when == "setup" and report.failed):
        # After a time-out nbval expects failures: a check that passes then
        # is reported as xpassed, and has not passed.
        passed = report.passed and not hasattr(report, "wasxfail")
        points = dict(item.user_properties)["max_points"] if passed else 0
        message = "" if passed else _message(item, call)
        item.user_properties += [("points", points), ("message", message)]
        report.user_properties = list(item.user_properties)


def _message(item: Any, call: pytest.CallInfo) -> str:
    """Return what the check printed, or the error that stopped it."""
    outputs = item.test_outputs or []
    text = "".join(o.get("text", "") for o in outputs).strip()
    text = text or str(call.excinfo.value if call.excinfo else "")
    return _ANSI.sub("", text)[:2000]


def pytest_runtest_logreport(report: Any) -> None:
    """Collect the points, in the process that prints them."""
    result = dict(report.user_properties)
    path = report.nodeid.partition("::")[0]
    if _CHAPTER in result and path not in _scores:
        _scores[path] = _no_points(path, result[_CHAPTER])
    if path not in _scores or "points" not in result:  # of other projects
        return
    if report.when == "teardown":
        return
    score = _scores[path][result["exercise"]]
    if score["status"] != "failed":  # a repeated check must pass each time
        passed = result["points"] == result["max_points"]
        score["status"] = "passed" if passed else "failed"
        score |= {name: result[name] for name in ("points", "message")}


def _no_points(path: str, key: str) -> dict[str, dict[str, Any]]:
    """Return the scores of a notebook before any check has run."""
    from attn.exercises import CHAPTERS

    return {
        name: {
            "exercise": name,
            "chapter": CHAPTERS[key],
            "notebook": path,
            "points": 0,
            "max_points": cell.metadata["nbgrader"]["points"],
            "status": "missing",
            "message": "its check cell is not in this notebook",
        }
        for name, cell in _pristine_checks(key).items()
    }


def pytest_terminal_summary(
    terminalreporter: Any, config: pytest.Config
) -> None:
    if not _scores:
        return
    write = terminalreporter.write_line
    terminalreporter.section("points")
    everything = []
    for path, exercises in _scores.items():
        scores = list(exercises.values())
        write("{}  {}/{}".format(path, *_total(scores)))
        for score in scores:
            sign = {"passed": "✓", "failed": "✗"}.get(score["status"], "·")
            of_all = f"{score['points']:>3}/{score['max_points']}"
            line = f"  {sign} {score['exercise']:<24}{of_all}  "
            write((line + _in_short(score)).rstrip())
        everything += scores
    points, max_points = _total(everything)
    write(f"total  {points}/{max_points} points")
    if file := config.getoption("--score-json"):
        report: dict[str, Any] = {"points": points, "max_points": max_points}
        report["exercises"] = everything
        text = json.dumps(report, indent=1, ensure_ascii=False)
        Path(file).write_text(text + "\n", encoding="utf-8")


def _total(scores: list[dict[str, Any]]) -> tuple[int, int]:
    points = sum(score["points"] for score in scores)
    return points, sum(score["max_points"] for score in scores)


def _in_short(score: dict[str, Any]) -> str:
    """Return the first line of a diagnosis."""
    stripped = (line.strip() for line in score["message"].splitlines())
    lines = [line for line in stripped if line and line[0] not in "✗✓"]
    return textwrap.shorten(lines[0], 60, placeholder=" …") if lines else ""


def _notice_dead_kernels() -> None:
    """Notice a dead kernel within a second.

    nbval waits for it until the cell's time-out, 2000 s by default.
    """
    from queue import Empty

    from nbval.kernel import RunningKernel

    def await_reply(
        self: Any, msg_id: str, timeout: float | None = None
    ) -> None:
        end = time.monotonic() + (timeout or float("inf"))
        while True:
            left = end - time.monotonic()
            try:
                wait = max(min(_POLL, left), 0.01)
                message = self.get_message("shell", timeout=wait)
            except Empty:
                if not self.is_alive():
                    raise RuntimeError(
                        "the kernel died while it ran this cell"
                    ) from None
                if time.monotonic() >= end:
                    raise
                continue
            if message["parent_header"].get("msg_id") == msg_id:
                return

    RunningKernel.await_reply = await_reply
