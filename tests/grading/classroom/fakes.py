"""An examiner that compares texts, and graders that end on request."""

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import psutil

from attn.exercises import sources
from attn.grading.classroom.grade import Options, grade
from attn.grading.classroom.result import Mark

OPTIONS = Options(seed=7)


class Examiner:
    """Pass the book's own solutions, and nothing else."""

    def examine(self, plan, points):
        for name, worth in points.items():
            status = status_of(name, plan)
            passed = status == "passed"
            message = "" if passed else "it is not the solution"
            more = {"notes": plan.notes.get(name, ())}
            more["code"] = plan.code.get(name, "")
            yield Mark(name, worth * passed, worth, status, message, **more)


def status_of(exercise, plan):
    """Return what a run of a plan would come to, by the texts of its cells."""
    answer = "".join(sources.solution(exercise).split())
    if answer in "".join("".join(x.text for x in plan.own).split()):
        return "passed"
    if exercise in plan.written:
        return "wrong"
    return "not written" if exercise in plan.stubs else "missing"


@contextmanager
def threads(jobs):
    """Grade in this process, which costs no start."""
    yield partial(ThreadPoolExecutor, 1), jobs


def work(submission, options):
    """Grade, and log the submission with the id of the process."""
    path = Path(os.environ["FAKE_LOG"])
    is_first = submission.name not in graded_names(path)
    with open(path, "a") as file:
        file.write(f"{submission.name} {os.getpid()}\n")
    learner = submission.learner
    if learner == "dies" or (learner == "a-stumbles" and is_first):
        os._exit(9)
    if learner == "exits":
        sys.exit(9)
    if learner == "sleeps":
        time.sleep(600)
    return grade(submission, options, Examiner())


def graded_names(log):
    """Return the submissions' names, one for each time it was graded."""
    return [line.split()[0] for line in log.read_text().splitlines()]


def are_running(log):
    """Return whether one of the processes that graded is still there."""
    pids = {line.split()[1] for line in log.read_text().splitlines()}
    return any(psutil.pid_exists(int(x)) for x in pids)
