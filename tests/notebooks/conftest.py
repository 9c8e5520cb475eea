"""Only committed chapters are tested; kernels may start prefork."""

import fcntl
import json
import os
import socket
import subprocess
import sys
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path

import pytest

from attn.exercises import CHAPTERS, sources
from attn.publishing import notebooks
from tests.notebooks import learners, prefork


@pytest.fixture(autouse=True)
def only_committed_chapters(request):
    """Skip where somebody has written in the chapter that is needed."""
    call = getattr(request.node, "callspec", None)
    needed = call.params.get("key") if call else None
    for key in [needed] if needed else CHAPTERS:
        if edited := edited_in(key):
            name = sources.notebook_path(key).name
            pytest.skip(
                f"yours: {edited} edited, not tested; score them with "
                f"pytest --nbval notebooks/{name}"
            )


@cache
def edited_in(key):
    """How many stubs of a chapter are not as they were."""
    path = sources.notebook_path(key)
    return len(notebooks.edited_stubs(notebooks.read(path)))


@contextmanager
def started(folder, name, **environment):
    """Yield the socket of a process that has imported what a kernel imports.

    It is one for all workers: the first starts it, and it ends with the last.
    """
    address = str(folder / name)
    with (
        socket.socket(socket.AF_UNIX) as user,
        open(address + ".lock", "w") as lock,
    ):
        fcntl.flock(lock, fcntl.LOCK_EX)
        if user.connect_ex(prefork.users_of(address)):  # not there, or dead
            for stale in (address, prefork.users_of(address)):
                Path(stale).unlink(missing_ok=True)
            server = ["-m", "tests.notebooks.prefork", "serve", address]
            process = subprocess.Popen(
                [sys.executable, *server],
                stdout=subprocess.PIPE,
                start_new_session=True,
                env={**os.environ, **environment},
            )
            assert process.stdout.readline() == b"ready\n"
            user.connect(prefork.users_of(address))
        fcntl.flock(lock, fcntl.LOCK_UN)
        yield address


@pytest.fixture(scope="session")
def shared(tmp_path_factory, worker_id):
    """A folder of all workers."""
    folder = tmp_path_factory.getbasetemp()
    return folder if worker_id == "master" else folder.parent


@pytest.fixture(scope="session")
def server(shared):
    with started(shared, "prefork") as address:
        yield address


#: A real start of pytest and kernel costs six seconds of imports, a fork
#: (prefork.py) a tenth. In `make test` one chapter starts really, in test-all
#: every one.
STARTS = ["prefork", pytest.param("real", marks=pytest.mark.exhaustive)]


@pytest.fixture(params=STARTS)
def nbval(request):
    """``pytest --nbval`` on a notebook or a folder of them."""
    if request.param == "real" or sys.platform != "linux":
        return learners.pytest_nbval
    python = request.getfixturevalue("prefork_kernels")
    return partial(learners.pytest_nbval, python=python)


@pytest.fixture
def prefork_kernels(server, tmp_path_factory, monkeypatch):
    """The kernels that this process starts come from the server."""
    return kernels_from(server, tmp_path_factory, monkeypatch)


def kernels_from(server, tmp_path_factory, monkeypatch):
    """Have a server start this process's kernels; return its ``python -m``."""
    python = [sys.executable, "-S", "-E", prefork.__file__, "run", server]
    folder = tmp_path_factory.mktemp("jupyter")
    kernel = folder / "kernels" / "python3"
    kernel.mkdir(parents=True)
    launch = [*python, "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {"argv": launch, "display_name": "prefork", "language": "python"}
    (kernel / "kernel.json").write_text(json.dumps(spec))
    monkeypatch.setenv("JUPYTER_PATH", str(folder))
    return python


@pytest.fixture
def offline(browser):
    """Open a page without the network: it asks for nothing, and is quiet."""
    said, asked, contexts = [], [], []

    def open_page(**how):
        contexts.append(browser.new_context(offline=True, **how))
        tab = contexts[-1].new_page()
        tab.on("console", lambda x: said.append(x.text))
        tab.on("pageerror", lambda x: said.append(str(x)))
        tab.on("request", lambda x: asked.append(x.url))
        return tab

    yield open_page
    for context in contexts:
        context.close()
    assert said == []
    assert [x for x in asked if not x.startswith(("file:", "about:"))] == []
