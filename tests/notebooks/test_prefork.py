"""A forked start is a start: streams, status, folder, signals, the end."""

import os
import subprocess
import sys
import time

import pytest

from tests.notebooks import prefork

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux only")


@pytest.fixture
def start(server, tmp_path):
    """Start a module written here, in ``tmp_path``."""

    def started(source, **options):
        (tmp_path / "written.py").write_text(source)
        python = [sys.executable, "-S", "-E", prefork.__file__, "run", server]
        words = [*python, "written", "one", "two"]
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        how = {**streams, "cwd": tmp_path, "text": True, **options}
        return subprocess.Popen(words, **how)

    return started


def test_it_runs_as_python_would(start, tmp_path):
    source = """
import os, sys
assert __name__ == "__main__" and "torch" in sys.modules
print(sys.argv[1:], input(), os.getcwd(), os.environ["MARK"], sys.path[0])
print("a word", file=sys.stderr)
sys.exit(3)
"""
    process = start(source, env={**os.environ, "MARK": "here"})
    out, err = process.communicate("hello\n")
    where = str(tmp_path)
    assert out == f"['one', 'two'] hello {where} here {where}\n"
    assert (err, process.returncode) == ("a word\n", 3)


@pytest.mark.parametrize(
    ("end", "said"), [("sys.exit('told to')", "told to\n"), ("1 / 0", "ZeroD")]
)
def test_a_signal_arrives_and_what_ends_it_is_printed(start, end, said):
    source = f"""
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: {end})
print("on", flush=True)
time.sleep(60)
"""
    process = start(source)
    assert process.stdout.readline() == "on\n"
    process.terminate()
    _, err = process.communicate(timeout=30)
    assert said in err and process.returncode == 1


def test_it_dies_with_its_parent(start):
    process = start("import os, time; print(os.getpid(), flush=True)\n"
                    "time.sleep(60)")  # fmt: skip
    pid = int(process.stdout.readline())
    process.kill()
    process.communicate()
    for _ in range(300):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    pytest.fail("it lives on")
