"""The suite: how many tests at a time, which of a grid, and its last line."""

import os
from types import SimpleNamespace

import psutil
import pytest

from tests import conftest
from tests.__main__ import MEMORY, Tally, announcement, workers


@pytest.mark.parametrize(
    ("cores", "free", "number"),
    [(8, 7.9, 7), (2, 40, 2), (4, 0.5, 1), (1, 9, 1)],
)
def test_each_core_with_memory_has_a_worker(cores, free, number, monkeypatch):
    memory = SimpleNamespace(available=int(free * MEMORY))
    monkeypatch.delenv("WORKERS", raising=False)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert workers() == number
    monkeypatch.setenv("WORKERS", "3")
    assert workers() == 3


def test_more_workers_are_said_to_take_less_time():
    minutes = [
        [int(x) for x in announcement("test", n).split() if x.isdigit()][-2:]
        for n in (1, 2, 8)
    ]
    assert all(low < high for low, high in minutes)
    assert minutes == sorted(minutes, reverse=True)


def report(name, outcome, when="call"):
    kinds = {x: x == outcome for x in ("passed", "failed", "skipped")}
    return SimpleNamespace(nodeid=name, when=when, **kinds)


def test_the_last_line_counts_what_passed_or_names_what_failed():
    tally = Tally()
    for name in "ab":
        for when in ("setup", "call", "teardown"):
            tally.pytest_runtest_logreport(report(name, "passed", when))
    tally.pytest_runtest_logreport(report("c", "skipped", "setup"))
    assert tally.summary(0).startswith(
        "Every claim holds: 2 tests passed, 1 skipped in 0:0"
    )
    assert "did not finish" in tally.summary(2)
    for when in ("call", "teardown"):
        tally.pytest_runtest_logreport(report("d", "failed", when))
    assert tally.summary(1).startswith("1 test failed in 0:0")
    tally.pytest_collectreport(report("e.py", "failed"))
    assert tally.summary(1).startswith("2 tests failed in 0:0")
    assert tally.summary(1).endswith("the first of them is d")


def test_between_the_ends_of_a_grid_a_test_is_exhaustive():
    marked = []
    items = [
        SimpleNamespace(
            path=path,
            originalname="test_it",
            keywords={"grid"},
            add_marker=lambda mark, at=(path, n): marked.append((at, mark)),
        )
        for path in ("one.py", "two.py")
        for n in range(4)
    ]
    conftest._thin(items)
    places = [at for at, _ in marked]
    assert places == [(x, n) for x in ("one.py", "two.py") for n in (1, 2)]
    assert {mark.name for _, mark in marked} == {"exhaustive"}
