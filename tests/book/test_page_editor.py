"""Write an exercise on its page: the editor, its card, what is kept.

Python's part is played by a function of the test, but for the last one.
"""

import json
import subprocess
import sys

import pytest

from tests.book.conftest import SETTLED, context
from tests.book.pages import ROOT
from tests.book.test_browser import OVERFLOW, serious_violations

pytestmark = pytest.mark.browser

PAGE, EXERCISE = "notebooks/02_scaled_dot_product", "sdp-softmax"
STUB = """def softmax(x: Tensor, dim: int = -1) -> Tensor:
    # YOUR CODE HERE
    raise NotImplementedError"""
ANSWER = """def softmax(x: Tensor, dim: int = -1) -> Tensor:
    e = (x - x.amax(dim, keepdim=True)).exp()
    return e / e.sum(dim, keepdim=True)"""
RIGHT = {"state": "right", "word": "right", "tried": ["27 inputs"]}
WRONG = {
    "state": "wrong",
    "word": "not right yet",
    "label": "this looks like",
    "title": "The sum is over the whole tensor",
    "question": "What should the weights of two rows sum to in all?",
    "condition": "there are several rows of scores",
    "what": "it differs at `[0, 0]`",
    "elements": [["[0, 0]", "0.002299", "0.02938"]],
    "grid": {
        "name": "the matrix",
        "key": "+ too large, . right",
        "columns": [0, 1],
        "rows": [[0, "+."], [1, ".#"]],
    },
    "call": "softmax(x)  # x (3, 5), dim=-1",
    "printed": "<b>mine</b>",
    "line": 2,
}
CALM = {"state": "calm", "word": "not started", "what": "It is a stub."}
ENGINE = """
export const megabytes = 13;
export const canRun = () => "";
export const start = async (onProgress) => {
    onProgress(0.5);
    await window.started?.();
};
export const check = (...about) => window.verdict(...about);
export const evaluate = (...about) => window.value(...about);
"""


class Page:
    """An exercise's editor, and what was asked of Python."""

    def __init__(self, browser, address, page=PAGE, exercise=EXERCISE, **how):
        size = {"width": how.pop("width", 1280), "height": 900}
        self.context = browser.new_context(viewport=size, **how)
        self.tab = self.context.new_page()
        self.tab.set_default_timeout(10_000)
        self.asked, self.verdict, self.value = [], RIGHT, {"text": "1.0"}
        self.complaints, self.home = [], address
        self.tab.on("pageerror", lambda e: self.complaints.append(str(e)))
        self.context.expose_function("verdict", self._check)
        self.context.expose_function("value", self._evaluate)
        self.context.route(
            "**/page/engine.mjs",
            lambda route: route.fulfill(
                body=ENGINE, content_type="text/javascript"
            ),
        )
        self.tab.goto(f"{address}/{page}.html")
        self.find(exercise)

    def find(self, exercise=EXERCISE):
        """Look at the editor of an exercise."""
        place = exercise.replace("_", "-").lower()  # as docutils writes it
        card = self.tab.locator(f"#exercise-{place}")
        card.scroll_into_view_if_needed()
        self.cell = self.tab.locator(f"#exercise-{place} + .cell")
        self.editor = self.cell.locator(".cm-content")
        self.editor.wait_for()
        self.card = self.cell.locator(".answer-card")

    def _check(self, *about):
        self.asked.append(about)
        if isinstance(self.verdict, str):
            raise ValueError(self.verdict)
        return self.verdict

    def _evaluate(self, *about):
        self.asked.append(about)
        return self.value

    def text(self):
        lines = self.editor.locator(".cm-line").all_inner_texts()
        return "\n".join(x.rstrip("\n") for x in lines)

    def write(self, text):
        self.editor.fill(text)

    def button(self, name):
        return self.cell.get_by_role("button", name=name)

    def check(self):
        self.button("Check").click()
        self.card.wait_for()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.context.close()


@pytest.fixture
def page(browser, address):
    return lambda **how: Page(browser, address, **how)


def test_a_wrong_answer_gets_its_card_its_line_and_is_announced(page):
    with page() as seen:
        assert seen.text() == STUB
        assert seen.button("Check").inner_text() == "Check loads 13 MB"
        seen.write(ANSWER)
        seen.verdict = WRONG
        seen.editor.press("Control+Enter")
        seen.card.wait_for()
        assert seen.asked == [(EXERCISE, ANSWER)]
        said = seen.card.inner_text()
        for words in ("title", "question", "condition", "call", "printed"):
            assert WRONG[words] in said
        assert "[0, 0]\t0.002299\t0.02938" in said
        assert seen.card.locator(".answer-grid td.wrong").count() == 1
        assert (
            seen.cell.locator(".answer-line").inner_text()
            == (ANSWER.splitlines()[1])
        )
        spoken = seen.cell.locator(".answer-spoken[role=status]")
        assert WRONG["title"] in spoken.inner_text()
        assert not seen.tab.get_by_label(f"done: {EXERCISE}").is_checked()
        assert seen.button("Check").inner_text() == "Check"
        seen.editor.press("End")
        seen.editor.type(" ")
        assert seen.cell.locator(".answer-line").count() == 0
        assert seen.card.evaluate("e => e.matches('.stale')")
        assert seen.complaints == []


def test_a_right_answer_is_ticked_and_leads_on(page):
    with page() as seen:
        seen.write(ANSWER)
        seen.check()
        assert seen.tab.get_by_label(f"done: {EXERCISE}").is_checked()
        assert "points" not in seen.card.inner_text()
        seen.card.locator("p:has-text('Next: ') a").click()
        assert seen.tab.url.endswith("#exercise-sdp-attention-loops")


def test_what_is_written_outlives_the_tab_and_a_reset(page):
    """Also a tab that is closed while Python runs the answer."""
    with page() as seen:
        seen.write(ANSWER)
        seen.tab.evaluate("window.verdict = () => new Promise(() => {}), 0")
        seen.button("Check").click()
        seen.cell.get_by_text("Checking …").wait_for()
        seen.tab.close()
        seen.tab = seen.context.new_page()
        seen.tab.goto(f"{seen.home}/{PAGE}.html")
        seen.find()
        assert seen.text() == ANSWER
        seen.button("Reset").click()
        assert seen.text() == STUB
        seen.tab.reload()
        seen.find()
        assert seen.text() == STUB
        seen.button("Bring mine back").click()
        assert seen.text() == ANSWER
        assert not seen.button("Bring mine back").is_visible()


@pytest.mark.exhaustive
def test_every_verdict_has_its_card(page):
    with page() as seen:
        seen.verdict = CALM
        seen.check()
        assert CALM["what"] in seen.card.inner_text()
        seen.verdict = "Python has stopped."
        seen.button("Check").click()
        seen.cell.get_by_text("Python has stopped.").wait_for()
        seen.verdict = RIGHT
        seen.button("Check").click()
        seen.cell.locator(".answer-card.right").wait_for()


@pytest.mark.exhaustive
def test_an_expression_is_tried_with_the_readers_function(page):
    with page() as seen:
        seen.write(ANSWER)
        field = seen.cell.get_by_label("Try it")
        field.fill("softmax(torch.ones(2))")
        field.press("Enter")
        log = seen.cell.get_by_role("log")
        log.get_by_text("1.0", exact=True).wait_for()
        assert seen.asked[-1] == (EXERCISE, ANSWER, "softmax(torch.ones(2))")
        assert field.input_value() == ""
        field.press("ArrowUp")
        assert field.input_value() == "softmax(torch.ones(2))"
        seen.value = {"text": "", "printed": "<i>", "error": "NameError: y"}
        field.fill("y")
        field.press("Enter")
        log.get_by_text("NameError: y").wait_for()
        assert log.inner_text().endswith(">>> y\n<i>\nNameError: y")


@pytest.mark.exhaustive
def test_the_editor_indents_closes_brackets_undoes_and_lets_one_out(page):
    with page() as seen:
        seen.editor.press("Control+A")
        for key in ["Backspace", *"def f(x", "End", ":", "Enter", "p"]:
            seen.editor.press(key)
        assert seen.text() == "def f(x):\n    p"
        seen.editor.press("Tab")
        assert seen.text() == "def f(x):\n        p"
        seen.editor.press("Control+Z")
        seen.editor.press("Escape")
        seen.editor.press("Tab")
        assert seen.button("Check").evaluate("e => e.matches(':focus')")
        about = seen.editor.get_attribute("aria-describedby")
        keys = seen.tab.locator(f"[id='{about}']")
        assert keys.text_content() == "Esc, then Tab, leaves the editor"
        assert "softmax" in seen.editor.get_attribute("aria-label")
        for name in ("autocapitalize", "autocorrect"):
            assert seen.editor.get_attribute(name) == "off"


TOP = """e => { const range = document.createRange();
    range.selectNodeContents(e);
    const {x, y} = range.getClientRects()[0];
    return [x, y + scrollY, getComputedStyle(e).color] }"""


@pytest.mark.exhaustive
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_editor_looks_like_the_stub_and_violates_no_rule(
    page, width, theme
):
    with page(width=width, color_scheme=theme) as seen:
        tab = seen.tab
        word = seen.editor.locator(".nf").first
        x, _, colour = word.evaluate(TOP)
        tab.evaluate(
            "document.querySelectorAll('.cell_input[hidden]')"
            ".forEach(e => e.hidden = false)"
        )
        stub = seen.cell.locator(".cell_input").first.locator(".nf")
        left, _, own = stub.evaluate(TOP)
        assert abs(x - left) < 1 and colour == own
        tab.evaluate(
            "document.querySelectorAll('.cell_input:first-child')"
            ".forEach(e => e.closest('.tag_answers') &&"
            " (e.hidden = true))"
        )
        for verdict in (WRONG, CALM, RIGHT):
            seen.verdict = verdict
            seen.button("Check").click()
            seen.cell.locator(f".answer-card.{verdict['state']}").wait_for()
            tab.evaluate(SETTLED)
            assert serious_violations(seen, theme) == []
            assert tab.evaluate(OVERFLOW) <= 0


@pytest.mark.exhaustive
def test_python_is_started_by_itself_once_it_has_been(page):
    with page() as seen:
        seen.check()
        seen.tab.goto(f"{seen.home}/notebooks/03_masks.html")
        seen.find("mask-causal")
        assert seen.button("Check").inner_text() == "Check"
        seen.tab.evaluate("window.started = () => { window.isStarted = 1 }, 0")
        seen.editor.focus()
        seen.tab.wait_for_function("window.isStarted")


@pytest.mark.exhaustive
def test_the_notebook_that_is_downloaded_is_graded_and_opened(page, tmp_path):
    with page() as seen:
        seen.write(ANSWER)
        with seen.tab.expect_download() as got:
            seen.tab.get_by_role("button", name="Download my").click()
        file = tmp_path / got.value.suggested_filename
        got.value.save_as(file)
        seen.button("Reset").click()
        with seen.tab.expect_file_chooser() as chosen:
            seen.tab.get_by_role("button", name="Open a").click()
        chosen.value.set_files(file)
        seen.tab.get_by_text("1 answer taken in: sdp-softmax.").wait_for()
        assert seen.text() == ANSWER
        with seen.tab.expect_file_chooser() as chosen:
            seen.tab.get_by_role("button", name="Open a").click()
        chosen.value.set_files(ROOT / "README.md")
        seen.tab.get_by_text("That file is no notebook.").wait_for()
    cells = json.loads(file.read_text("utf-8"))["cells"]
    (cell,) = (x for x in cells if x["id"] == "x-sdp-softmax")
    assert '"""Turn scores' in cell["source"], "the task is still there"
    command = [sys.executable, "-m", "attn", "check", str(file), EXERCISE]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.startswith("✓ sdp-softmax  2/2 points"), done
    assert done.returncode == 0
