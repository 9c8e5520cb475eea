"""Submissions are graded by processes of this machine, or by a cluster."""

import operator
import os
import socket
import subprocess
import sys
import time
import types
from concurrent.futures import ThreadPoolExecutor

import pytest

from attn.grading.classroom import batch, pools
from attn.grading.classroom.result import Result
from tests.grading.classroom import fakes


def test_real_workers_grade_and_end(log, klass, grade_all):
    submissions = klass("a", "b")
    results = grade_all(submissions)
    assert all(x.points == x.max_points > 0 for x in results)
    graders = fakes.grader_pids(log)
    assert os.getpid() not in graders
    assert not any(map(fakes.is_running, graders))


def test_a_grader_that_hangs_is_stopped(log, klass, monkeypatch, grade_all):
    monkeypatch.setattr(pools, "_limit", lambda options: 1)
    results = grade_all(klass("a", "sleeps"))
    rows = {x.learner: x for x in results}
    assert rows["a"].points == rows["a"].max_points > 0
    assert "hung" in rows["sleeps"].message
    assert not any(map(fakes.is_running, fakes.grader_pids(log)))


ORPHANS = """
import os, time
from attn.grading.classroom import pools

with pools.processes(2) as (executor, _):
    print(executor.submit(os.getpid).result(), flush=True)
    executor.submit(time.sleep, 600).result()
"""


def test_workers_end_when_their_batch_is_killed():
    command = [sys.executable, "-c", ORPHANS]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as parent:
        worker = int(parent.stdout.readline())
        assert fakes.is_running(worker)
        parent.kill()
    while fakes.is_running(worker):
        time.sleep(0.05)


def test_there_are_as_many_workers_as_cores():
    assert batch.cores() == len(os.sched_getaffinity(0))


# --- Dask --------------------------------------------------------------------


def test_dask_needs_its_package(klass, monkeypatch, grade_all):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ValueError, match="pip install distributed"):
        grade_all(klass("a"), dask="tcp://127.0.0.1:1")


def listening():
    """Listen on a port, in place of a scheduler."""
    return socket.create_server(("127.0.0.1", 0))


@pytest.fixture
def cluster(monkeypatch):
    """Replace Dask by these workers, as far as we use it."""

    def start(workers):
        class Client:
            def __init__(self, address, **_):
                start.addresses.append(address)

            def __enter__(self):
                return self

            def __exit__(self, *_):
                pass

            def nthreads(self):
                return dict.fromkeys(workers, 2)

            def get_executor(self, **_):
                return ThreadPoolExecutor(len(workers))

        fake = types.SimpleNamespace(Client=Client)
        monkeypatch.setitem(sys.modules, "distributed", fake)

    start.addresses = []
    return start


@pytest.mark.parametrize("address", ["nowhere", "127.0.0.1:x", "", "x://"])
def test_dask_needs_a_scheduler(address, klass, cluster, grade_all):
    cluster("ab")
    with pytest.raises(ValueError, match="must be the address of a running"):
        grade_all(klass("a"), dask=address)


def test_dask_needs_workers(klass, cluster, grade_all):
    cluster("")
    with listening() as port:
        address = "127.0.0.1:{1}".format(*port.getsockname())
        with pytest.raises(ValueError, match="must name a cluster with work"):
            grade_all(klass("a"), dask=address)
    assert cluster.addresses == [f"tcp://{address}"]


def test_a_cluster_grades_as_this_machine_does(klass, cluster, grade_all):
    cluster("ab")
    with listening() as port:
        address = "tcp://127.0.0.1:{1}".format(*port.getsockname())
        results = grade_all(klass("a", "b"), dask=address)
    assert cluster.addresses == [address]
    assert sorted(x.learner for x in results) == ["a", "b"]
    assert all(isinstance(x, Result) and x.points for x in results)


@pytest.mark.exhaustive
def test_a_real_cluster_grades(klass, grade_all):
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None
    ) as cluster:
        address = cluster.scheduler_address
        submissions = klass("a", "b", "c")
        there = grade_all(submissions, out="there", dask=address)
    here = grade_all(submissions, out="here")
    by_name = operator.attrgetter("submission")
    assert sorted(there, key=by_name) == sorted(here, key=by_name)
