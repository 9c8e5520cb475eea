"""The figure of MiniLM's heads shows what attn computes, in both forms."""

import random

import pytest
import torch

from attn.data import minilm
from tests.book.test_browser import does_not_scroll_sideways
from tests.book.test_touch import NEEDS

pytestmark = pytest.mark.browser


MAP = """place => [...place.querySelectorAll(".touch-board g")].map(row =>
    [...row.querySelectorAll("rect")].map(e => Number(e.dataset.weight)))"""
SHARES = """place => [...place.querySelectorAll(".touch-token")].map(e =>
    [...e.children].map(part => part.textContent))"""


@NEEDS["attention_heads"]
def test_the_heads_show_the_weights_that_they_write(touched):
    """In any state: its expression, run by attn, gives its map and its row."""
    seen, figure = touched("attention_heads")
    choose, written = random.Random(0), set()
    with seen:
        for _ in range(12):
            query = choose.randrange(16)
            for group, chosen in (
                ("Last word", choose.randrange(2)),
                ("Head", choose.randrange(72)),
                ("Query", query),
            ):
                buttons = figure.get_by_label(group, exact=True)
                button = buttons.get_by_role("radio").nth(chosen)
                button.dispatch_event("click")  # quick, unlike a hand
            code = figure.locator("code").inner_text()
            written.add(code)
            weights = eval(code, {"minilm": minilm})
            shown = torch.tensor(figure.evaluate(MAP), dtype=torch.float32)
            torch.testing.assert_close(shown, weights, atol=0.51 / 255, rtol=0)
            tokens = minilm.load().tokens(code.split('"')[1])
            row = weights[query].tolist()
            for (word, share), token, w in zip(
                figure.evaluate(SHARES), tokens, row, strict=True
            ):
                assert word == token
                percent = float(share.removesuffix("\xa0%") or 0)
                assert abs(percent - 100 * w) <= 0.5 + 51 / 255
    assert len(written) > 10


def test_the_heads_answer_the_keyboard_and_are_heard(touched):
    seen, figure = touched("attention_heads", theme="dark", width=390)
    with seen:
        press, line = seen.tab.keyboard.press, figure.locator("[aria-live]")

        def heard():
            return line.inner_text().replace("\xa0", " ")

        assert heard().startswith("it → animal 68 % (with “wide”: 28 %), ")
        figure.locator("[aria-label=Query] [tabindex='0']").focus()
        press("ArrowLeft")
        assert heard().startswith("because → ")
        focused = seen.tab.evaluate("document.activeElement.textContent")
        assert focused.startswith("because")
        figure.locator("[aria-label=Head] [tabindex='0']").focus()
        press("ArrowDown")
        press("ArrowRight")
        assert heard().endswith("in layer 4, head 2.")
        figure.get_by_role("button", name="the word before").click()
        assert heard() == "because → street 100 %, in layer 0, head 2."


def test_the_front_page_has_the_short_form(touched):
    seen, figure = touched("attention_heads", "book/intro", width=360)
    with seen:
        figure.get_by_label("Last word").get_by_text("wide").click()
        heard = figure.locator("[aria-live]").inner_text()
        assert "(with “tired”: 10\xa0%), animal 28\xa0%, " in heard
        assert figure.locator("canvas, code").count() == 0
        does_not_scroll_sideways(seen)


@pytest.mark.parametrize(
    ("page", "stored"),
    [
        ("book/intro", "#fig-front-page"),
        ("notebooks/02_scaled_dot_product", "#fig-sdp-picture"),
    ],
)
def test_without_javascript_the_stored_figure_is_shown(
    browser, address, page, stored
):
    for works in (True, False):
        context = browser.new_context(java_script_enabled=works)
        tab = context.new_page()
        tab.goto(f"{address}/{page}.html")
        picture = tab.locator(f"{stored} > :not(.touch, figcaption)")
        assert picture.is_visible() != works
        assert tab.locator(".touch-token").count() == 16 * works
        assert tab.locator(f"{stored} figcaption").is_visible()
        context.close()


def test_nothing_moves_where_reduced_motion_is_asked_for(touched):
    seen, figure = touched("attention_heads")
    with seen:
        moves = figure.locator(".touch-sentence .arc").first
        takes = "e => getComputedStyle(e).transitionDuration"
        assert "0.3s" in moves.evaluate(takes)
        seen.tab.emulate_media(reduced_motion="reduce")
        assert moves.evaluate(takes) == "0s"
