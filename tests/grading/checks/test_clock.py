"""Only the time of the learner's code counts, and imports are free."""

import sys
import threading
import time

import pytest
import torch

from attn.exercises.spec import Case, find
from attn.grading.checks import clock as clock_file
from attn.grading.checks.clock import TIME_LIMIT, Clock, OutOfTime
from attn.grading.checks.failures import run_all
from attn.grading.checks.oracle import Oracle
from attn.grading.checks.run import run
from attn.grading.diagnosis.judge import judge

CASE = Case("anything", (torch.arange(6.0).reshape(2, 3),))
SLOW = f"from {__name__} import busy\nend = busy(None, 0.3)"


def busy(x, seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass
    return end


def forever(x):
    while True:
        pass


def stubborn(x):
    while True:
        try:  # noqa: SIM105
            x = x + 1
        except:  # noqa: E722 that is the point
            pass


@pytest.mark.parametrize(
    "endless", [forever, stubborn, lambda x: time.sleep(60)]
)
def test_an_endless_loop_or_sleep_is_stopped_and_reported(endless):
    outcome = run(endless, CASE, clock=Clock(0.02))
    assert isinstance(outcome.error, OutOfTime) and not outcome.shapes_seen
    assert "did not finish within 0.02 s" in str(outcome.error)


def test_imports_do_not_count_but_what_follows_them(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "three_times_the_limit.py").write_text(SLOW)

    def imports(x):
        import three_times_the_limit

        return x if three_times_the_limit.end else None

    clock = Clock(0.1)
    assert run(imports, CASE, clock=clock).error is None
    assert clock.spent < 0.1
    del sys.modules["three_times_the_limit"]
    error = run(lambda x: forever(imports(x)), CASE, clock=Clock(0.1)).error
    assert isinstance(error, OutOfTime)
    del sys.modules["three_times_the_limit"]


def test_the_time_of_other_threads_does_not_count():
    """As on a machine that is busy with other processes."""
    busy = threading.Event()

    def spin():
        while not busy.is_set():
            pass

    def short(x):
        end = time.monotonic() + 0.3
        while time.monotonic() < end:
            time.sleep(0.01)

    others = [threading.Thread(target=spin) for _ in range(2)]
    for thread in others:
        thread.start()
    try:
        clock = Clock(0.2)
        assert run(short, CASE, clock=clock).error is None
        assert clock.spent < 0.2
    finally:
        busy.set()
        for thread in others:
            thread.join()


def test_the_clock_on_the_wall_stops_what_a_learner_waits_for(monkeypatch):
    """A slow machine gives it more time, and so does a grade."""
    for share, part, stops in ((0.3, 0.5, 1), (1, 0.5, 2), (0.3, 0.1, 3)):
        ticks = ((part * x / 10, x / 10) for x in range(200))
        monkeypatch.setattr(clock_file, "_now", ticks.__next__)
        clock = Clock(1.0, share=share)
        clock._last = clock_file._now()
        with pytest.raises(OutOfTime):
            while True:
                clock._tick(0, None)
        assert stops <= clock._waited <= stops + 0.2


def test_the_time_limit_grows_with_the_time_of_the_reference(monkeypatch):
    oracle = Oracle(find("sdp-softmax"), 0)
    assert oracle.time_limit(0) == TIME_LIMIT  # it takes some milliseconds
    monkeypatch.setitem(oracle._seconds, 0, 1.0)
    assert oracle.time_limit(0) == 50.0
    assert oracle.time_limit(1) == TIME_LIMIT


def test_an_answer_that_is_slow_in_every_case_is_accepted(monkeypatch):
    """As a loop over rows and draws is, next to one call of multinomial."""
    monkeypatch.setattr("attn.grading.checks.oracle.TIME_LIMIT", 0.2)

    def slow(x, dim=-1):
        busy(x, 0.05)
        weights = (x - x.amax(dim, keepdim=True)).exp()
        return weights / weights.sum(dim, keepdim=True)

    oracle = Oracle(find("sdp-softmax"), 0)
    assert len(oracle.cases) > 5  # more than all of them together may take
    assert judge(oracle.exercise, slow, oracle=oracle).passed


def test_after_an_endless_loop_no_other_case_runs(monkeypatch):
    monkeypatch.setattr("attn.grading.checks.oracle.TIME_LIMIT", 0.2)
    oracle = Oracle(find("sdp-softmax"), 0)
    (outcome,) = run_all(forever, oracle)
    assert isinstance(outcome.error, OutOfTime)
    start = time.thread_time()
    message = judge(oracle.exercise, forever, oracle=oracle).message
    assert "is there an endless loop?" in message
    assert time.thread_time() - start < 1
