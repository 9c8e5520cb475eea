"""The attention of a model can be looked at by mouse, finger and keyboard."""

from __future__ import annotations

from itertools import product

import pytest
import torch

from attn import plot
from tests.book.pages import exhaustive_but
from tests.book.test_browser import AXE, FOUND

pytestmark = pytest.mark.browser
TOKENS = ("<s>", "the", "keeper", "counted", "ships")
LONGER = tuple(f"word{i}" for i in range(24))


def shown(queries=TOKENS, keys=None):
    """Three layers of four heads: head h of layer l attends to key l + h."""
    keys = keys or queries
    weights = torch.full((3, 4, len(queries), len(keys)), 0.2 / len(keys))
    for layer in range(3):
        for head in range(4):
            weights[layer, head, :, (layer + head) % len(keys)] += 0.8
    return plot.ModelAttention(
        weights, queries, keys, (2, 5, 7), (0, 1, 2, 3), (5, 1), "A model"
    )


class Page:
    """The figure as a file, opened without the network."""

    def __init__(self, browser, path, made, theme="light", width=900):
        made.save(path)
        size = {"width": width, "height": 800}
        self.context = browser.new_context(
            color_scheme=theme, viewport=size, offline=True
        )
        self.tab = self.context.new_page()
        self.complaints, self.requests = [], []
        self.tab.on("console", lambda x: self.complaints.append(x.text))
        self.tab.on("pageerror", lambda x: self.complaints.append(str(x)))
        self.tab.on("request", lambda x: self.requests.append(x.url))
        self.tab.goto(path.as_uri())
        self.words = self.tab.locator("[aria-live]")
        self.words.wait_for()

    def heard(self):
        return self.words.inner_text().replace("\xa0", " ")

    def head(self, layer, head):
        name = f"layer {layer}, head {head}"
        return self.tab.get_by_role("radio", name=name, exact=True)


@pytest.fixture
def opened(browser, tmp_path):
    pages = []

    def open_page(made, **how):
        page = Page(browser, tmp_path / "heads.html", made, **how)
        pages.append(page)
        return page

    yield open_page
    for page in pages:
        assert page.complaints == []
        assert [x for x in page.requests if not x.startswith("file:")] == []
        page.context.close()


def test_a_click_and_the_arrow_keys_choose_a_head(opened):
    page = opened(shown())
    assert page.heard().startswith("ships → keeper 84 %, ")
    assert page.heard().endswith("in layer 5, head 1.")
    page.head(7, 2).click()
    assert page.heard().startswith("ships → ships 84 %, ")
    assert page.heard().endswith("in layer 7, head 2.")
    page.tab.keyboard.press("ArrowLeft")
    page.tab.keyboard.press("ArrowUp")
    assert page.heard().endswith("in layer 5, head 1.")
    focused = page.tab.evaluate("document.activeElement.ariaLabel")
    assert focused == "layer 5, head 1"


def test_the_mouse_previews_a_head_until_it_leaves(opened):
    page = opened(shown())
    page.head(2, 0).hover()
    assert page.heard().endswith("in layer 2, head 0.")
    assert page.tab.get_by_text("layer 2, head 0: rows are").is_visible()
    page.words.hover()
    assert page.heard().endswith("in layer 5, head 1.")


def test_a_query_is_chosen_by_the_keyboard(opened):
    page = opened(shown())
    page.tab.locator("[aria-label=Query] [tabindex='0']").focus()
    page.tab.keyboard.press("ArrowLeft")
    assert page.heard().startswith("counted → keeper 84 %")


def test_cross_attention_has_tokens_of_two_texts(opened):
    page = opened(shown(("un", "deux"), TOKENS))
    assert page.heard().startswith("deux → keeper 84 %")
    drawn = page.tab.locator(".touch-board text").all_text_contents()
    assert sorted(drawn) == sorted(("un", "deux", *TOKENS))
    assert page.tab.locator(".touch-sentence .arc").count() == 0


@pytest.mark.parametrize(
    "view",
    exhaustive_but(
        [(TOKENS, 900, "light"), (LONGER, 390, "dark")],
        [*product((TOKENS, LONGER), (390, 900), ("light", "dark"))],
    ),
    ids=lambda x: f"{len(x[0])}-{x[1]}-{x[2]}",
)
def test_it_fits_its_width_and_reads_well(opened, view):
    tokens, width, theme = view
    page = opened(shown(tokens), theme=theme, width=width)
    assert page.tab.evaluate("document.documentElement.scrollWidth") <= width
    board = page.tab.locator(".touch-board")
    assert board.evaluate("e => 13 * e.getScreenCTM().a") >= 9  # its text
    assert page.tab.evaluate("document.documentElement.dataset.theme") == theme
    page.tab.evaluate(AXE)
    own = FOUND.replace("document,", "'.touch',")
    assert page.tab.evaluate(own) == []
