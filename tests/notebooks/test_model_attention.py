"""The attention of a model can be looked at by mouse, finger and keyboard."""

from itertools import product

import pytest
import torch

from attn import plot
from tests.book.controls import Figure
from tests.book.test_browser import AXE, FOUND
from tests.marks import exhaustive_but

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


@pytest.fixture
def opened(offline, tmp_path):
    """Open the figure as a file."""

    def open_page(made, theme="light", width=900):
        made.save(tmp_path / "heads.html")
        size = {"width": width, "height": 800}
        tab = offline(color_scheme=theme, viewport=size)
        tab.goto((tmp_path / "heads.html").as_uri())
        tab.locator("[aria-live]").wait_for()
        return Figure(tab)

    return open_page


def head(tab, layer, head):
    name = f"layer {layer}, head {head}"
    return tab.get_by_role("radio", name=name, exact=True)


def test_a_click_and_the_arrow_keys_choose_a_head(opened):
    tab = opened(shown())
    assert tab.heard().startswith("ships → keeper 84 %, ")
    assert tab.heard().endswith("in layer 5, head 1.")
    head(tab, 7, 2).click()
    assert tab.heard().startswith("ships → ships 84 %, ")
    assert tab.heard().endswith("in layer 7, head 2.")
    tab.keyboard.press("ArrowLeft")
    tab.keyboard.press("ArrowUp")
    assert tab.heard().endswith("in layer 5, head 1.")
    focused = tab.evaluate("document.activeElement.ariaLabel")
    assert focused == "layer 5, head 1"


def test_the_mouse_previews_a_head_until_it_leaves(opened):
    tab = opened(shown())
    head(tab, 2, 0).hover()
    assert tab.heard().endswith("in layer 2, head 0.")
    assert tab.get_by_text("layer 2, head 0: rows are").is_visible()
    tab.locator("[aria-live]").hover()
    assert tab.heard().endswith("in layer 5, head 1.")


def test_a_query_is_chosen_by_the_keyboard(opened):
    tab = opened(shown())
    tab.locator("[aria-label=Query] [tabindex='0']").focus()
    tab.keyboard.press("ArrowLeft")
    assert tab.heard().startswith("counted → keeper 84 %")


def test_cross_attention_has_tokens_of_two_texts(opened):
    tab = opened(shown(("un", "deux"), TOKENS))
    assert tab.heard().startswith("deux → keeper 84 %")
    drawn = tab.locator(".touch-board text").all_text_contents()
    assert sorted(drawn) == sorted(("un", "deux", *TOKENS))
    assert tab.locator(".touch-sentence .arc").count() == 0


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
    tab = opened(shown(tokens), theme, width)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    board = tab.locator(".touch-board")
    assert board.evaluate("e => 13 * e.getScreenCTM().a") >= 9  # its text
    assert tab.evaluate("document.documentElement.dataset.theme") == theme
    tab.evaluate(AXE)
    assert tab.evaluate(FOUND.replace("document,", "'.touch',")) == []
