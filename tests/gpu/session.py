"""Measure a GPU in one go: correctness, configurations, benchmark.

``make gpu`` runs three stages, each until its share of the time is over, and
rewrites one JSON file after every step. The file is a run of ``attn.bench``
(``about``, ``dry``, ``cases``, ``pending``), which can be shown, drawn and
published, with three more keys:

``correctness``
    ``checks``: what ``correctness.check`` returns, or the check's fields with
    ``error`` (its process died, hung or raised) and ``right`` false;
    ``planned``: the number of checks.
``sweep``
    ``rows``: what ``sweep.summary`` returns for each row of the table;
    ``planned``: the number of configurations; ``tried``: those that ran.
``time``
    ``budget`` and, by stage, the seconds spent.

Everything that may crash runs in a worker process. Kernels are first compiled
on all cores; while one worker measures time, no other computes.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from attn.bench import results
from attn.bench.case import Case
from attn.bench.cases import CASES, find
from attn.bench.runner import run_case
from attn.kernels.configs import Config
from tests.gpu import correctness, sweep
from tests.gpu.workers import Outcome, Worker, attempt, run_all

BUDGET = 490.0  # seconds; with what Python takes to start, under 9 minutes
#: Shares of the time at which each step ends.
ENDS = {"correctness": 0.18, "trials": 0.32, "timing": 0.5, "benchmark": 1.0}
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
        budget: seconds for all stages.
        dry: tiny sizes, in this process, on any machine; times mean nothing.
        cases: of the benchmark; those for a GPU when None.
    """

    def __init__(
        self,
        path: Path,
        budget: float = BUDGET,
        dry: bool = False,
        cases: list[Case] | None = None,
    ) -> None:
        on_gpu = [case for case in CASES if case.sizes.device == "cuda"]
        self.cases = on_gpu if cases is None else cases
        self.path, self.dry = path, dry
        self.start = time.monotonic()
        self.budget = budget
        # Two cores are left for everything but compilers.
        cores = os.cpu_count() or 1
        self.processes = 0 if dry else max(1, min(cores - 2, 14))
        # Cases compile in parallel already.
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
        stage = self.run["correctness"]
        checks = correctness.checks(self.dry)
        stage["planned"] = len(checks)
        outcomes = self._run_all(correctness.check, checks, "correctness")
        for check, (result, error, _) in outcomes:
            if error:
                result = {**check._asdict(), "error": error, "right": False}
            stage["checks"].append(result)
            if not result["right"]:
                self._log(f"WRONG: {check}: {error or result['errors']}")
            self._progress("correctness", len(stage["checks"]), len(checks))

    # --- the table of configurations ---

    def _sweep(self) -> None:
        arch = 0
        if torch.cuda.is_available():
            arch = 10 * torch.cuda.get_device_capability()[0]
        rows = TINY if self.dry else sweep.ROWS
        stage = self.run["sweep"]
        trials = sweep.trials(arch, rows)
        stage["planned"] = len(trials)
        if self.dry:  # the shipped ones; of the first a neighbour, variants
            others = [x for x in trials[len(rows) :] if x.row == rows[0]]
            new = [x for x in others if x.config.variant != "pointers"]
            trials = trials[: len(rows)] + others[:1] + new[:2]
        tried: dict[sweep.Row, list[dict[str, Any]]] = {r: [] for r in rows}
        outcomes = self._run_all(sweep.try_config, trials, "trials")
        for trial, (_, error, _) in outcomes:
            config = sweep.fields(trial.config)
            reason = {"error": error} if error else {}
            tried[trial.row].append({"config": config, **reason})
            stage["tried"] += 1
            self._progress("configurations", stage["tried"], len(trials))
        stage["rows"] = [sweep.summary(row, arch, tried[row]) for row in rows]
        jobs = [
            (row, tried[row], arch, self.dry)
            for row in rows
            if any("error" not in trial for trial in tried[row])
        ]
        # One process: nothing else computes while it measures time.
        outcomes = self._run_all(compare_row, jobs, "timing", processes=1)
        for (row, *_), (timed, error, _) in outcomes:
            if error:
                self._log(f"{row}: not timed: {error}")
                continue
            summary = sweep.summary(row, arch, timed)
            stage["rows"][rows.index(row)] = summary
            self._save()
            ratio = summary["ratio"] or float("nan")
            self._log(f"{row}: the shipped one takes {ratio:.2f}x the best")

    # --- the benchmark ---

    def _benchmark(self) -> None:
        """Compile all cases in parallel, then time them one by one."""
        if self.dry:
            for case in self.cases:
                self._keep(case, attempt(run_one, case.name, 2, True))
            return
        end = self._end("benchmark")
        workers = {case.name: Worker() for case in self.cases}
        try:
            # A third of the time is reserved for timing.
            left = max(1.0, (end - time.monotonic()) * 2 / 3)
            for name, worker in workers.items():
                worker.begin(run_one, name, 1, False, seconds=left)
            outcomes = {n: worker.outcome() for n, worker in workers.items()}
            good = sum(x.error is None for x in outcomes.values())
            self._log(f"benchmark: {good} of {len(workers)} cases compiled")
            for case in self.cases:
                outcome, worker = outcomes[case.name], workers[case.name]
                left = end - time.monotonic()
                if left <= 0:
                    outcome = Outcome(error="the time was over")
                elif not outcome.error:
                    left = min(60.0, left)
                    job = run_one, case.name, ROUNDS, False
                    worker.begin(*job, seconds=left)
                    outcome = worker.outcome()
                worker.stop()
                self._keep(case, outcome)
        finally:
            for worker in workers.values():
                worker.stop()

    def _keep(self, case: Case, outcome: Outcome) -> None:
        pending = self.run["pending"]
        pending.remove(self._pending(case))
        if outcome.error:
            pending.append({"case": case.name, "why": outcome.error})
        else:
            self.run["cases"].append(outcome.value)
        self._save()
        self._log(f"{case.title}: {outcome.error or 'measured'}")

    @staticmethod
    def _pending(case: Case) -> dict[str, str]:
        return {"case": case.name, "why": "the time was over"}

    # --- time, progress, and the file ---

    def _end(self, step: str) -> float:
        return self.start + ENDS[step] * self.budget

    def _run_all(
        self, job: Any, arguments: Any, step: str, processes: int = 14
    ) -> Iterator[tuple[Any, Outcome]]:
        return run_all(
            job,
            arguments,
            processes=min(processes, self.processes),
            seconds=90,
            until=self._end(step),
        )

    def _progress(self, what: str, done: int, planned: int) -> None:
        if done % 20 == 0 or done == planned:
            self._save()
            self._log(f"{what}: {done} of {planned}")

    def _log(self, text: str) -> None:
        spent = time.monotonic() - self.start
        print(f"[{spent:3.0f} s] {text}", flush=True)

    def _save(self) -> None:
        results.save(self.run, self.path)


def measure(path: Path, budget: float = BUDGET, dry: bool = False) -> int:
    """Run all stages and write the file.

    Returns:
        The exit code: 1 when a kernel is wrong, 0 otherwise.
    """
    run = Session(path, budget, dry).measure()
    checks = run["correctness"]["checks"]
    return int(not all(check["right"] for check in checks))


# --- jobs --------------------------------------------------------------------


def run_one(name: str, rounds: int, dry: bool) -> dict[str, Any]:
    """Measure a case of the benchmark."""
    return run_case(find(name), repeats=rounds, dry=dry)


def compare_row(
    job: tuple[sweep.Row, list[dict[str, Any]], int, bool],
) -> list[dict[str, Any]]:
    """Time those configurations of a row that compute the right result."""
    row, tried, arch, dry = job
    right = [trial for trial in tried if "error" not in trial]
    configs = [Config(**trial["config"], why="") for trial in right]
    seconds = sweep.compare(row, configs, arch, rounds=1 if dry else 9)
    for trial, times in zip(right, seconds, strict=True):
        trial["seconds"] = times
    return tried
