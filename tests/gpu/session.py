"""Measure a GPU in one go: correctness, configurations, benchmark.

``make gpu`` runs three stages, each until its share of the time is over, and
writes one JSON file after every step. It is a run as ``results`` describes
(``about``, ``dry``, ``cases``, ``pending``), and so can be shown, drawn and
published like one, with three keys more:

``correctness``
    ``checks``: what ``correctness.check`` returns, or the check's fields with
    ``error`` (its process died, hung or raised) and ``right`` false;
    ``planned``: how many there are.
``sweep``
    ``rows``: what ``sweep.summary`` returns for each row of the table;
    ``planned``: how many configurations there are; ``tried``: how many ran.
``time``
    ``budget`` and, by stage, the seconds that were spent.

Everything that may crash runs in processes of its own. Only one of them
computes while a time is taken; before, kernels are compiled on all cores.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import torch

from attn.bench import results
from attn.bench.cases import CASES, Case, find
from attn.bench.runner import run_case
from attn.kernels.configs import Config
from tests.gpu import correctness, sweep
from tests.gpu.workers import Outcome, Worker, attempt, run_all

__all__ = ["BUDGET", "Session", "measure"]

BUDGET = 490.0  # seconds; with what Python takes to start, under 9 minutes
#: Shares of the time at which each step ends.
ENDS = {"correctness": 0.24, "trials": 0.48, "timing": 0.62, "benchmark": 1.0}
ROUNDS = 25
TINY = (
    sweep.Row("forward", 16, "bfloat16", 2, 32),
    sweep.Row("dkdv", 16, "bfloat16", 2, 32),
    sweep.Row("decode", 16, "bfloat16", 2, 32),
)


class Session:
    """One run of the three stages.

    Args:
        path: the JSON file.
        budget: seconds that it may take.
        dry: tiny sizes, in this process, on any machine; nothing is timed.
        cases: of the benchmark; those for a GPU when None.
    """

    def __init__(
        self,
        path: Path,
        budget: float = BUDGET,
        dry: bool = False,
        cases: list[Case] | None = None,
    ) -> None:
        on_gpu = [case for case in CASES if case.device == "cuda"]
        self.cases = on_gpu if cases is None else cases
        self.path, self.dry = path, dry
        self.start = time.monotonic()
        self.budget = budget
        # Two cores are left for what every process does besides compiling.
        cores = os.cpu_count() or 1
        self.hands = 0 if dry else max(1, min(cores - 2, 14))
        # Cases compile beside each other: none needs a pool of its own.
        os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
        self.run: dict[str, Any] = {
            "about": results.about_this_machine("tests/gpu"),
            "dry": dry,
            "time": {"budget": budget},
            "correctness": {"planned": 0, "checks": []},
            "sweep": {"planned": 0, "tried": 0, "rows": []},
            "cases": [],
            "pending": [self._pending(case) for case in self.cases],
        }

    def measure(self) -> dict[str, Any]:
        """Run all stages."""
        stages = (self._correctness, self._sweep, self._benchmark)
        for stage in stages:
            before = time.monotonic()
            stage()
            spent = time.monotonic() - before
            self.run["time"][stage.__name__.strip("_")] = round(spent, 1)
            self._save()
        return self.run

    # --- correctness ---

    def _correctness(self) -> None:
        found = self.run["correctness"]
        checks = correctness.checks(self.dry)
        found["planned"] = len(checks)
        for one, done in self._all(correctness.check, checks, "correctness"):
            result = done.value
            if done.error:
                result = {**one._asdict(), "error": done.error, "right": False}
            found["checks"].append(result)
            if not result["right"]:
                self._say(f"WRONG: {one}: {done.error or result['errors']}")
            self._progress("correctness", len(found["checks"]), len(checks))

    # --- the table of configurations ---

    def _sweep(self) -> None:
        arch = 0
        if torch.cuda.is_available():
            arch = 10 * torch.cuda.get_device_capability()[0]
        rows = TINY if self.dry else sweep.ROWS
        found = self.run["sweep"]
        trials = sweep.trials(arch, rows)
        found["planned"] = len(trials)
        if self.dry:
            trials = trials[: len(rows) + 1]
        tried: dict[sweep.Row, list[dict[str, Any]]] = {r: [] for r in rows}
        for trial, done in self._all(sweep.try_config, trials, "trials"):
            config = sweep.fields(trial.config)
            reason = {"error": done.error} if done.error else {}
            tried[trial.row].append({"config": config, **reason})
            found["tried"] += 1
            self._progress("configurations", found["tried"], len(trials))
        found["rows"] = [sweep.summary(row, arch, tried[row]) for row in rows]
        jobs = [
            (row, tried[row], arch, self.dry)
            for row in rows
            if any("error" not in one for one in tried[row])
        ]
        for job, done in self._all(compare_row, jobs, "timing", hands=1):
            row = job[0]
            if done.error:
                self._say(f"{row}: not timed: {done.error}")
                continue
            summary = sweep.summary(row, arch, done.value)
            found["rows"][rows.index(row)] = summary
            self._save()
            ratio = summary["ratio"] or float("nan")
            self._say(f"{row}: the shipped one takes {ratio:.2f}x the best")

    # --- the benchmark ---

    def _benchmark(self) -> None:
        """Let all cases compile at the same time, then time one by one."""
        if self.dry:
            for case in self.cases:
                self._keep(case, attempt(run_one, case.name, 2, True))
            return
        end = self._until("benchmark")
        workers = {case.name: Worker() for case in self.cases}
        try:
            # A third of the time is kept for timing.
            left = max(1.0, (end - time.monotonic()) * 2 / 3)
            for name, worker in workers.items():
                worker.begin(run_one, name, 1, False, seconds=left)
            compiled = {n: worker.outcome() for n, worker in workers.items()}
            good = sum(done.error is None for done in compiled.values())
            self._say(f"benchmark: {good} of {len(workers)} cases compiled")
            for case in self.cases:
                done, worker = compiled[case.name], workers[case.name]
                left = end - time.monotonic()
                if left <= 0:
                    done = Outcome(error="the time was over")
                elif not done.error:
                    left = min(60.0, left)
                    worker.begin(
                        run_one, case.name, ROUNDS, False, seconds=left
                    )
                    done = worker.outcome()
                worker.stop()
                self._keep(case, done)
        finally:
            for worker in workers.values():
                worker.stop()

    def _keep(self, case: Case, done: Outcome) -> None:
        pending = self.run["pending"]
        pending.remove(self._pending(case))
        if done.error:
            pending.append({"case": case.name, "why": done.error})
        else:
            self.run["cases"].append(done.value)
        self._save()
        self._say(f"{case.title}: {done.error or 'measured'}")

    @staticmethod
    def _pending(case: Case) -> dict[str, str]:
        return {"case": case.name, "why": "the time was over"}

    # --- time, progress, and the file ---

    def _until(self, step: str) -> float:
        return self.start + ENDS[step] * self.budget

    def _all(self, job: Any, arguments: Any, step: str, hands: int = 0) -> Any:
        return run_all(
            job,
            arguments,
            hands=min(hands or self.hands, self.hands),
            seconds=90,
            until=self._until(step),
        )

    def _progress(self, what: str, done: int, planned: int) -> None:
        if done % 20 == 0 or done == planned:
            self._save()
            self._say(f"{what}: {done} of {planned}")

    def _say(self, text: str) -> None:
        spent = time.monotonic() - self.start
        print(f"[{spent:3.0f} s] {text}", flush=True)

    def _save(self) -> None:
        results.save(self.run, self.path)


def measure(path: Path, budget: float = BUDGET, dry: bool = False) -> int:
    """Run all stages and write the file.

    Returns:
        An exit code: 1 when a kernel was wrong, else 0.
    """
    run = Session(path, budget, dry).measure()
    return int(not all(one["right"] for one in run["correctness"]["checks"]))


# --- jobs --------------------------------------------------------------------


def run_one(name: str, rounds: int, dry: bool) -> dict[str, Any]:
    """Measure a case of the benchmark."""
    return run_case(find(name), repeats=rounds, dry=dry)


def compare_row(
    job: tuple[sweep.Row, list[dict[str, Any]], int, bool],
) -> list[dict[str, Any]]:
    """Time the configurations that a row's trials found right."""
    row, tried, arch, dry = job
    right = [one for one in tried if "error" not in one]
    configs = [Config(**one["config"], why="") for one in right]
    seconds = sweep.compare(row, configs, arch, rounds=1 if dry else 15)
    for one, times in zip(right, seconds, strict=True):
        one["seconds"] = times
    return tried
