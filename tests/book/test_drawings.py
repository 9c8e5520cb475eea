"""Figures as a reader sees them: legible on a phone, in both themes."""

import pytest

from tests.book.pages import ROOT, chapters

EXHAUSTIVE = pytest.mark.exhaustive
#: `make test` looks at the first chapter; the others are drawn by the same
#: code.
FIRST, *OTHERS = chapters()
PAGES = [FIRST, *(pytest.param(x, marks=EXHAUSTIVE) for x in OTHERS)]
THEMES = ["light", pytest.param("dark", marks=EXHAUSTIVE)]
LOOK = (ROOT / "tests" / "book" / "drawings.js").read_text("utf-8")


@pytest.mark.browser
@pytest.mark.parametrize("page", PAGES)
def test_what_is_written_in_a_figure_can_be_read_on_a_phone(visit, page):
    with visit(page, width=390) as seen:
        texts = seen.tab.evaluate(LOOK)
        figures = {text["figure"] for text in texts}
        assert len(figures) >= 3 and len(texts) > 30
        assert [x for x in texts if x["size"] < 9] == []
        assert [x for x in texts if x["over"]] == []
        assert [x for x in texts if x["outside"] > 6] == []


@pytest.mark.browser
@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("page", PAGES)
def test_what_is_written_in_a_figure_has_contrast(visit, page, theme):
    with visit(page, theme=theme) as seen:
        texts = seen.tab.evaluate(LOOK)
        assert len(texts) > 30
        assert [x for x in texts if x["contrast"] < 4.5] == []
        assert [x for x in texts if x["over"]] == []


@pytest.mark.browser
def test_a_wide_figure_scrolls_in_its_own_box_with_the_keyboard(visit):
    page = next(x for x in chapters() if "sdpa" in x)
    with visit(page, width=390) as seen:
        box = seen.tab.locator("#fig-line .drawn")
        assert box.evaluate("x => x.scrollWidth > x.clientWidth")
        box.focus()
        seen.tab.keyboard.press("ArrowRight")
        seen.tab.wait_for_function(
            "document.querySelector('#fig-line .drawn').scrollLeft > 0"
        )


@pytest.mark.browser
def test_a_phone_gets_the_narrow_drawing_and_a_desk_the_wide_one(visit):
    for width, kind in ((390, "narrow"), (1280, "wide")):
        with visit(chapters()[0], width=width) as seen:
            shown = seen.tab.locator(".drawn svg:visible")
            kinds = shown.evaluate_all(
                "all => all.map(x => x.getAttribute('class'))"
            )
            assert len(kinds) >= 5 and set(kinds) == {kind}
