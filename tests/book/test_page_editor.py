"""Write an exercise on its page: the editor, the prompt and the card."""

import json
import re

import pytest

from attn.exercises import CHAPTERS, sources
from attn.grading.learner import cards
from tests.book.answering import ANSWER, CHAPTER, EXERCISE, RIGHT, STUB
from tests.book.conftest import SETTLED, Visit
from tests.book.pages import ROOT
from tests.book.test_browser import OVERFLOW, serious_violations

PAGE = ROOT / "book" / "page"
WRONG = {
    "state": "wrong",
    "word": "not right yet",
    "label": "this looks like",
    "title": "The sum is over the whole tensor, not over each slice",
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
    "call": f"softmax(x, {', '.join('abcdefgh' * 9)})  # x (3, 5), dim=-1",
    "printed": "<b>mine</b>",
    "line": 2,
    "details": "right so far: one row\n  softmax(x)\n    x  (3, 5)",
}
LOOK = "e => getComputedStyle(e).borderLeft"
CALM = {"state": "calm", "word": "not started", "title": "softmax is a stub"}


@pytest.fixture(scope="module")
def checked_here():
    """The exercises that the pages check."""
    return {*json.loads((PAGE / "data" / "index.json").read_text("utf-8"))}


EXERCISES = re.compile(
    r'<div class="exercise-card.*?<span class="pre">([\w-]+)</span></code>.*?'
    r'<div class="cell ([^"]*tag_exercise[^"]*)">.*?'
    r'<div class="exercise-place docutils">(.*?)</div>',
    re.S,
)


def test_a_stub_is_an_editor_or_says_where_it_is_checked(book, checked_here):
    found = set()
    for key, stem in CHAPTERS.items():
        page = (book / "notebooks" / f"{stem}.html").read_text("utf-8")
        exercises = EXERCISES.findall(page)
        assert {x for x, _, _ in exercises} == {
            f"{key}-{x}" for x in sources.names(key)
        }
        here = {x for x, kinds, _ in exercises if "tag_answers" in kinds}
        for name, _, below in exercises:
            assert ("JupyterLab only" in below) == (name not in here)
            assert 'how-to-work.html">' in below
        assert ("exercises.js" in page) == bool(here)
        assert here or key in ("fwd", "bwd", "flex")
        found |= here
    assert found == checked_here
    assert len(found) >= 40


def test_the_loader_is_small():
    assert (ROOT / "book" / "_static" / "exercises.js").stat().st_size < 2000


def test_a_card_has_the_colours_and_signs_of_jupyters():
    style = (PAGE / "answers.css").read_text("utf-8")
    script = (PAGE / "card.mjs").read_text("utf-8")
    kinds = {"right": cards.RIGHT, "wrong": cards.WRONG, "calm": cards.CALM}
    signs = dict(re.findall(r'(\w+): "(.)"', script.partition("SIGNS")[2]))
    assert {name: kind.sign for name, kind in kinds.items()} == signs
    for name, kind in kinds.items():
        rule = ".answer-card " if name == "calm" else f".answer-card.{name} "
        colour = style.partition(rule)[2].partition("--kind: ")[2][:7]
        assert colour == kind.colour


@pytest.mark.browser
def test_a_wrong_answer_gets_its_card_its_line_and_is_announced(answering):
    with answering() as seen:
        assert not any("/_static/page/" in x for x in seen.at_first)
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
        assert "points" not in said
        assert seen.card.locator(".answer-grid td.wrong").count() == 1
        line = seen.cell.locator(".answer-line")
        assert line.inner_text() == ANSWER.splitlines()[1]
        spoken = seen.cell.locator(".answer-spoken[role=status]")
        assert WRONG["title"] in spoken.inner_text()
        assert seen.button("Check").inner_text() == "Check"
        seen.editor.press("End")
        seen.editor.type(" ")
        assert line.count() == 0
        assert seen.card.evaluate(LOOK) == "6px dashed rgb(104, 114, 125)"
        assert "✗ was not right yet" in seen.card.inner_text()
        seen.card.get_by_text("All that is known").click()
        assert "softmax(x)\n  x  (3, 5)" in seen.card.inner_text()
        assert not seen.tab.get_by_label(f"done: {EXERCISE}").is_checked()
        seen.card.get_by_role("button", name="Hint 1").click()
        hint = seen.tab.locator("details.exercise-hint[open] summary")
        assert hint.evaluate("e => e.matches(':focus')")
        assert seen.complaints == []


@pytest.mark.browser
@pytest.mark.exhaustive
def test_what_goes_wrong_is_said_and_the_page_goes_on(answering):
    with answering() as seen:
        seen.verdict = CALM
        seen.check()
        assert CALM["title"] in seen.card.inner_text()
        seen.verdict = "Python has stopped."
        seen.button("Check").click()
        seen.cell.get_by_text("Python has stopped.").wait_for()
        seen.verdict = RIGHT
        seen.button("Check").click()
        seen.cell.locator(".answer-card.right").wait_for()
        fails = "() => setTimeout(fail, 500, Error('It was stopped'))"
        asked = f"new Promise((_, fail) => {{ window.stopped = {fails} }})"
        seen.tab.evaluate(f"window.verdict = () => {asked}, 0")
        seen.button("Check").click()
        seen.button("Stop").click()
        seen.cell.get_by_text("Stopping …").wait_for()
        seen.cell.get_by_text("It was stopped").wait_for()
        seen.button("Check").wait_for()


@pytest.mark.browser
@pytest.mark.exhaustive
def test_an_expression_is_tried_with_the_readers_function(answering):
    with answering() as seen:
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
        seen.value = {"text": "", "printed": "<i>\n", "error": "NameError: y"}
        field.fill("y")
        field.press("Enter")
        log.get_by_text("NameError: y").wait_for()
        said = [x for x in log.inner_text().splitlines() if x]
        assert said[-3:] == [">>> y", "<i>", "NameError: y"]


@pytest.mark.browser
@pytest.mark.exhaustive
def test_the_editor_indents_closes_brackets_undoes_and_lets_one_out(answering):
    with answering() as seen:
        seen.editor.press("Control+A")
        for key in ["Backspace", *"def f(x", "End", ":", "Enter", "p"]:
            seen.editor.press(key)
        assert seen.text() == "def f(x):\n    p"
        seen.editor.press("Tab")
        assert seen.text() == "def f(x):\n        p"
        seen.editor.press("Control+Z")
        assert seen.text() == "def f(x):\n    p"
        seen.editor.press("Escape")
        seen.editor.press("Tab")
        is_left = "e => e.matches(':focus')"
        assert seen.button("Check").evaluate(is_left)
        for key in ("Shift+Tab", "Tab"):  # on the way past
            seen.tab.keyboard.press(key)
        assert seen.button("Check").evaluate(is_left)
        seen.editor.click()
        seen.editor.press("Tab")
        assert seen.text() in ("    def f(x):\n    p", "def f(x):\n        p")
        about = seen.editor.get_attribute("aria-describedby")
        keys = seen.tab.locator(f"[id='{about}']")
        assert keys.text_content() == "Esc, then Tab, leaves the editor"
        assert "softmax" in seen.editor.get_attribute("aria-label")
        for name in ("autocapitalize", "autocorrect"):
            assert seen.editor.get_attribute(name) == "off"


# Where a word is, and how it looks.
SEEN = """e => {
    const {x, y} = e.getClientRects()[0], ground = e.closest(".cell_input");
    const {color, fontSize, fontFamily} = getComputedStyle(e);
    return [x, y - ground.getBoundingClientRect().y, color, fontSize,
        fontFamily].map(z => Number(z) ? Math.round(z) : z) }"""


@pytest.mark.browser
@pytest.mark.exhaustive
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_editor_looks_like_the_stub_and_violates_no_rule(
    answering, width, theme
):
    with answering(width=width, color_scheme=theme) as seen:
        stub = seen.cell.locator(".cell_input").first
        stub.evaluate("e => { e.hidden = false }")
        names = [x.locator(".nf").first for x in (stub, seen.editor)]
        assert names[0].evaluate(SEEN) == names[1].evaluate(SEEN)
        stub.evaluate("e => { e.hidden = true }")
        seen.write(ANSWER)
        for verdict in (WRONG, CALM, RIGHT):
            seen.verdict = verdict
            seen.button("Check").click()
            seen.cell.locator(f".answer-card.{verdict['state']}").wait_for()
            seen.tab.evaluate(SETTLED)
            assert serious_violations(seen, theme) == []
            assert seen.tab.evaluate(OVERFLOW) <= 0
            for call in seen.card.locator(".answer-call").all():
                assert call.evaluate("e => e.scrollWidth <= e.clientWidth")


@pytest.mark.browser
@pytest.mark.exhaustive
def test_without_javascript_a_stub_says_where_to_write_it(without_javascript):
    tab = without_javascript(CHAPTER)
    assert tab.locator(".tag_answers pre").first.is_visible()
    assert tab.locator(".exercise-place").first.is_visible()
    assert tab.locator(".cm-editor, .answer, .bd-article button").count() == 0


@pytest.mark.browser
@pytest.mark.exhaustive
def test_a_page_opened_as_a_file_says_how_to_serve_it(browser, book):
    with Visit(browser, book.as_uri(), CHAPTER) as seen:
        seen.tab.locator("#exercise-sdp-softmax").scroll_into_view_if_needed()
        seen.tab.get_by_role("button", name="Check").first.click()
        place = seen.tab.locator(".exercise-place").first
        assert "make serve" in place.inner_text()
        assert seen.tab.locator(".tag_answers pre").first.is_visible()


@pytest.mark.browser
@pytest.mark.exhaustive
def test_python_answers_on_the_page(answering):
    """All of it: no part is played by another."""
    with answering(is_real=True) as seen:
        seen.context.route("**/snapshot.gz", lambda route: route.abort())
        seen.button("Check").click()
        seen.cell.get_by_text("press the button again").wait_for()
        seen.context.unroute("**/snapshot.gz")
        seen.write(ANSWER.replace("e.sum(dim, keepdim=True)", "e.sum()"))
        seen.button("Check").click()
        card = seen.cell.locator(".answer-card.wrong")
        card.wait_for(timeout=60_000)
        assert "over the whole tensor" in card.inner_text()
        seen.write(ANSWER.replace("e.sum(dim, keepdim=True)", "e.sum(dim)"))
        seen.button("Check").click()
        wrong = seen.cell.locator(".answer-card.wrong:not(.stale)")
        said = wrong.locator(".answer-title code").inner_text()
        assert said == "keepdim", "code is set as code"
        seen.write(ANSWER)
        seen.button("Check").click()
        seen.cell.locator(".answer-card.right").wait_for()
        seen.cell.get_by_label("Try it").fill("softmax(torch.zeros(4)) * 2")
        seen.cell.get_by_label("Try it").press("Enter")
        log = seen.cell.get_by_role("log")
        log.get_by_text("tensor([0.5000, 0.5000, 0.5000, 0.5000])").wait_for()
        assert seen.asked == [] and seen.complaints == []
