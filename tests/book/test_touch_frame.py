"""Figures that one can touch share a frame that hands and ears can use."""

import re

import pytest

from attn.publishing import touch
from tests.book.conftest import SETTLED, Visit
from tests.book.pages import FIGURES
from tests.book.test_browser import AXE, FOUND
from tests.marks import exhaustive_but


#: `make test` looks at one figure; the others are made of the same parts.
@pytest.fixture(
    scope="module", params=exhaustive_but(["mask_workbench"], FIGURES)
)
def framed(request, browser, address):
    """A figure on a phone, opened once: its name, its place, its page."""
    page = FIGURES[request.param]
    with Visit(browser, address, page, "dark", 360) as seen:
        place = seen.tab.locator(f"[data-touch={request.param}]")
        yield request.param, place, seen


def box(locator):
    """Return left, top, right and bottom of an element on the page."""
    return locator.evaluate(
        "e => { const {left, top, right, bottom} = e.getBoundingClientRect();"
        " return [left, top, right, bottom]; }"
    )


def widen(tab, width):
    tab.set_viewport_size({"width": width, "height": 900})
    tab.evaluate(SETTLED)
    tab.wait_for_timeout(100)  # containers are measured a frame later


# The size on the screen of the smallest text of the drawings, in pixels.
SMALLEST = """place => Math.min(
    ...[...place.querySelectorAll("svg text, small")].map(e => {
        const {a, b} = e.getScreenCTM?.() ?? {a: 1, b: 0};
        return parseFloat(getComputedStyle(e).fontSize) * Math.hypot(a, b);
    }))"""


@pytest.mark.browser
def test_a_figure_fits_a_phone_and_makes_no_outside_request(framed):
    name, figure, seen = framed
    widen(seen.tab, 360)
    figure.scroll_into_view_if_needed()
    assert figure.evaluate(SMALLEST) >= 9
    for part in (figure, *figure.locator("code, dd").all()):
        assert part.evaluate("e => e.scrollWidth <= e.clientWidth + 1")
    seen.tab.evaluate(AXE)
    for theme in ("light", "dark"):
        seen.tab.evaluate(
            "theme => { document.documentElement.dataset.theme = theme }",
            theme,
        )
        own = FOUND.replace("document,", f"'[data-touch={name}]',")
        assert seen.tab.evaluate(own) == []
    assert seen.outside == []
    assert seen.complaints == []


@pytest.mark.browser
def test_a_figure_is_announced_by_its_title(framed):
    name, place, seen = framed
    announced = seen.tab.get_by_role(
        "group", name=touch(name).title, exact=True
    )
    assert announced.get_attribute("data-touch") == name
    assert "Interactive figure" not in place.aria_snapshot()


# Sizes of what one presses: a box is pressed by its label, too.
SMALL = """place => [...place.querySelectorAll(
    "button, select, input, [role=radio]")].flatMap(e => {
    const {width, height} = (e.type === "checkbox" ? e.labels[0] : e)
        .getBoundingClientRect();
    const least = e.matches("select, .touch-button") ? 36 : 24;
    return Math.min(width, 24) < 24 || height < least - 0.1
        ? [[e.outerHTML.slice(0, 80), width, height]] : [];
})"""


@pytest.mark.browser
def test_a_finger_finds_every_control(framed):
    _, place, seen = framed
    widen(seen.tab, 360)
    assert place.locator("button, select, input").count()
    assert place.evaluate(SMALL) == []


@pytest.mark.browser
def test_the_read_out_is_in_sight_of_the_controls(framed):
    """On a phone, and beside or right below them on a wide screen."""
    _, place, seen = framed
    controls = place.locator(".touch-controls, .touch-row").first
    sentence = place.locator("[aria-live]")
    widen(seen.tab, 390)
    assert 0 < box(sentence)[3] - box(controls)[1] <= 400
    widen(seen.tab, 1280)
    at, said = box(controls), box(sentence)
    beside = said[0] >= at[2] and said[1] < at[3]
    under = 0 <= said[1] - at[3] <= 24
    front = place.locator(".touch-sentence").count()  # tokens are controls
    assert beside or under or front


# Put all controls at one end, then at the other; where is the figure's end?
SWEEP = """place => [0, 1, 0.5].map(part => {
    for (const e of place.querySelectorAll("input, select")) {
        if (e.type === "checkbox") e.checked = part === 1;
        else if (e.type === "range")
            e.value = Number(e.min) + part * (e.max - e.min);
        else e.selectedIndex = Math.round(part * (e.options.length - 1));
        e.dispatchEvent(new Event("input", {bubbles: true}));
    }
    return Math.round(place.getBoundingClientRect().height);
})"""


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1280])
def test_what_the_read_out_says_moves_nothing(framed, width):
    _, place, seen = framed
    widen(seen.tab, width)
    assert len(set(place.evaluate(SWEEP))) == 1


#: Their stored figure opens the chapter; they are where the text explains it.
APART = ("block_tiles", "hf_forward")


@pytest.mark.browser
def test_a_figure_can_be_played_and_stepped_through(framed):
    name, place, seen = framed
    widen(seen.tab, 1280)
    play = place.get_by_role("button", name=re.compile("^(Play|Pause)$"))
    assert play.count() == 1
    steps = place.get_by_role("button", name="Next", exact=True).count()
    assert steps == (name != "attention_heads")  # its tokens are buttons


@pytest.mark.browser
def test_on_a_phone_a_figure_is_as_tall_as_the_screen(framed):
    _, place, seen = framed
    widen(seen.tab, 390)
    assert place.bounding_box()["height"] <= 700


@pytest.mark.browser
def test_the_stored_figure_is_visible_without_javascript(
    framed, without_javascript
):
    name, *_ = framed
    page = without_javascript(FIGURES[name])
    place = page.locator(f"[data-touch={name}]")
    above = f".cell:has(+ [data-touch={name}])"
    if name in APART:
        above = ".bd-article"
    stored = page.locator(f"{above} figure :is(img, .drawn)")
    assert place.inner_text() == ""
    assert stored.first.bounding_box()["height"] > 100
