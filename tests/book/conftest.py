"""The built book, served on this machine, and a browser to read it with."""

import contextlib
import functools
import os
import sys
import time
from pathlib import Path

import pytest

from book.page import build as answers
from book.speed import served
from tests.book.answering import Page
from tests.conftest import headless
from tests.processes import run

ROOT = Path(__file__).resolve().parents[2]
BOOK = ROOT / "_build" / "html"


def build(source, target, **environment):
    """Build the book as make does; return the status and the output."""
    command = [sys.executable, "-c"]
    command += ["from jupyter_book.cli.main import main; main()", "build"]
    command += [str(source), "-q", "-W", "-n", "--keep-going"]
    command += ["--path-output", str(target)]
    places = {**os.environ, "PYTHONUTF8": "1", **environment}
    done = run(*command, cwd=source, env=places)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="session")
def book():
    """The folder of the built pages: `make test` builds them meanwhile."""
    with contextlib.suppress(KeyError, ProcessLookupError):
        while not os.kill(int(os.environ["BUILDER"]), 0):
            time.sleep(0.2)
    if not (BOOK / "index.html").exists():
        status, output = build(ROOT, ROOT)
        assert status == 0, output[-4000:]
        answers.main(BOOK)
    return BOOK


#: One for all files: none of them runs an event loop of its own.
browser = pytest.fixture(scope="package", name="browser")(headless)


@pytest.fixture(scope="session")
def address(book):
    """The book on a port of this machine."""
    with served(book) as at:
        yield at


SETTLED = """async () => {
    await document.fonts.ready;
    for (let frame = 0; frame < 2; frame++)
        await new Promise(drawn => requestAnimationFrame(drawn))}"""


@functools.cache
def tabs(browser):
    """One context for all visits, and its tabs that none has open.

    To start another's process takes as long as a page. What a page stores is
    gone when its visit ends, and so is what was emulated and listened to.
    """
    return browser.new_context(), []


class Visit:
    """One page as it opened: what it asked for, and what it complained of."""

    def __init__(
        self, browser, address, page, theme="light", width=1280, asked=""
    ):
        context, self._idle = tabs(browser)
        self.tab = self._idle.pop() if self._idle else context.new_page()
        self.tab.set_viewport_size({"width": width, "height": 900})
        usual = {"media": "null", "reduced_motion": "null"}
        self.tab.emulate_media(color_scheme=theme, **usual)
        self.complaints, self.outside = [], []
        self._heard = {"console": self._said, "request": self._asked}
        self._heard["pageerror"] = lambda e: self.complaints.append(str(e))
        for event, handler in self._heard.items():
            self.tab.on(event, handler)
        self.home, self.page = address, page
        self.tab.goto(f"{address}/{page}.html{asked}", wait_until="load")
        self.tab.evaluate(SETTLED)

    def _said(self, message):
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def _asked(self, request):
        if not request.url.startswith((self.home, "data:", "blob:")):
            self.outside.append(request.url)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.tab.evaluate("localStorage.clear(), sessionStorage.clear()")
        for event, handler in self._heard.items():
            self.tab.remove_listener(event, handler)
        self.tab.unroute_all()
        is_served = self.home.startswith("http")  # of one site: one process
        self.tab.goto(f"{self.home}/no page" if is_served else "about:blank")
        self._idle.append(self.tab)


@pytest.fixture
def without_javascript(browser, address):
    """Open pages where no script runs."""
    with contextlib.ExitStack() as stack:

        def open_page(page, **how):
            context = browser.new_context(java_script_enabled=False, **how)
            stack.callback(context.close)
            tab = context.new_page()
            tab.goto(f"{address}/{page}.html")
            return tab

        yield open_page


@pytest.fixture
def visit(browser, address):
    return lambda page, **how: Visit(browser, address, page, **how)


@pytest.fixture
def answering(browser, address):
    """Open an exercise on its page."""
    return lambda **how: contextlib.closing(Page(browser, address, **how))
