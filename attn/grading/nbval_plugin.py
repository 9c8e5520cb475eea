"""A pytest plugin that turns nbval's results into a score.

``pytest --nbval notebooks/`` runs every cell; the check cells are held
against the pristine chapter, found by their id, whatever the file at hand
stores. It prints points per exercise and chapter, adds them to JUnit's
properties, and writes JSON with ``--score-json FILE``.

A learner's code runs in the same kernel as the check, so this score is
information for the learner, and not proof for a teacher.
"""

from __future__ import annotations

import json
import os
import re
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

_POLL = 1.0  # seconds between two looks at a silent kernel
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_scores: dict[str, dict[str, dict[str, Any]]] = {}  # notebook, exercise


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("attn")
    group.addoption(
        "--score-json",
        metavar="FILE",
        help="write the points of the book's exercises to this file",
    )


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    if not _is_on(config):
        return
    _scores.clear()
    os.environ["ATTN_NO_PROGRESS"] = "1"
    if not config.option.nbval_kernel_name:
        config.option.nbval_current_env = True  # this environment's kernel
    _watch_the_kernel()


def _is_on(config: pytest.Config) -> bool:
    option = config.option
    return bool(getattr(option, "nbval", 0) or getattr(option, "nbval_lax", 0))


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Give each check cell its pristine source and output."""
    if not _is_on(config):
        return
    for parent in {i.parent for i in items if hasattr(i, "cell")}:
        _prepare([i for i in items if i.parent is parent])


def _prepare(items: list[Any]) -> None:
    from attn.exercises.cells import checked_id, exercise_id

    checked = [checked_id(i.cell) for i in items]
    written = [exercise_id(i.cell) for i in items]
    key = _chapter_of(checked + written)
    if key is None:
        return
    items[0].user_properties.append(("chapter", key))
    pristine = _checks(key)
    for item, name in zip(items, checked, strict=True):
        if name not in pristine:
            continue
        item.attn_check = name
        item.cell.source = pristine[name].source
        item.cell.outputs = pristine[name].outputs
        item.cell.execution_count = 1  # nbval compares only cells that ran
        item.options.update(check=True, skip=False, check_exception=False)
        item.user_properties += [("exercise", name), *_points(pristine[name])]


def _checks(key: str) -> dict[str, Any]:
    """The check cells of a pristine chapter, by exercise."""
    from attn.exercises import sources
    from attn.exercises.cells import checked_id
    from attn.grading import notebooks

    cells = notebooks.read(sources.notebook_path(key)).cells
    return {n: c for c in cells if (n := checked_id(c))}


def _points(cell: Any) -> list[tuple[str, object]]:
    return [("max_points", cell.metadata["nbgrader"]["points"])]


def _chapter_of(ids: list[str | None]) -> str | None:
    """The key of the chapter that most of a notebook's ids belong to."""
    from attn.exercises import CHAPTERS

    keys = [name.partition("-")[0] for name in ids if name]
    known = [key for key in keys if key in CHAPTERS]
    return max(set(known), key=known.count) if known else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo
) -> Generator[None, Any, Any]:
    """Note what became of a check, in the report: it may go to another
    process (xdist), and to JUnit."""
    report = yield
    if not hasattr(item, "attn_check"):
        return report
    if call.when == "call" or (call.when == "setup" and report.failed):
        # After a time-out nbval expects failures: a check that passes then
        # is reported as xpassed, and has not passed.
        passed = report.passed and not hasattr(report, "wasxfail")
        points = dict(item.user_properties)["max_points"] if passed else 0
        noted = [
            ("points", points),
            ("said", "" if passed else _said(item, call)),
        ]
        item.user_properties += noted
        report.user_properties = list(item.user_properties)
    return report


def pytest_runtest_logreport(report: Any) -> None:
    """Collect the points, in the process that prints them."""
    from attn.exercises import CHAPTERS

    about = dict(report.user_properties)
    path = report.nodeid.partition("::")[0]
    if "chapter" in about and path not in _scores:
        key = about["chapter"]
        _scores[path] = {
            name: {
                "exercise": name,
                "chapter": CHAPTERS[key],
                "notebook": path,
                "points": 0,
                **dict(_points(cell)),
                "status": "missing",
                "message": "its check cell is not in this notebook",
            }
            for name, cell in _checks(key).items()
        }
    if report.when == "teardown" or "points" not in about:
        return
    entry = _scores[path][about["exercise"]]
    passed = about["points"] == about["max_points"]
    if entry["status"] in (
        "missing",
        "passed",
    ):  # the worst of a repeated cell
        entry.update(
            points=about["points"],
            status="passed" if passed else "failed",
            message=about["said"],
        )


def _said(item: Any, call: pytest.CallInfo) -> str:
    """What the check printed, or the error that stopped it."""
    outputs = item.test_outputs or []
    text = "".join(o.get("text", "") for o in outputs).strip()
    text = text or str(call.excinfo.value if call.excinfo else "")
    return _ANSI.sub("", text)[:2000]


def pytest_terminal_summary(
    terminalreporter: Any, config: pytest.Config
) -> None:
    scores = [s for own in _scores.values() for s in own.values()]
    if not scores:
        return
    terminalreporter.section("points")
    for notebook in dict.fromkeys(s["notebook"] for s in scores):
        own = [s for s in scores if s["notebook"] == notebook]
        got, most = (sum(s[k] for s in own) for k in ("points", "max_points"))
        terminalreporter.write_line(f"{notebook}  {got}/{most}")
        for s in own:
            sign = {"passed": "✓", "failed": "✗"}.get(s["status"], "·")
            line = f"  {sign} {s['exercise']:<24}{s['points']:>3}"
            line += f"/{s['max_points']}  {_in_short(s)}"
            terminalreporter.write_line(line.rstrip())
    got, most = (sum(s[k] for s in scores) for k in ("points", "max_points"))
    terminalreporter.write_line(f"total  {got}/{most} points")
    path = config.getoption("--score-json")
    if path:
        report = {"points": got, "max_points": most, "exercises": scores}
        text = json.dumps(report, indent=1, ensure_ascii=False)
        Path(path).write_text(text + "\n", encoding="utf-8")


def _in_short(score: dict[str, Any]) -> str:
    """The line of a diagnosis that says most."""
    lines = [x.strip() for x in score["message"].splitlines()]
    telling = [x for x in lines if x and not x.startswith(("✗", "✓"))]
    return (
        textwrap.shorten(telling[0], 60, placeholder=" …") if telling else ""
    )


def _watch_the_kernel() -> None:
    """nbval waits the whole cell time-out for a kernel that has died (2000 s
    by default): look whether it is alive every second instead."""
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
