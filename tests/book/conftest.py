"""The built book, served on this machine, and a browser to read it with."""

import functools
import http.server
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BOOK = ROOT / "_build" / "html"
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync"
)


def chromium():
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((path for n in names if (path := shutil.which(n))), None)


def build(source, target, **environment):
    """Build the book as make does; returns what the builder said."""
    command = [sys.executable, "-c"]
    command += ["from jupyter_book.cli.main import main; main()", "build"]
    command += [str(source), "-q", "-W", "-n", "--keep-going"]
    command += ["--path-output", str(target)]
    done = subprocess.run(
        command,
        cwd=source,
        env={**os.environ, "PYTHONUTF8": "1", **environment},
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="session")
def book():
    """The folder of the built pages: `make test` builds them first."""
    if not (BOOK / "index.html").exists():
        status, said = build(ROOT, ROOT)
        assert status == 0, said[-4000:]
    return BOOK


@pytest.fixture(scope="session")
def address(book):
    """The book on a port of this machine."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

    handler = functools.partial(Quiet, directory=str(book))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.fixture(scope="module")
def browser():
    """Headless Chromium of the system; skipped where there is none."""
    path = chromium()
    if path is None:
        pytest.skip("no Chromium is installed")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as started:
        running = started.chromium.launch(
            executable_path=path, args=FLAGS.split()
        )
        yield running
        running.close()
