"""An examiner that compares texts, and graders that end as they are told."""

import atexit
import os
import sys
import time
from functools import cache
from pathlib import Path

from attn.exercises import sources
from attn.grading.classroom.grade import grade
from attn.grading.classroom.result import Mark, Run
from attn.publishing.notebooks import digest


class Examiner:
    """Pass the book's own solutions, and nothing else."""

    isolation = "none: nothing runs"

    def examine(self, key, cells, points):
        for name, worth in points.items():
            status = status_of(name, cells)
            passed = status == "passed"
            message = "" if passed else "it is not the solution"
            yield Mark(name, worth * passed, worth, status, message)


def status_of(exercise, cells):
    if exercise not in cells:
        return "missing"
    text = cells[exercise]
    if digest(text) == digest(sources.solution(exercise)):
        return "passed"
    return "wrong" if text.strip() else "not written"


def rehearse(key, cells, marks, timeout):
    return Run("ran", cells=len(cells), failed=0)


def work(submission, options):
    """Grade; say in a file that it was done, and by which process."""
    log = Path(os.environ["FAKE_LOG"])
    with open(log, "a") as file:
        file.write(f"{submission.name} {os.getpid()}\n")
    if submission.learner == "dies":
        os._exit(9)
    if submission.learner == "exits":
        sys.exit(9)
    if submission.learner == "a-stumbles" and not done_before(log):
        os._exit(9)
    if submission.learner == "sleeps":
        time.sleep(600)
    return grade(submission, options, Examiner(), rehearse)


def judge(submission, options):
    """Grade for real, without the chapter's run."""
    return grade(submission, options, examiner(options.seed), rehearse)


@cache
def examiner(seed):
    """The one of this process."""
    from attn.grading.classroom.examiner import Examiner as Real

    made = Real(seed)
    atexit.register(made.close)
    return made


def done_before(log):
    names = [x.split()[0] for x in log.read_text().splitlines()]
    return sum("a-stumbles" in x for x in names) > 1


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
