"""Isolation alone keeps files, processes and the network from an answer.

The probes run as the book's own text, which is neither looked at nor watched,
and are given modules that an answer is not.
"""

import builtins
import importlib
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time

import psutil
import pytest

from attn.exercises.case import Case
from attn.grading.checks.clock import OutOfTime
from attn.grading.sandbox import files, isolation, server
from attn.grading.sandbox.limits import Limits
from attn.grading.sandbox.sandbox import Died, Sandbox
from attn.grading.sandbox.worker import Task

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="isolation needs Linux"
)
GIVEN = {
    x.__name__: x for x in (builtins, importlib, os, signal, socket, sys, time)
}
WAYS = ["bubblewrap", "namespaces", "limits"]


@pytest.fixture(scope="module", params=WAYS)
def sandbox(request, tmp_path_factory):
    if request.param != "limits" and not isolation._works(request.param):
        pytest.skip(f"{request.param}: not on this machine")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ATTN_ISOLATION", request.param)
        patch.setenv("ATTN_SECRET", "a token")
        state = tmp_path_factory.mktemp("state")
        patch.setenv("XDG_STATE_HOME", str(state))
        isolation.kind.cache_clear()
        opened = Sandbox()
        opened.key = files.state_folder() / "seal.key"
        opened.key.write_text("a key")
    isolation.kind.cache_clear()
    opened.way = request.param
    yield opened
    opened.close()


def run_probe(sandbox, code, *, limits=None, timeout=30.0):
    """Run a probe; return the session, and what it assigned to ``result``."""
    inside = sandbox.start_session(limits or Limits(), timeout)
    code = f"result = None\n{textwrap.dedent(code)}"
    answer = "def probe():\n    return result"
    before = [("probe", code, False)]
    task = Task("probe", "function", GIVEN, before, answer, watched=False)
    outcome = inside.define(task)
    if outcome.error is None:
        outcome = inside.run(None, Case(""))
    return inside, outcome


def probe(sandbox, code, **options):
    """Return what a probe assigned to ``result``."""
    inside, outcome = run_probe(sandbox, code, **options)
    inside.close()
    if outcome.error is not None:
        raise outcome.error
    return outcome.output


def tried(*lines):
    """Return a probe of how each statement ends."""
    code = ["result = []"]
    for line in lines:
        code += ["try:", f"    {line}", "    result.append('done')"]
        code += ["except Exception as error:"]
        code += ["    result.append(type(error).__name__)"]
    return "\n".join(code)


def needs(sandbox, *ways):
    if sandbox.way not in ways:
        pytest.skip(f"{sandbox.way} does not promise it")


def test_the_sandbox_runs_an_answer(sandbox):
    assert probe(sandbox, "result = 6 * 7") == 42


def test_the_books_answers_can_be_neither_imported_nor_read(sandbox):
    """Not imported, not importable, and where possible not in a file."""
    names = ("attn.functional", "attn.exercises.spec", "solutions")
    imports = [f"importlib.import_module({name!r})" for name in names]
    modules = "result = sorted(sys.modules)"
    assert set(probe(sandbox, tried(*imports))) == {"ModuleNotFoundError"}
    loaded = probe(sandbox, modules)
    assert not [x for x in loaded if x.startswith(("attn.fun", "solutions"))]
    assert "attn.grading.diagnosis.judge" not in loaded
    if sandbox.way != "limits":
        for folder in files.answers():
            lists = f"result = os.path.exists({str(folder)!r}) and os.listdir("
            assert not probe(sandbox, f"{lists}{str(folder)!r})"), folder


def test_the_sandbox_has_no_network(sandbox):
    needs(sandbox, "bubblewrap", "namespaces")
    with socket.create_server(("127.0.0.1", 0)) as server:
        at = server.getsockname()
        assert socket.create_connection(at)
        connect = f"socket.create_connection({at!r}, 2)"
        assert probe(sandbox, tried(connect)) != ["done"]


def test_the_memory_of_other_processes_cannot_be_read(sandbox):
    needs(sandbox, "bubblewrap", "namespaces")
    looks = """
        result, own = [], os.readlink('/proc/self')
        for x in os.listdir('/proc'):
            try:
                if x.isdigit() and x != own:
                    result.append(builtins.open(f'/proc/{x}/mem', 'rb'))
            except OSError:
                pass
        result = len(result)
    """
    assert probe(sandbox, looks) == 0
    pids = "result = [int(x) for x in os.listdir('/proc') if x.isdigit()]"
    assert os.getpid() not in probe(sandbox, pids)


def test_no_file_can_be_written(sandbox, tmp_path):
    needs(sandbox, "bubblewrap", "namespaces")
    places = ["/tmp/x", "/dev/shm/x", "/x", str(tmp_path / "x"), __file__]
    opens = [f"builtins.open({x!r}, 'a')" for x in places]
    assert "done" not in probe(sandbox, tried(*opens))
    assert not (tmp_path / "x").exists()


def test_the_key_of_the_seals_is_hidden(sandbox):
    needs(sandbox, "bubblewrap", "namespaces")
    reads = f"builtins.open({str(sandbox.key)!r}).read()"
    assert sandbox.key.read_text() == "a key"
    assert probe(sandbox, tried(reads)) == ["FileNotFoundError"]


def test_the_machines_name_is_not_told(sandbox):
    needs(sandbox, "bubblewrap", "namespaces")
    assert probe(sandbox, "result = os.uname().nodename") == "sandbox"
    assert os.uname().nodename != "sandbox"


def test_the_environment_holds_no_secret(sandbox):
    names = probe(sandbox, "result = ' '.join(os.environ)")
    assert "ATTN_SECRET" not in names
    needs(sandbox, "bubblewrap", "namespaces")
    everywhere = """
        result = 0
        for x in os.listdir('/proc'):
            try:
                result += b'ATTN_SECRET' in builtins.open(
                    f'/proc/{x}/environ', 'rb'
                ).read()
            except OSError:
                pass
    """
    assert probe(sandbox, everywhere) == 0


def descendants(sandbox):
    return psutil.Process(sandbox._process.pid).children(recursive=True)


def test_processes_started_by_an_answer_end_with_its_session(sandbox):
    before = {x.pid for x in descendants(sandbox)}
    inside, outcome = run_probe(
        sandbox,
        """
        for _ in range(3):
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    time.sleep(600)
                time.sleep(600)
        """,
    )
    assert outcome.error is None
    for _ in range(100):  # grandchildren start after the answer has ended
        if len(descendants(sandbox)) >= len(before) + 6:
            break
        time.sleep(0.05)
    assert len(descendants(sandbox)) > len(before) + 3
    inside.close()
    for _ in range(100):  # its guard ends last
        left = {x.pid for x in descendants(sandbox)} - before
        if not left:
            break
        time.sleep(0.05)
    assert not left


def test_memory_is_limited(sandbox):
    limits = Limits(memory=512 << 20)
    assert probe(sandbox, tried("bytearray(1 << 30)"), limits=limits) == [
        "MemoryError"
    ]


def test_the_size_of_a_file_is_limited(sandbox):
    code = """
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        result = os.write(os.memfd_create("x"), bytes(1 << 20))
    """
    assert probe(sandbox, code, limits=Limits(file_size=4096)) == 4096


def test_a_process_that_dies_is_reported_apart_from_a_slow_one(sandbox):
    inside, outcome = run_probe(sandbox, "os._exit(3)")
    assert isinstance(outcome.error, Died) and "status 3" in str(outcome.error)
    inside, outcome = run_probe(
        sandbox, "os.kill(os.getpid(), 11)\nos.abort()"
    )
    assert isinstance(outcome.error, Died)
    inside, outcome = run_probe(sandbox, "time.sleep(60)", timeout=0.5)
    assert type(outcome.error) is OutOfTime
    assert inside.run(None, Case("")).error is outcome.error
    inside.close()


def test_state_set_by_an_answer_is_absent_from_the_next_session(sandbox):
    leaves = """
        import torch
        torch.kept = builtins.kept = 1
        os.environ['KEPT'] = '1'
        result = 0
    """
    looks = """
        import torch
        result = hasattr(torch, 'kept') + hasattr(builtins, 'kept')
        result += 'KEPT' in os.environ
    """
    assert probe(sandbox, leaves) == 0
    assert probe(sandbox, looks) == 0


def test_the_sandbox_holds_the_listed_files_and_no_others(sandbox):
    folder = sandbox._folder.name
    inside = {
        os.path.relpath(os.path.join(path, name), os.path.join(folder, "attn"))
        for path, _, names in os.walk(folder)
        for name in names
        if "__pycache__" not in path
    }
    assert inside == {*files.FILES, "__init__.py"}


def test_an_unknown_kind_of_isolation_is_an_error(monkeypatch):
    monkeypatch.setenv("ATTN_ISOLATION", "chroot")
    isolation.kind.cache_clear()
    with pytest.raises(ValueError, match="ATTN_ISOLATION must be one of"):
        isolation.kind()
    isolation.kind.cache_clear()


@pytest.mark.parametrize("as_on", ["linux", "macos"])
def test_a_guard_waits_for_the_end_of_a_process_or_of_its_session(
    monkeypatch, as_on
):
    if as_on == "macos":
        monkeypatch.delattr(os, "pidfd_open")
    ours, theirs = socket.socketpair()
    with ours, theirs, subprocess.Popen(["sleep", "60"]) as child:
        theirs.shutdown(socket.SHUT_WR)
        server.wait(child.pid, ours)
        assert child.poll() is None, "it still runs"
        child.kill()
    ours, theirs = socket.socketpair()
    with ours, theirs, subprocess.Popen(["true"]) as child:
        server.wait(child.pid, ours)
        assert child.wait(5) == 0
