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
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

_POLL = 1.0  # seconds between two looks at a silent kernel
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_SCORES = pytest.StashKey[dict[tuple[str, str], dict[str, Any]]]()


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
    config.stash[_SCORES] = {}
    os.environ["ATTN_NO_RECORD"] = "1"
    if not config.option.nbval_kernel_name:
        config.option.nbval_current_env = True  # this environment's kernel
    _watch_the_kernel()


def _is_on(config: pytest.Config) -> bool:
    option = config.option
    return bool(getattr(option, "nbval", 0) or getattr(option, "nbval_lax", 0))


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Give each check cell its pristine source and output; list them all."""
    if not _is_on(config):
        return
    for parent in {i.parent for i in items if hasattr(i, "cell")}:
        cells = [i for i in items if i.parent is parent and hasattr(i, "cell")]
        _prepare(config.stash[_SCORES], Path(str(parent.path)), cells)


def _prepare(scores: dict, path: Path, items: list[Any]) -> None:
    from attn.grading import notebooks

    ids = [notebooks.checked_id(i.cell) for i in items]
    chapter = _chapter_of(path, ids + [notebooks.exercise_id(i.cell) for i in items])
    if chapter is None:
        return
    pristine = {
        name: cell
        for cell in notebooks.read(chapter).cells
        if (name := notebooks.checked_id(cell))
    }
    for name, cell in pristine.items():
        points = cell.metadata["nbgrader"]["points"]
        scores[str(path), name] = {
            "exercise": name,
            "chapter": chapter.stem,
            "notebook": path.name,
            "points": 0,
            "max_points": points,
            "status": "missing",
            "message": "its check cell is not in this notebook",
        }
    for item, name in zip(items, ids, strict=True):
        if name not in pristine:
            continue
        item.attn_check = (str(path), name)
        item.cell.source = pristine[name].source
        item.cell.outputs = pristine[name].outputs
        item.cell.execution_count = 1  # nbval compares only cells that ran
        item.options.update(check=True, skip=False, check_exception=False)
        item.user_properties += [
            ("exercise", name),
            ("max_points", pristine[name].metadata["nbgrader"]["points"]),
        ]


def _chapter_of(path: Path, ids: list[str | None]) -> Path | None:
    """The pristine chapter that most of a notebook's ids belong to."""
    from attn.exercises import CHAPTERS
    from attn.grading import sources

    keys = [name.partition("-")[0] for name in ids if name]
    known = [key for key in keys if key in CHAPTERS]
    if not known:
        return None
    return sources.notebook_path(max(set(known), key=known.count))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo
) -> Iterator[None]:
    report = (yield).get_result()  # type: ignore[misc]
    key = getattr(item, "attn_check", None)
    if key is None:
        return
    if call.when == "setup" and report.failed:
        _set_score(item, key, False, "the kernel did not start")
    if call.when == "call":
        # After a time-out nbval expects failures: a check that passes then
        # is reported as xpassed, and has not passed.
        passed = report.outcome == "passed" and not hasattr(report, "wasxfail")
        _set_score(item, key, passed, "" if passed else _said(item, call))


def _set_score(item: Any, key: tuple, passed: bool, message: str) -> None:
    entry = item.config.stash[_SCORES][key]
    repeated = entry["status"] != "missing"
    if repeated and not passed:
        entry.update(points=0, status="failed", message=message)
    elif not repeated:
        points = entry["max_points"] if passed else 0
        status = "passed" if passed else "failed"
        entry.update(points=points, status=status, message=message)
    item.user_properties.append(("points", entry["points"]))


def _said(item: Any, call: pytest.CallInfo) -> str:
    """What the check printed, or the error that stopped it."""
    outputs = item.test_outputs or []
    text = "".join(o.get("text", "") for o in outputs).strip()
    text = text or str(call.excinfo.value if call.excinfo else "")
    return _ANSI.sub("", text)[:2000]


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    scores = list(config.stash.get(_SCORES, {}).values())
    if not scores:
        return
    terminalreporter.section("points")
    for notebook in dict.fromkeys(s["notebook"] for s in scores):
        own = [s for s in scores if s["notebook"] == notebook]
        got, most = (sum(s[k] for s in own) for k in ("points", "max_points"))
        terminalreporter.write_line(f"{notebook}  {got}/{most}")
        for s in own:
            sign = {"passed": "✓", "failed": "✗"}.get(s["status"], "·")
            line = f"  {sign} {s['exercise']:<24}{s['points']:>3}/{s['max_points']}"
            terminalreporter.write_line(f"{line}  {_in_short(s)}".rstrip())
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
    return telling[0][:70] if telling else ""


def _watch_the_kernel() -> None:
    """nbval waits the whole cell time-out for a kernel that has died (2000 s
    by default): look whether it is alive every second instead."""
    from queue import Empty

    from nbval.kernel import RunningKernel

    def await_reply(self: Any, msg_id: str, timeout: float | None = None) -> None:
        end = time.monotonic() + (timeout or float("inf"))
        while True:
            left = end - time.monotonic()
            try:
                message = self.get_message("shell", timeout=max(min(_POLL, left), 0.01))
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
