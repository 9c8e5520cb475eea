"""Run the suite, and say how long that takes and what came of it.

``make test`` runs ``python -m tests``: every claim once, then alone the tests
that measure time. ``make test-all`` runs ``python -m tests rest``: all else.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

HERE = Path(__file__).parent
#: What a worker may hold: PyTorch, transformers and the models of the tests.
MEMORY = 2 * 2**30
#: pytest's status where a part of a run has no test that measures time.
NOTHING = 5
#: Minutes of one core: on a fast machine, and on a slow one. The second number
#: of each is what no further worker shortens.
MINUTES = {"test": ((12, 1), (28, 2)), "rest": ((110, 1), (190, 2))}


def workers() -> int:
    """Return how many tests may run at a time: ``WORKERS=`` chooses."""
    if chosen := os.environ.get("WORKERS"):
        return int(chosen)
    import psutil

    from attn.grading.classroom.pools import cores

    return max(1, min(cores(), psutil.virtual_memory().available // MEMORY))


def announcement(kind: str, at_a_time: int) -> str:
    """Return how many tests run at a time, and how long all take."""
    few, many = (
        round(shared / at_a_time + alone) for shared, alone in MINUTES[kind]
    )
    return (
        f"Tests, {at_a_time} at a time (WORKERS=… for another number): "
        f"{few} to {many} minutes, by the machine"
    )


class Tally:
    """Counts of tests as they end, in this process or in its workers."""

    def __init__(self) -> None:
        self.passed = self.skipped = 0
        self.failed: list[str] = []
        self.start = time.monotonic()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test once, whatever failed of it."""
        if report.failed:
            if report.nodeid not in self.failed:
                self.failed.append(report.nodeid)
        elif report.skipped:
            self.skipped += 1
        elif report.when == "call":
            self.passed += 1

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Count a file that cannot be read as a test that fails."""
        if report.failed and report.nodeid not in self.failed:
            self.failed.append(report.nodeid)

    def summary(self, status: int) -> str:
        """Return in one line what came of all tests."""
        minutes, seconds = divmod(round(time.monotonic() - self.start), 60)
        took = f"in {minutes}:{seconds:02}"
        if self.failed:
            number = len(self.failed)
            tests = "1 test" if number == 1 else f"{number:,} tests"
            first = "it is" if number == 1 else "the first of them is"
            return f"{tests} failed {took}; {first} {self.failed[0]}"
        if status:
            return f"The tests did not finish: pytest's status is {status}"
        skipped = f", {self.skipped:,} skipped" if self.skipped else ""
        return (
            f"Every claim holds: {self.passed:,} tests passed{skipped} {took}"
        )


def run(tally: Tally, *arguments: str) -> int:
    """Run pytest; return its status."""
    return int(pytest.main([*arguments], plugins=[tally]))


def main(kind: str = "test") -> int:
    """Run the suite; return the exit status."""
    at_a_time, tally = workers(), Tally()
    print(announcement(kind, at_a_time), flush=True)
    these = "exhaustive" if kind == "rest" else "not exhaustive"
    parallel = ["-n", str(at_a_time), "--dist", "worksteal"]
    os.environ["OMP_NUM_THREADS"] = "1"
    status = run(tally, *parallel, "-m", f"{these} and not serial")
    if status in (0, 1):
        print("Tests of time, one after the other", flush=True)
        del os.environ["OMP_NUM_THREADS"]
        files = [
            str(path)
            for path in sorted(HERE.rglob("test_*.py"))
            if "mark.serial" in path.read_text("utf-8")
        ]
        alone = run(tally, "-m", f"{these} and serial", *files)
        status = status or (0 if alone == NOTHING else alone)
    print(tally.summary(status), flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
