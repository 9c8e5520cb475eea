"""Isolation keeps files, processes and the network from a notebook.

The probes are cells: there is no rule inside Python that would stop them.
"""

import os
import shutil
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
from attn.grading.sandbox.requests import Begin, Cell
from attn.grading.sandbox.sandbox import CellDied, Died, Sandbox

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="isolation needs Linux"
)
IMPORTS = "import builtins, importlib, os, signal, socket, sys, time\n"
HAS_BUBBLEWRAP = shutil.which("bwrap") and not isolation._complaint()


@pytest.fixture(scope="module", params=isolation.KINDS)
def sandbox(request):
    if request.param == "bubblewrap" and not HAS_BUBBLEWRAP:
        pytest.skip("bubblewrap: not on this machine")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ATTN_SECRET", "a token")
        opened = Sandbox(request.param)
    opened.kind = request.param
    yield opened
    opened.close()


def run_probe(sandbox, code, *, limits=None, timeout=30.0):
    """Run a probe; return the session, and what it assigned to ``result``."""
    session = sandbox.start_session(limits or Limits())
    session.run(Begin({}, f"{IMPORTS}result = None"))
    session.run(Cell(1, textwrap.dedent(code)))
    session.run(Cell(2, "def probe():\n    return result"))
    with session.check("probe", "function", {}, timeout) as answer:
        outcome = answer.defined()
        if outcome.error is None:
            outcome = answer.run(None, Case(""))
    return session, outcome


def probe(sandbox, code, **options):
    """Return what a probe assigned to ``result``."""
    session, outcome = run_probe(sandbox, code, **options)
    session.close()
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
    names = ("attn.functional", "attn.exercises.spec", "solutions")
    imports = [f"importlib.import_module({name!r})" for name in names]
    modules = "result = sorted(sys.modules)"
    stand_ins = "result = [type(x).__name__ for x in (" + ", ".join(
        x for x in imports if "attn" in x
    )
    assert {*probe(sandbox, f"{stand_ins})]")} == {"MissingModule"}
    outside = tried("importlib.import_module('solutions')")
    assert probe(sandbox, outside) == ["ModuleNotFoundError"]
    loaded = probe(sandbox, modules)
    assert not [x for x in loaded if x.startswith(("attn.fun", "solutions"))]
    assert not [x for x in loaded if "diagnosis" in x or "exercises.w" in x]
    if sandbox.kind == "bubblewrap":
        for folder in files.answers():
            lists = f"result = os.path.exists({str(folder)!r}) and os.listdir("
            assert not probe(sandbox, f"{lists}{str(folder)!r})"), folder


def test_the_sandbox_has_no_network(sandbox):
    needs_bubblewrap(sandbox)
    with socket.create_server(("127.0.0.1", 0)) as server:
        at = server.getsockname()
        assert socket.create_connection(at)
        connect = f"socket.create_connection({at!r}, 2)"
        assert probe(sandbox, tried(connect)) != ["done"]


def test_the_memory_of_other_processes_cannot_be_read(sandbox):
    needs_bubblewrap(sandbox)
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


def test_files_can_be_written_only_where_they_vanish(sandbox, tmp_path):
    needs_bubblewrap(sandbox)
    places = ["/tmp/x", "/x", str(tmp_path / "x"), __file__, os.__file__]
    opens = [f"builtins.open({x!r}, 'a')" for x in places]
    assert "done" not in probe(sandbox, tried(*opens))
    assert not (tmp_path / "x").exists()
    writes = "builtins.open('x', 'a').write('a'), os.mkdir('y')"
    assert probe(sandbox, tried(writes)) == ["done"]
    assert probe(sandbox, "result = os.listdir('.')") == []
    fills = "builtins.open('x', 'wb').write(bytes(20 << 20))"
    assert probe(sandbox, tried(fills)) == ["OSError"]


def test_the_machines_name_is_not_told(sandbox):
    needs_bubblewrap(sandbox)
    assert probe(sandbox, "result = os.uname().nodename") == "sandbox"
    assert os.uname().nodename != "sandbox"


def test_the_environment_holds_no_secret(sandbox):
    names = probe(sandbox, "result = ' '.join(os.environ)")
    assert "ATTN_SECRET" not in names
    needs_bubblewrap(sandbox)
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
    for code, how in (("os._exit(3)", "status 3"), ("os.abort()", "signal")):
        session = sandbox.start_session(Limits())
        with pytest.raises(CellDied, match=how) as died:
            session.run(Cell(7, f"import os\nx = 1\n{code}"))
        assert (died.value.cell, died.value.statement) == (7, 2)
    answer = "def probe():\n    {}"
    for line, kind in (("os._exit(3)", Died), ("time.sleep(60)", OutOfTime)):
        session = sandbox.start_session(Limits())
        session.run(Begin({}, IMPORTS + answer.format(line)))
        with session.check("probe", "function", {}, 0.5) as forked:
            assert forked.defined().error is None
            error = forked.run(None, Case("")).error
            assert type(error) is kind
            assert forked.run(None, Case("")).error is error
        assert session.run(Cell(1, "x = 1")) == ([], pytest.approx(0, abs=1))
        session.close()


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
    folder = os.path.join(sandbox._folder.name, "attn")
    inside = {
        os.path.relpath(os.path.join(path, name), folder)
        for path, _, names in os.walk(folder)
        for name in names
        if "__pycache__" not in path
    }
    assert inside == {*files.FILES, "__init__.py"}


def test_an_unknown_kind_of_isolation_is_an_error():
    with pytest.raises(ValueError, match="isolation must be one of"):
        Sandbox("chroot")


def test_without_bubblewrap_it_refuses_and_says_what_to_install(monkeypatch):
    monkeypatch.setattr(isolation.shutil, "which", lambda _: None)
    monkeypatch.setattr(
        isolation, "_complaint", isolation._complaint.__wrapped__
    )
    with pytest.raises(ValueError, match="apt install bubblewrap") as refused:
        Sandbox()
    assert "\n" not in str(refused.value)
    assert "--isolation none" in str(refused.value)
    monkeypatch.setattr(isolation.sys, "platform", "darwin")
    with pytest.raises(ValueError, match="Dockerfile"):
        isolation.require("bubblewrap")
    isolation.require("none")


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
