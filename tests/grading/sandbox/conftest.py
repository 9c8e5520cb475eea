"""One examiner for all attacks, and what they could damage."""

import subprocess
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from attn.grading.classroom import plan
from attn.grading.classroom.examiner import Examiner
from attn.grading.classroom.reading import Cell

SECRET = "the-teachers-password"
SLEEPS = "86417"  # seconds that an attack's processes would sleep


@dataclass
class Victim:
    """Hold a folder and a process of this user, which no answer may reach."""

    folder: Path
    process: subprocess.Popen

    def aimed(self, text: str) -> str:
        """Return an attack with its target filled in."""
        text = text.replace("VICTIM_PID", str(self.process.pid))
        return text.replace("VICTIM", str(self.folder))

    def damage(self) -> list[str]:
        """Describe changes to the folder and process, and what is left."""
        kept = {x.name: x.read_text() for x in self.folder.iterdir()}
        damage = [] if kept == {"kept.txt": "kept"} else [f"files: {kept}"]
        if self.process.poll() is not None:
            damage.append("a process was killed")
        damage += [str(x) for x in Path("/tmp").glob("attn-fill-*")]
        left = settled(_sleeping)  # another worker's may be ending
        return damage + [f"process {pid} is left" for pid in left]


def _sleeping():
    """Return the processes that an attack started."""
    every = psutil.process_iter(["cmdline"])
    return [x.pid for x in every if SLEEPS in (x.info["cmdline"] or ())]


@pytest.fixture(scope="module")
def victim(tmp_path_factory):
    folder = tmp_path_factory.mktemp("victim")
    (folder / "kept.txt").write_text("kept")
    with subprocess.Popen(["sleep", "3600"]) as process:
        yield Victim(folder, process)
        process.kill()


@pytest.fixture(scope="package")
def examiner():
    """Open an examiner that many tests use."""
    with Examiner(20260, memory=2 << 30) as examiner:
        yield examiner


def examined(examiner, key, cells):
    """Return the marks of a submission by exercise, one point for each.

    Args:
        examiner: marks it.
        key: of the chapter.
        cells: by an exercise's id, its cell; by any other name, a cell before
            those that follow it.
    """
    own = plan.points(key)
    document = [
        Cell("code", text, exercise=name if name in own else None)
        for name, text in cells.items()
    ]
    points = defaultdict(lambda: 1.0)
    marks = examiner.examine(plan.planned(document, key), points)
    return {x.exercise: x for x in marks}


def left_running(before):
    """Return the processes below this one that were not there before."""
    return settled(lambda: running() - before)


def running():
    """Return the processes below this one, by id."""
    return {x.pid for x in psutil.Process().children(recursive=True)}


def settled(find):
    """Return what is found: nothing, or what is left after ten seconds."""
    end = time.monotonic() + 10
    while (found := find()) and time.monotonic() < end:
        time.sleep(0.02)
    return found
