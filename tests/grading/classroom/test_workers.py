"""Submissions are graded by processes of this machine, or by a cluster."""

import operator
import os
import signal
import subprocess
import sys
import time
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial

import psutil
import pytest

from attn.grading.classroom import dask, pools
from tests.grading.classroom import fakes
from tests.processes import run_python


def test_a_grader_that_hangs_is_stopped(log, klass, monkeypatch, grade_all):
    start = time.monotonic()
    grade_all(klass("a"), pool=pools.processes)  # as busy as it is then
    limit = 3 * (time.monotonic() - start)
    limit -= 10 * fakes.OPTIONS.timeout
    monkeypatch.setattr(pools, "_STUCK", limit)
    results = grade_all(klass("b", "sleeps"), pool=pools.processes)
    rows = {x.learner: x for x in results}
    assert str(os.getpid()) not in log.read_text().split()
    assert rows["b"].points == rows["b"].max_points > 0
    assert "hung" in rows["sleeps"].message
    assert not fakes.are_running(log)


IMPORTS = """
import sys
from attn.grading.classroom import batch, command, reports

print(*{"torch", "triton", "numpy", "nbformat"} & {*sys.modules})
"""


def test_the_process_that_hands_out_work_starts_without_torch():
    """Nor with nbformat, which takes as long as all the rest."""
    done = run_python(IMPORTS)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []


ORPHANS = """
import os, time
from attn.grading.classroom import dask, pools

with pools.processes(1) as (start, _):
    executor = start()
    print(executor.submit(os.getpid).result(), flush=True)
    executor.submit(time.sleep, 600).result()
"""


def test_workers_end_when_their_batch_is_killed():
    command = [sys.executable, "-c", ORPHANS]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as parent:
        worker = int(parent.stdout.readline())
        assert psutil.pid_exists(worker)
        parent.kill()
    while psutil.pid_exists(worker):
        time.sleep(0.05)


def test_a_worker_that_is_told_to_end_ends_in_the_middle_of_its_work():
    with pools.processes(1) as (start, _):
        executor = start()
        worker = executor.submit(os.getpid).result()
        busy = executor.submit(time.sleep, 600)
        while not busy.running():
            time.sleep(0.01)
        os.kill(worker, signal.SIGTERM)
        with pytest.raises(BrokenProcessPool):
            busy.result(timeout=60)


# --- Dask --------------------------------------------------------------------


def test_dask_needs_its_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ValueError, match="pip install distributed"):
        dask.cluster("tcp://127.0.0.1:1", 1).__enter__()


@pytest.mark.parametrize("address", ["nowhere", "127.0.0.1:x", "", "x://"])
def test_dask_needs_a_scheduler(address):
    pytest.importorskip("distributed")
    with pytest.raises(ValueError, match="must be the address of a running"):
        dask.cluster(address, 1).__enter__()


@contextmanager
def cluster(workers, processes=False):
    """Start a scheduler with workers; yield its address."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        processes=processes,
        protocol="tcp",
        dashboard_address=None,
    ) as started:
        yield started.scheduler_address


def test_dask_needs_workers(klass, grade_all):
    with cluster(workers=0) as address:
        pool = partial(dask.cluster, address.removeprefix("tcp://"))
        with pytest.raises(ValueError, match="must name a cluster with work"):
            grade_all(klass("a"), pool=pool)


@pytest.mark.parametrize(
    "processes", [False, pytest.param(True, marks=pytest.mark.exhaustive)]
)
def test_a_cluster_grades_as_this_machine_does(processes, klass, grade_all):
    submissions = klass("a", "b", "c")
    with cluster(workers=2, processes=processes) as address:
        there = grade_all(
            submissions, out="there", pool=partial(dask.cluster, address)
        )
    here = grade_all(submissions, out="here")
    by_name = operator.attrgetter("submission")
    assert sorted(there, key=by_name) == sorted(here, key=by_name)
    assert all(x.points for x in here)
