"""The figure of MiniLM's heads shows what attn computes, in both forms."""

import random
import re

import pytest
import torch

from attn.data import minilm
from tests.book.conftest import Visit
from tests.book.controls import Figure
from tests.book.pages import FIGURES
from tests.book.test_browser import sideways_overflow
from tests.book.test_touch import NEEDS
from tests.marks import exhaustive_but

pytestmark = pytest.mark.browser
FRONT = "book/intro"


@pytest.fixture(scope="module")
def figures(browser, address):
    """Open a page once: the visit, its figure, and what that says at first."""
    visits = {}

    def open_page(page):
        if page not in visits:
            seen = Visit(browser, address, page, "dark", 360)
            place = seen.tab.locator("[data-touch=attention_heads]")
            figure = Figure(place)
            visits[page] = seen, figure, figure.heard()
        return visits[page]

    yield open_page
    for seen, *_ in visits.values():
        seen.tab.close()


# Press one button of each group, as a state says; then look.
STATES = """(place, states) => states.map(state => {
    for (const [group, chosen] of Object.entries(state))
        place.querySelectorAll(
            `[aria-label="${group}"] [role=radio]`)[chosen].click();
    return [place.querySelector("code").textContent,
        [...place.querySelectorAll(".touch-board g")].map(row =>
            [...row.querySelectorAll("rect")].map(
                e => Number(e.dataset.weight))),
        [...place.querySelectorAll(".touch-token")].map(e =>
            [...e.children].map(part => part.textContent))];
})"""
START = {"Last word": 0, "Head": 37, "Query": 10}


@NEEDS["attention_heads"]
def test_head_weights_equal_the_shown_expression(figures):
    """In any state: its expression, run by attn, gives its map and its row."""
    _, figure, _ = figures(FIGURES["attention_heads"])
    choose = random.Random(0)
    states = [
        {
            "Last word": n % 2,
            "Head": choose.randrange(72),
            "Query": choose.randrange(16),
        }
        for n in range(6)
    ]
    shown = figure.evaluate(STATES, states)
    for state, (code, drawn, shares) in zip(states, shown, strict=True):
        weights = eval(code, {"minilm": minilm})
        drawn = torch.tensor(drawn, dtype=torch.float32)
        torch.testing.assert_close(drawn, weights, atol=0.51 / 255, rtol=0)
        tokens = minilm.load().tokens(code.split('"')[1])
        row = weights[state["Query"]].tolist()
        for (word, share), token, w in zip(shares, tokens, row, strict=True):
            assert word == token
            percent = float(share.removesuffix("\xa0%") or 0)
            assert abs(percent - 100 * w) <= 0.5 + 51 / 255
    assert len({code for code, *_ in shown}) == len(states)


def test_the_heads_announce_changes_by_keyboard(figures):
    seen, figure, first = figures(FIGURES["attention_heads"])
    press = seen.tab.keyboard.press
    assert first.startswith("it → animal 68 % (with “wide”: 28 %), ")
    figure.evaluate(STATES, [START])
    assert figure.heard() == first
    figure.locator("[aria-label=Query] [tabindex='0']").focus()
    press("ArrowLeft")
    assert figure.heard().startswith("because → ")
    focused = seen.tab.evaluate("document.activeElement.textContent")
    assert focused.startswith("because")
    figure.locator("[aria-label=Head] [tabindex='0']").focus()
    press("ArrowDown")
    press("ArrowRight")
    assert figure.heard().endswith("in layer 4, head 2.")
    figure.get_by_role("button", name="the word before").click()
    assert figure.heard() == "because → street 100 %, in layer 0, head 2."


def test_the_front_page_has_the_short_form_of_the_heads(figures):
    seen, figure, _ = figures(FRONT)
    figure.get_by_label("Last word").get_by_text("wide").click()
    figure.get_by_role("radio", name=re.compile("^it ")).click()
    other = " (with “tired”: 68 %)."
    assert figure.heard() == f"28 % of “it”’s attention is on “animal”{other}"
    figure.get_by_role("radio", name=re.compile("^street ")).click()
    assert "% of “street”’s attention is on “start”" in figure.heard()
    assert figure.locator("code").count() == 0
    assert figure.locator(".touch-jobs button canvas").count() == 4
    assert sideways_overflow(seen) <= 0


def test_on_a_phone_the_sentence_is_the_first_of_three_pictures(figures):
    seen, figure, _ = figures(FIGURES["attention_heads"])
    pair = figure.locator(".touch-pair")
    shown = "e => [e.scrollLeft, e.firstChild.className, e.children.length]"
    sizes = ((1280, [0, "", 2]), (390, [0, "touch-sentence", 3]))
    for width, expected in sizes:
        seen.tab.set_viewport_size({"width": width, "height": 900})
        seen.tab.wait_for_timeout(100)
        assert pair.evaluate(shown) == expected
    seen.tab.set_viewport_size({"width": 360, "height": 900})


STORED = {
    FRONT: "#fig-front-page",
    FIGURES["attention_heads"]: "#fig-sdp-picture",
}


def assert_replaced(tab, stored, works):
    """The figure that one can touch hides the stored one, if it works."""
    picture = tab.locator(f"{stored} > :not(.touch, figcaption)")
    assert picture.is_visible() != works
    assert tab.locator(".touch-token").count() == 16 * works
    assert tab.locator(f"{stored} figcaption").is_visible()


@pytest.mark.parametrize("page", STORED)
def test_the_interactive_heads_replace_the_stored_figure(figures, page):
    assert_replaced(figures(page)[0].tab, STORED[page], works=True)


@pytest.mark.parametrize("page", exhaustive_but([FRONT], STORED))
def test_the_stored_heads_are_visible_without_javascript(
    without_javascript, page
):
    assert_replaced(without_javascript(page), STORED[page], works=False)


def test_the_heads_do_not_move_with_reduced_motion(figures):
    seen, figure, _ = figures(FIGURES["attention_heads"])
    tab = seen.tab
    moves = figure.locator(".touch-sentence .arc").first
    takes = "e => getComputedStyle(e).transitionDuration"
    assert "0.3s" in moves.evaluate(takes)
    tab.emulate_media(reduced_motion="reduce")
    assert moves.evaluate(takes) == "0s"
    tab.emulate_media(reduced_motion="no-preference")
