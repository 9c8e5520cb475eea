"""Submissions are graded by processes of this machine, or by a cluster."""

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from functools import partial

import psutil
import pytest

from attn.grading.classroom import dask, pools
from tests.grading.classroom import fakes
from tests.marks import exhaustive_but
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


def test_the_process_that_hands_out_work_starts_without_torch():
    """Nor with nbformat, which takes as long as all the rest."""
    imports = "from attn.grading.classroom import batch, command, reports"
    done = run_python(f"import sys\n{imports}\nprint(*sys.modules)")
    assert done.returncode == 0, done.stderr
    heavy = {"torch", "triton", "numpy", "nbformat"}
    assert not heavy & {*done.stdout.split()}


BUSY = """
import os, time
from attn.grading.classroom import dask, pools

with pools.processes(1) as (start, _):
    executor = start()
    worker = executor.submit(os.getpid).result()
    busy = executor.submit(time.sleep, 600)
    while not busy.running():
        time.sleep(0.01)
    print(worker, flush=True)
    busy.result(timeout=60)
"""


@pytest.mark.parametrize("killed", ["batch", "worker"])
def test_a_worker_ends_in_the_middle_of_its_work(killed):
    command = [sys.executable, "-c", BUSY]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as parent:
        worker = psutil.Process(int(parent.stdout.readline()))
        parent.kill() if killed == "batch" else worker.terminate()
        is_told = b"BrokenProcessPool" in parent.stderr.read()
    worker.wait(60)
    assert is_told == (killed == "worker")


# --- Dask --------------------------------------------------------------------


@pytest.mark.parametrize("address", ["nowhere", "127.0.0.1:x", "", "x://"])
def test_dask_needs_a_scheduler(address):
    pytest.importorskip("distributed")
    with pytest.raises(ValueError, match="must be the address of a running"):
        dask.cluster(address, 1).__enter__()


@contextmanager
def cluster(workers, processes=False):
    """Start a scheduler with workers; yield its address."""
    distributed = pytest.importorskip("distributed")
    how = {"n_workers": workers, "threads_per_worker": 1, "protocol": "tcp"}
    how |= {"processes": processes, "dashboard_address": None}
    with distributed.LocalCluster(**how) as started:
        yield started.scheduler_address


def test_dask_needs_workers(klass, grade_all):
    with cluster(workers=0) as address:
        pool = partial(dask.cluster, address.removeprefix("tcp://"))
        with pytest.raises(ValueError, match="must name a cluster with work"):
            grade_all(klass("a"), pool=pool)


@pytest.mark.parametrize("processes", exhaustive_but([False], [False, True]))
def test_a_cluster_grades_as_this_machine_does(processes, klass, grade_all):
    submissions = klass("a", "b", "c")
    with cluster(workers=2, processes=processes) as address:
        pool = partial(dask.cluster, address)
        there = grade_all(submissions, out="there", pool=pool)
    here = grade_all(submissions, out="here")
    assert {*there} == {*here}
    assert all(x.points for x in here)
