"""Python on the page: it judges, is stopped, breaks, and starts again."""

import contextlib
import json
import re
import time
from pathlib import Path
from statistics import median
from urllib.request import urlopen

import pytest

from book.page import build, node
from book.speed import served
from tests.book.pages import ROOT

EXERCISE = "sdp-softmax"
RIGHT = """def softmax(x, dim=-1):
    e = (x - x.amax(dim, keepdim=True)).exp()
    return e / e.sum(dim, keepdim=True)
"""
WRONG = RIGHT.replace("e.sum(dim, keepdim=True)", "e.sum()")
#: One call of C, in which Python cannot count its own steps.
ENDLESS = "def softmax(x, dim=-1):\n    return sum(iter(int, 1))\n"
#: C that calls itself, which no limit of Python's counts.
BOTTOMLESS = """def softmax(x, dim=-1):
    import sys
    class Deep:
        __repr__ = lambda self: repr([self])
    sys.setrecursionlimit(10**7)
    return repr(Deep())
"""
START = """async () => {
    window.engine = await import("/_static/page/engine.mjs");
    const parts = [];
    await engine.start(part => parts.push(part));
    return parts;
}"""


class Engine:
    """A page without scripts, at the book's address, that starts Python."""

    def __init__(self, browser, address):
        self.context = browser.new_context()
        self.tab = self.context.new_page()
        self.asked = []
        self.tab.on("request", lambda request: self.asked.append(request.url))
        self.tab.goto(f"{address}/_static/page/LICENSES.txt")

    def start(self):
        return self.tab.evaluate(START)

    def check(self, source, exercise=EXERCISE):
        self.ask("check", source, exercise)
        return self.answer()

    def ask(self, what, source, exercise=EXERCISE, *more):
        self.tab.evaluate(
            "([what, ...given]) => { window.asked = engine[what](...given) }",
            [what, exercise, source, *more],
        )

    def answer(self):
        return self.tab.evaluate("() => asked")


@contextlib.contextmanager
def opened(browser, address):
    engine = Engine(browser, address)
    try:
        yield engine
    finally:
        engine.context.close()


@pytest.fixture
def engine(browser, address):
    with opened(browser, address) as engine:
        yield engine


@pytest.mark.browser
def test_python_judges_on_the_page_by_the_books_own_files(engine, address):
    parts = engine.start()
    assert parts == sorted(parts) and parts[0] < 0.5 and parts[-1] == 1
    assert engine.check(RIGHT)["state"] == "right"
    wrong = engine.check(WRONG)
    assert wrong["state"] == "wrong" and wrong["call"]
    engine.ask("evaluate", RIGHT, EXERCISE, "softmax(torch.zeros(2))")
    assert engine.answer()["text"] == "tensor([0.5000, 0.5000])"
    assert engine.check("")["state"] == "calm"
    assert [x for x in engine.asked if not x.startswith(address)] == []


@pytest.mark.browser
@pytest.mark.exhaustive
def test_a_call_that_never_returns_is_ended_and_python_starts_again(engine):
    engine.start()
    begun = time.monotonic()
    card = engine.check(ENDLESS)
    assert 7 < time.monotonic() - begun < 12
    assert card["state"] == "wrong" and "endless loop" in card["title"]
    assert engine.check(RIGHT)["state"] == "right"


@pytest.mark.browser
@pytest.mark.exhaustive
def test_what_the_reader_stops_is_stopped_at_once(engine):
    engine.start()
    engine.ask("check", ENDLESS)
    time.sleep(1)
    engine.tab.evaluate("() => engine.stop()")
    card = engine.answer()
    assert (card["state"], card["word"]) == ("calm", "stopped")
    engine.ask("evaluate", ENDLESS, EXERCISE, "softmax(0)")
    time.sleep(1)
    engine.tab.evaluate("() => engine.stop()")
    assert engine.answer()["error"] == "It was stopped"
    assert engine.check(RIGHT)["state"] == "right"


@pytest.mark.browser
@pytest.mark.exhaustive
def test_an_answer_that_ends_python_is_told_so_and_python_starts_again(engine):
    engine.start()
    card = engine.check(BOTTOMLESS)
    assert card["state"] == "wrong" and "ended Python itself" in card["title"]
    assert engine.check(RIGHT)["state"] == "right"


@pytest.mark.browser
@pytest.mark.exhaustive
def test_a_file_that_does_not_come_is_named_and_the_next_try_succeeds(engine):
    engine.context.route("**/snapshot.gz", lambda route: route.abort())
    with pytest.raises(
        Exception, match=r"snapshot\.gz of this page could not"
    ):
        engine.start()
    engine.context.unroute("**/snapshot.gz")
    engine.start()
    with pytest.raises(Exception, match=r"data/sdp-none\.json\.gz .*404"):
        engine.check(RIGHT, "sdp-none")
    assert engine.check(RIGHT)["state"] == "right"


@pytest.mark.browser
@pytest.mark.exhaustive
def test_without_a_network_python_judges_on(engine):
    engine.start()
    engine.check(WRONG)
    engine.context.set_offline(True)
    assert engine.check(RIGHT)["state"] == "right"


@pytest.mark.browser
@pytest.mark.exhaustive
def test_a_browser_without_what_it_takes_says_so(engine):
    engine.tab.evaluate("delete window.DecompressionStream")
    with pytest.raises(Exception, match="This browser is too old"):
        engine.start()


BARE = """import { loadPyodide } from "/pyodide.mjs";
const python = await loadPyodide({ indexURL: "/" });
postMessage(python.runPython("1 + 1"));
"""
TO_TWO = """() => new Promise(done => {
    const begun = performance.now();
    const worker = new Worker("/bare.mjs", { type: "module" });
    worker.onmessage = () => done(performance.now() - begun);
})"""
TO_A_VERDICT = """async ([exercise, source]) => {
    const begun = performance.now();
    const engine = await import("/_static/page/engine.mjs");
    const card = await engine.check(exercise, source);
    return [performance.now() - begun, card.state];
}"""


@pytest.mark.browser
@pytest.mark.exhaustive
@pytest.mark.serial
def test_the_first_verdict_comes_within_1_4_of_pyodides_bare_start(
    browser, address
):
    def script(route):
        route.fulfill(body=BARE, content_type="text/javascript")

    ratios = []
    with served(build.PYODIDE) as bare:
        for _ in range(3):
            with contextlib.closing(browser.new_context()) as context:
                context.route("**/bare.mjs", script)
                tab = context.new_page()
                tab.goto(f"{bare}/package.json")
                start = tab.evaluate(TO_TWO)
            with opened(browser, address) as engine:
                given = [EXERCISE, RIGHT]
                verdict, state = engine.tab.evaluate(TO_A_VERDICT, given)
            assert state == "right"
            ratios.append(verdict / start)
    assert median(ratios) <= 1.4, ratios


def test_a_server_says_what_a_browser_needs_to_hear_of_the_files(address):
    for name in ("engine.mjs", "pyodide/pyodide.asm.mjs"):
        with urlopen(f"{address}/_static/page/{name}") as answer:
            kind = answer.headers.get_content_type()
        assert kind in ("text/javascript", "application/javascript")


def test_the_book_has_all_that_a_page_may_load(book):
    page = book / "_static" / "page"
    made = {"built.mjs", "page.zip", "snapshot.gz", "LICENSES.txt"}
    made |= {*build.SCRIPTS, *build.BUNDLED, "data", "pyodide"}
    assert {path.name for path in page.iterdir()} == made
    for path in page.rglob("*.*"):
        assert path.stat().st_size > 0, path


def test_the_button_says_the_megabytes_that_python_takes(book):
    page = book / "_static" / "page"
    facts = (page / "built.mjs").read_text("utf-8")
    loaded = [*page.glob("*.zip"), *page.glob("*.gz"), *page.glob("pyodide/*")]
    size = sum(path.stat().st_size for path in loaded) / 1e6
    said = int(re.search(r"megabytes = (\d+)", facts)[1])
    assert size <= said < size + 1 <= 17


def test_what_npm_brings_has_checksums_and_no_address():
    lock = json.loads(node.PINS.read_text("utf-8"))["packages"]
    own, brought = lock.pop(""), lock
    manifest = json.loads((node.HERE / "package.json").read_text("utf-8"))
    assert own["dependencies"] == manifest["dependencies"]
    assert all(x[0].isdigit() for x in own["dependencies"].values())
    assert len(brought) > 20
    for name, package in brought.items():
        assert package["integrity"].startswith("sha512-"), name
        assert "resolved" not in package, name
    assert re.search(
        rf"(?m)^{node.WHEEL}==", (ROOT / "constraints.txt").read_text("utf-8")
    )


def test_a_machine_without_npm_gets_a_wheel(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not node.of_the_machine()
    for version, fits in (("v12.22.9", False), ("v22.1.0", True)):
        for name in ("node", "npm"):
            (tmp_path / name).write_text(f"#!/bin/sh\necho {version}\n")
            (tmp_path / name).chmod(0o755)
        assert node.of_the_machine() is fits


def test_what_takes_seconds_is_made_again_only_where_it_changes(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(build, "KEPT", tmp_path / "kept")
    made = []

    def make():
        made.append(len(made))
        return bytes(made)

    first = build.kept("code", make, b"1", b"2")
    assert build.kept("code", make, b"1", b"2") == first and made == [0]
    again = build.kept("code", make, b"1", b"3")
    assert made == [0, 1]
    assert [*(tmp_path / "kept").iterdir()] == [again] != [first]


def test_the_same_files_make_the_same_archive():
    assert build.archive() == build.archive()
    assert Path(build.HERE / "data" / f"{EXERCISE}.json.gz").exists()
