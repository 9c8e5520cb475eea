"""Python on the page: it judges, is stopped, breaks, and starts again."""

import contextlib
import time
from statistics import median

import pytest

from attn.exercises import sources
from attn.exercises.spec import find
from attn.page.offered import offered
from book.page import build
from book.speed import served

pytestmark = pytest.mark.browser
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
ENDS = """js.close()
run_js("self.close()")
run_js("Object.getPrototypeOf(self).close.call(self)")
js.self.onmessage = js.self.postMessage = None"""
LOADED = ["pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm.gz"]
LOADED += ["python_stdlib.zip", "snapshot.gz", "page.zip"]
IMPORT = "import('/_static/page/engine.mjs').then(x => { window.engine = x })"
START = """async () => {
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
        self.tab.evaluate(IMPORT)
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

    def close(self):
        self.context.close()


@pytest.fixture
def engine(browser, address):
    with contextlib.closing(Engine(browser, address)) as engine:
        yield engine


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


@pytest.mark.exhaustive
def test_a_call_that_never_returns_is_ended_and_python_starts_again(engine):
    engine.start()
    begun = time.monotonic()
    card = engine.check(ENDLESS)
    assert 7 < time.monotonic() - begun < 12
    assert card["state"] == "wrong" and "endless loop" in card["title"]
    assert engine.check(RIGHT)["state"] == "right"


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


@pytest.mark.exhaustive
def test_what_is_stopped_while_it_loads_loads_no_more(engine):
    held = []
    engine.context.route("**/snapshot.gz", lambda x: held.append(x))
    engine.tab.evaluate(IMPORT)
    engine.ask("check", RIGHT)
    engine.tab.wait_for_timeout(500)
    engine.tab.evaluate("() => engine.stop()")
    assert engine.answer()["word"] == "stopped"
    asked = len(engine.asked)
    engine.tab.wait_for_timeout(500)
    assert len(engine.asked) == asked and len(held) == 1
    held[0].abort()
    engine.context.unroute("**/snapshot.gz")
    assert engine.check(RIGHT)["state"] == "right"


@pytest.mark.exhaustive
def test_an_answer_that_ends_python_is_told_so_and_python_starts_again(engine):
    engine.start()
    for answer in (BOTTOMLESS, f"import os\n{RIGHT}\nos._exit(1)"):
        card = engine.check(answer)
        assert card["state"] == "wrong"
        assert "ended Python itself" in card["title"]
        assert engine.check(RIGHT)["state"] == "right"


@pytest.mark.exhaustive
def test_an_answer_does_not_end_the_worker_or_make_it_deaf_or_dumb(engine):
    engine.start()
    for attempt in ENDS.splitlines():
        answer = f"import js\nfrom pyodide.code import run_js\n{attempt}\n"
        assert engine.check(answer + RIGHT)["state"] == "right", attempt
        assert engine.check(RIGHT)["state"] == "right", attempt


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["worker.mjs", *LOADED])
def test_after_a_file_that_did_not_come_the_next_try_succeeds(engine, name):
    engine.context.route(f"**/{name}", lambda route: route.abort())
    with pytest.raises(Exception, match="press the button again"):
        engine.start()
    engine.context.unroute(f"**/{name}")
    engine.start()
    assert engine.check(RIGHT)["state"] == "right"


@pytest.mark.exhaustive
def test_an_exercise_without_data_is_named_and_python_goes_on(engine):
    engine.start()
    with pytest.raises(Exception, match=r"data/sdp-none\.json\.gz .*\(404\)"):
        engine.check(RIGHT, "sdp-none")
    assert engine.check(RIGHT)["state"] == "right"


@pytest.mark.exhaustive
def test_without_a_network_python_judges_on(engine):
    other = "sdp-attention"  # of the same page
    engine.tab.evaluate(
        "x => import('./engine.mjs').then(engine => engine.preload([x]))",
        other,
    )
    engine.start()
    engine.check(WRONG)
    engine.tab.wait_for_load_state("networkidle")
    engine.context.set_offline(True)
    assert engine.check(RIGHT)["state"] == "right"
    assert engine.check(sources.solution(other), other)["state"] == "right"


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


def bare_start(browser):
    """Seconds to a first result of Pyodide as npm brings it."""

    def script(route):
        route.fulfill(body=BARE, content_type="text/javascript")

    with (
        served(build.PYODIDE) as bare,
        contextlib.closing(browser.new_context()) as context,
    ):
        context.route("**/bare.mjs", script)
        tab = context.new_page()
        tab.goto(f"{bare}/package.json")
        return tab.evaluate(TO_TWO) / 1000


@pytest.mark.exhaustive
@pytest.mark.serial
def test_the_first_verdict_comes_within_1_4_of_a_bare_start(browser, address):
    ratios = []
    for _ in range(3):
        start = bare_start(browser)
        with contextlib.closing(Engine(browser, address)) as engine:
            begun = time.monotonic()
            engine.start()
            assert engine.check(RIGHT)["state"] == "right"
            ratios.append((time.monotonic() - begun) / start)
    assert median(ratios) <= 1.4, ratios


@pytest.mark.exhaustive
@pytest.mark.serial
def test_checks_take_a_tenth_of_a_bare_start_at_most_a_third(browser, engine):
    start, seconds = bare_start(browser), {}
    engine.start()
    for name in offered():
        begun = time.monotonic()
        engine.check(sources.solution(name), name)
        seconds[name] = time.monotonic() - begun
    assert median(seconds.values()) <= start / 10, (start, seconds)
    assert max(seconds.values()) <= start / 3, (start, seconds)


@pytest.mark.exhaustive
def test_a_browser_says_what_check_says(engine):
    """Of every solution, and of a mistake of each exercise."""
    engine.start()
    others = {}
    for name in offered():
        answers = sources.solution(name), find(name).mistakes[0].source
        cards = [engine.check(answer, name) for answer in answers]
        if [card["state"] for card in cards] != ["right", "wrong"]:
            others[name] = [card["title"] for card in cards]
    assert not others, str(others)
