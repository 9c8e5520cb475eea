"""Isolation keeps files, processes and the network from a notebook.

The probes are cells: there is no rule inside Python that would stop them.
"""

import os
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from attn.exercises.case import Case
from attn.grading.checks.clock import OutOfTime
from attn.grading.sandbox import isolation, server
from attn.grading.sandbox.requests import Cell, Check
from attn.grading.sandbox.sandbox import Sandbox
from attn.grading.sandbox.session import CellDied, Died
from tests.grading.sandbox.conftest import left_running, running, settled

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="isolation needs Linux"
)
IMPORTS = "import builtins, importlib, os, signal, socket, sys, time\n"
PROBE = Check("probe", "function", {})


@pytest.fixture(scope="module", params=isolation.KINDS)
def sandbox(request):
    if request.param == "bubblewrap" and isolation.complaint():
        pytest.skip("bubblewrap: not on this machine")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ATTN_SECRET", "a token")
        opened = Sandbox(request.param)
    opened.kind = request.param
    yield opened
    opened.close()


def probe(sandbox, code, **limits):
    """Return what a probe assigned to ``result``."""
    with sandbox.start_session(**limits) as session:
        session.give(f"{IMPORTS}result = None")
        session.run(Cell(1, textwrap.dedent(code)))
        session.run(Cell(2, "def probe():\n    return result"))
        with session.check(PROBE, 30.0) as answer:
            outcome = answer.run(None, Case(""))
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


def needs_bubblewrap(sandbox):
    if sandbox.kind != "bubblewrap":
        pytest.skip("only bubblewrap promises it")


def test_the_sandbox_runs_an_answer(sandbox):
    assert probe(sandbox, "result = 6 * 7") == 42


def test_the_books_answers_can_be_neither_imported_nor_read(sandbox):
    """Not imported, not importable, and where possible not in a file."""
    stand_ins = """
        result = []
        for name in ('attn.functional', 'attn.exercises.spec'):
            result.append(type(importlib.import_module(name)).__name__)
    """
    assert {*probe(sandbox, stand_ins)} == {"MissingModule"}
    outside = tried("importlib.import_module('solutions')")
    assert probe(sandbox, outside) == ["ModuleNotFoundError"]
    loaded = probe(sandbox, "result = sorted(sys.modules)")
    assert not [x for x in loaded if x.startswith(("attn.fun", "solutions"))]
    assert not [x for x in loaded if "diagnosis" in x or "exercises.w" in x]
    if sandbox.kind == "bubblewrap":
        for folder in isolation.answers():
            lists = f"result = os.path.exists({str(folder)!r}) and os.listdir("
            assert not probe(sandbox, f"{lists}{str(folder)!r})"), folder


def test_the_sandbox_holds_the_listed_files_and_no_others(sandbox):
    folder = Path(sandbox._folder.name, "attn")
    files = [x for x in folder.rglob("*") if x.is_file()]
    names = {str(x.relative_to(folder)) for x in files}
    assert names == {*isolation.FILES, "__init__.py"}


def test_the_sandbox_has_no_network(sandbox):
    needs_bubblewrap(sandbox)
    with socket.create_server(("127.0.0.1", 0)) as server:
        at = server.getsockname()
        assert socket.create_connection(at)
        connect = f"socket.create_connection({at!r}, 2)"
        assert probe(sandbox, tried(connect)) != ["done"]


def test_files_can_be_written_only_where_they_vanish(sandbox, tmp_path):
    needs_bubblewrap(sandbox)
    places = ["/tmp/x", "/x", "/dev/x", str(tmp_path / "x")]
    places += [__file__, os.__file__, "/proc/sys/kernel/core_pattern"]
    opens = [f"builtins.open({x!r}, 'a')" for x in places]
    assert "done" not in probe(sandbox, tried(*opens))
    assert not (tmp_path / "x").exists()
    writes = "builtins.open('x', 'a').write('a'), os.mkdir('y')"
    assert probe(sandbox, tried(writes)) == ["done"]
    assert probe(sandbox, "result = os.listdir('.')") == []
    fills = "builtins.open('x', 'wb').write(bytes(20 << 20))"
    assert probe(sandbox, tried(fills)) == ["OSError"]


def test_neither_the_machines_name_nor_a_secret_is_told(sandbox):
    names = probe(sandbox, "result = ' '.join(os.environ)")
    assert "ATTN_SECRET" not in names
    needs_bubblewrap(sandbox)
    assert probe(sandbox, "result = os.uname().nodename") == "sandbox"
    assert os.uname().nodename != "sandbox"


def test_other_processes_are_neither_seen_nor_read(sandbox):
    needs_bubblewrap(sandbox)
    looks = """
        every, result = [x for x in os.listdir('/proc') if x.isdigit()], []
        for x in {*every} - {os.readlink('/proc/self')}:
            for name in ('mem', 'environ'):
                try:
                    result.append(builtins.open(f'/proc/{x}/{name}', 'rb'))
                except OSError:
                    pass
        result = [*map(int, every)], len(result)
    """
    seen, read = probe(sandbox, looks)
    assert os.getpid() not in seen and not read


def test_processes_started_by_an_answer_end_with_its_session(sandbox):
    before = running()
    starts = """
        for _ in range(3):
            if os.fork() == 0:
                os.setsid()
                os.fork()
                os._exit(time.sleep(600) or 0)
    """
    session = sandbox.start_session()
    session.give(IMPORTS)
    session.run(Cell(1, textwrap.dedent(starts)))
    # They start after the cell's end, and its guard ends last.
    assert not settled(lambda: len(running() - before) < 6)
    session.close()
    assert not left_running(before)


def test_memory_and_the_size_of_a_file_are_limited(sandbox):
    small = tried("bytearray(1 << 30)")
    assert probe(sandbox, small, memory=512 << 20) == ["MemoryError"]
    code = """
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        result = os.write(os.memfd_create("x"), bytes(65 << 20))
    """
    assert probe(sandbox, code) == 64 << 20


def test_a_process_that_dies_is_reported_apart_from_a_slow_one(sandbox):
    for code, how in (("os._exit(3)", "status 3"), ("os.abort()", "signal")):
        session = sandbox.start_session()
        with session, pytest.raises(CellDied, match=how) as died:
            session.run(Cell(7, f"import os\nx = 1\n{code}"))
        assert died.value.note.statement == 2
    answer = "def probe():\n    {}"
    dies, is_slow = "os._exit(3)", "time.sleep(60)"
    for line, kind, left in ((dies, Died, 30), (is_slow, OutOfTime, 0.5)):
        with sandbox.start_session() as session:
            session.give(IMPORTS + answer.format(line))
            with session.check(PROBE, left) as forked:
                assert forked.undefined is None
                error = forked.run(None, Case("")).error
                assert type(error) is kind
                assert forked.run(None, Case("")).error is error
            ran = session.run(Cell(1, "x = 1"))
            assert ran == ([], pytest.approx(0, abs=1))


def test_state_set_by_an_answer_is_absent_from_the_next_session(sandbox):
    leaves = "torch.kept = builtins.kept = 1; os.environ['KEPT'] = '1'"
    looks = "hasattr(torch, 'kept'), hasattr(builtins, 'kept')"
    looks = f"result = {looks}, 'KEPT' in os.environ"
    probe(sandbox, f"import torch; {leaves}")
    assert probe(sandbox, f"import torch; {looks}") == (False,) * 3


def test_without_bubblewrap_it_refuses_and_says_what_to_install(monkeypatch):
    own = isolation.complaint.__wrapped__  # of which nothing is kept
    monkeypatch.setattr(isolation, "complaint", own)
    monkeypatch.setattr(isolation.shutil, "which", lambda _: None)
    with pytest.raises(ValueError, match="apt install bubblewrap") as refused:
        Sandbox()
    assert "\n" not in str(refused.value)
    assert "--isolation none" in str(refused.value)
    monkeypatch.setattr(isolation.sys, "platform", "darwin")
    with pytest.raises(ValueError, match="Dockerfile"):
        isolation.require("bubblewrap")
    isolation.require("none")


def test_a_guard_waits_for_the_end_of_a_process_or_of_its_session():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        with subprocess.Popen(["true"]) as child:
            assert server.ended(child.pid, ours) == 0
        theirs.shutdown(socket.SHUT_WR)
        with subprocess.Popen(["sleep", "60"]) as child:
            assert server.ended(child.pid, ours) == -9
