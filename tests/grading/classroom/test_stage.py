"""The stage: a chapter runs with any answers in it, and always ends."""

import json
import os
import subprocess
import sys
from pathlib import Path

import nbformat
import psutil
import pytest

from attn.data.book import root
from attn.exercises import CHAPTERS, sources
from attn.exercises.cells import checked_id, exercise_id, points
from attn.grading.classroom import stage
from attn.grading.classroom.result import Mark, Run
from attn.grading.sandbox import isolation
from attn.publishing import notebooks
from tests.notebooks.learners import short

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux only")
CODE = nbformat.v4.new_code_cell


def marked(names, passed=True):
    """Return a mark for each exercise, all passed or all wrong."""
    status = "passed" if passed else "wrong"
    return [Mark(name, passed, 1, status) for name in names]


def play(*before, after=(), passed=True, timeout=60):
    """Run cells on the stage, before and after ``check("sdp-softmax")``."""
    chapter = notebooks.read(sources.notebook_path("sdp"))
    check = next(c for c in chapter.cells if checked_id(c) == "sdp-softmax")
    start = CODE(
        "import os, torch\nfrom torch import Tensor\n"
        "from attn.grading import check"
    )
    before, after = map(CODE, before), map(CODE, after)
    cells = [start, *before, check, *after]
    notebook = nbformat.v4.new_notebook(cells=cells)
    return stage.play(notebook, marked(["sdp-softmax"], passed), timeout)


def left_alone(word):
    """Return the processes of this machine that name a word."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        line = " ".join(process.info["cmdline"] or [])
        if word in line:
            found.append(line)
    return found


def test_answers_take_the_place_of_stubs_and_of_nothing_else():
    before = notebooks.read(sources.notebook_path("sdp"))
    answer = {"sdp-softmax": "x = '\N{SNOWMAN}'\x00\n%%bash", "sdp-other": "?"}
    after = stage.spliced(notebooks.read(sources.notebook_path("sdp")), answer)
    changed = [
        (exercise_id(b), a.source)
        for b, a in zip(before.cells, after.cells, strict=True)
        if a != b
    ]
    assert changed == [("sdp-softmax", answer["sdp-softmax"])]


def answers(key):
    """Return a chapter's solutions, as a learner hands them in."""
    names = points(notebooks.read(sources.notebook_path(key)))
    return {name: sources.solution(name) for name in names}


def test_solved_exercises_run_without_a_failed_cell():
    cells = answers("flash")
    run = stage.play(stage.spliced(short("flash"), cells), marked(cells), 60)
    assert run == Run("ran", run.cells, 0)
    assert run.cells > 2 * len(cells)


def solved(key):
    return stage.run(key, answers(key), marked(answers(key)), 600)


@pytest.mark.exhaustive
@pytest.mark.parametrize("key", CHAPTERS)
def test_a_solved_chapter_runs_without_a_failed_cell(key):
    run = solved(key)
    assert run == Run("ran", run.cells, 0)


@pytest.mark.exhaustive
@pytest.mark.parametrize("key", CHAPTERS)
def test_an_unsolved_chapter_fails_in_its_answers_and_checks_alone(key):
    """The solutions take the place of answers that do not even compile."""
    names = points(notebooks.read(sources.notebook_path(key)))
    cells = dict.fromkeys(names, "def nothing(:")
    run = stage.run(key, cells, marked(names, passed=False), 600)
    assert (run.status, run.failed) == ("ran", 2 * len(names))


def test_a_wrong_answer_is_replaced_after_its_check_and_a_right_one_stays():
    half = ["assert softmax(torch.zeros(2), 0)[0] == 0.5"]
    wrong = "def softmax(x, dim):\n    return x"
    assert play(wrong, after=half, passed=False) == Run("ran", 4, 1)
    assert play(wrong, after=half, passed=True) == Run("ran", 4, 1)


def test_it_sees_no_answer_writes_nowhere_and_has_no_network():
    if isolation.kind() == "limits":
        pytest.skip("neither bubblewrap nor namespaces here")
    package = Path(sources.__file__).parent
    answers = [str(root() / "solutions"), str(package / "sdp")]
    cells = [
        f"assert [os.listdir(x) for x in {answers}] == [[], []]",
        "import attn.exercises.triton_compat, attn.exercises.guard",
        """
places = [os.path.dirname(x) for x in (os.getcwd(), torch.__file__)]
for place in [*places, "/", "/tmp", "/usr", "/var/tmp", "/dev", "/home"]:
    try:
        open(f"{place}/mine", "w")
    except OSError:
        continue
    raise AssertionError(place)
try:
    open("/proc/sys/kernel/core_pattern", "w")
except OSError:
    pass
else:
    raise AssertionError("/proc")
""",
        "open('mine', 'w').write('here it may')",
        """
import socket
sock = socket.socket()
sock.settimeout(2)
try:
    sock.connect(("192.0.2.1", 80))
except OSError as error:
    assert "unreachable" in str(error), error
""",
        """
import psutil
about = [" ".join(x.cmdline()) for x in psutil.process_iter()]
assert len(about) < 12 and not any("pytest" in x for x in about), about
""",
        "assert 'SECRET' not in os.environ",
        "import ctypes\n"
        "assert ctypes.CDLL(None).mount(b'x', b'/tmp', b'tmpfs', 0, None)",
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SECRET", "of the teacher's")
        run = play(*cells)
    assert run == Run("ran", len(cells) + 2, 0)


#: A line that the server would send, written to every socket it may be.
FORGES = """
import socket
for number in map(int, os.listdir("/proc/self/fd")):
    try:
        one = socket.socket(fileno=os.dup(number))
        if one.family == socket.AF_UNIX:
            one.send(b'{"end": "time", "cells": ""}' + bytes([10]))
    except OSError:
        pass
"""
#: What a cell does, and the status of the run; "" where either is right.
ENDS = {
    "its kernel ends": ("os._exit(0)", "died"),
    "it speaks for the server": (FORGES, "ran"),
    "it kills all that it can": ("os.kill(-1, 9)", "died"),
}
MORE_ENDS = {
    "it forks for ever": ("while True:\n    os.fork()", ""),
    "it loops": ("while True:\n    pass", "out of time"),
    "its kernel crashes": ("import ctypes; ctypes.string_at(0)", "died"),
    "it prints for ever": ("while True:\n    print('x' * 10**6)", ""),
    "it forges the count": (
        "open('cells', 'w').write('.' * 10**6); os._exit(0)",
        "died",
    ),
    "it links the count to a file": (
        "os.remove('cells'); os.symlink('/etc/mime.types', 'cells')",
        "died",
    ),
    "it puts a pipe in the place of the count": (
        "os.remove('cells'); os.mkfifo('cells')",
        "died",
    ),
    "it fills the disk": (
        "for i in range(99):\n    open(str(i), 'wb').write(bytes(10**7))",
        "ran",
    ),
    "it patches nbval": (
        "import nbval.plugin, pytest\n"
        "nbval.plugin.IPyNbCell.runtest = pytest.main = None",
        "ran",
    ),
}
TAKES_ALL = "x = []\nwhile True:\n    x.append('x' * 10**9)"


@pytest.mark.parametrize(
    "what",
    [
        *ENDS,
        *(pytest.param(x, marks=pytest.mark.exhaustive) for x in MORE_ENDS),
    ],
)
def test_whatever_a_cell_does_the_run_ends_and_nothing_is_left(what):
    source, status = (ENDS | MORE_ENDS)[what]
    word = f"left-{os.getpid()}"
    shell = ["sh", "-c", f"sleep 300; echo {word}"]
    daemon = f"import subprocess as s; s.Popen({shell}, start_new_session=1)"
    run = play(daemon, source, timeout=8)
    assert run.status in ([status] if status else ["died", "out of time"])
    assert run.message or run.status == "ran"
    assert left_alone(word) == []


@pytest.mark.exhaustive
def test_memory_is_limited_and_the_next_cell_runs():
    assert play(TAKES_ALL, "x = 0") == Run("ran", 4, 1)


@pytest.mark.exhaustive
@pytest.mark.parametrize("way", isolation.KINDS)
def test_a_chapter_runs_in_every_kind_of_jail(way, monkeypatch):
    monkeypatch.setenv("ATTN_JAIL", way)
    isolation.kind.cache_clear()
    monkeypatch.setattr(stage, "_stages", {})
    try:
        run = solved("sdp")
        assert run == Run("ran", run.cells, 0)
        test_whatever_a_cell_does_the_run_ends_and_nothing_is_left("it loops")
    finally:
        isolation.kind.cache_clear()
        for server in stage._stages.values():
            server.close()


#: A user to whom the system gives no namespaces; root if nobody else.
BARE = ["unshare", "-r", "sh", "-c"]
BARE += ["echo 1 > /proc/sys/user/max_user_namespaces && exec unshare $0 $@"]


@pytest.mark.exhaustive
# Never those that kill or fork: nothing keeps them from the machine.
@pytest.mark.parametrize(
    "what", ["root", "its kernel ends", "it loops", "it forges the count"]
)
def test_without_namespaces_root_runs_nothing_and_nothing_is_left(
    what, monkeypatch
):
    if isolation.kind() == "limits":
        pytest.skip("no user namespace can be made, not even this one")
    monkeypatch.setattr(stage, "_stages", {})
    user = ["-U", f"--map-user={0 if what == 'root' else 1000}"]
    command = [*BARE, *user, *isolation.command(stage.SERVER, way="limits")]
    monkeypatch.setattr(stage, "_command", lambda _: command)
    try:
        if what == "root":
            run = play("x = 0")
            assert run.status == "not run" and "as root" in run.message
            return
        assert play("x = 0") == Run("ran", 3, 0)
        test_whatever_a_cell_does_the_run_ends_and_nothing_is_left(what)
        assert play("x = 0") == Run("ran", 3, 0)
    finally:
        for server in stage._stages.values():
            server.close()


def test_a_server_that_ends_is_a_death_and_the_next_one_starts(monkeypatch):
    monkeypatch.setattr(stage, "_stages", {})
    ends = ["sh", "-c", "echo ready >&0; read task; sleep 0.2"]
    monkeypatch.setattr(stage, "_command", lambda _: ends)
    run = play()
    assert (run.status, run.cells) == ("died", 0)
    assert stage._stages == {}


POOL = """
import os, sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from attn.grading.classroom import stage

def start():
    stage._command = lambda folder: ["cat"]
    return str(stage._Stage().folder)

if __name__ == "__main__":
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        print(pool.submit(start).result())
"""


def test_a_worker_of_a_pool_leaves_no_folder(tmp_path):
    (tmp_path / "pool.py").write_text(POOL)
    ran = subprocess.run(
        [sys.executable, tmp_path / "pool.py"], capture_output=True, text=True
    )
    folder = Path(ran.stdout.strip())
    assert folder.parent == Path("/tmp"), ran.stderr
    assert not folder.exists()


def test_a_text_that_is_no_unicode_does_not_stop_the_run():
    assert play("x = '\ud800'", "x = '\x00'") == Run("ran", 4, 1)


def test_a_stage_that_cannot_start_says_why(
    monkeypatch,
):
    monkeypatch.setattr(stage, "_stages", {})
    broken = ["sh", "-c", "echo no >&2"]
    monkeypatch.setattr(stage, "_command", lambda _: broken)
    run = play()
    assert run == Run("not run", message="the stage did not start: no")
    assert stage._stages == {}


ODD = [
    None,
    [],
    {},
    {"cells": 3, "end": 0},
    {"cells": "..", "end": "1"},
    {"cells": "...", "end": 0},
    {"cells": "..", "end": 2},
    {"cells": "", "end": 0},
    {"cells": "?", "end": 0},
    {"cells": "\u0660.", "end": 0},
    "..",
]


@pytest.mark.parametrize("answer", ODD, ids=json.dumps)
def test_what_is_odd_about_a_result_is_a_death(answer):
    run = stage._read(answer, 2, 5)
    assert run.status == "died"
    assert run.cells <= 2 and run.message
