"""Figures that one can touch share a frame that hands and ears can use."""

import pytest

from attn.publishing import touch
from tests.book.conftest import SETTLED, Visit
from tests.book.controls import opened_figure
from tests.book.pages import FIGURES, exhaustive_but


def test_no_two_figures_have_the_same_title():
    assert len({touch(name).title for name in FIGURES}) == len(FIGURES)


#: `make test` looks at one figure; the others are made of the same parts.
@pytest.fixture(
    scope="module", params=exhaustive_but(["mask_workbench"], FIGURES)
)
def framed(request, browser, address):
    """A figure on a phone, its name, and its page."""
    page = FIGURES[request.param]
    with Visit(browser, address, page, "light", 360) as seen:
        place = seen.tab.locator(f"[data-touch={request.param}]")
        yield request.param, place, seen.tab


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


@pytest.mark.browser
def test_a_figure_is_announced_by_its_title(framed):
    name, place, tab = framed
    announced = tab.get_by_role("group", name=touch(name).title, exact=True)
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
    _, place, tab = framed
    widen(tab, 360)
    assert place.locator("button, select, input").count()
    assert place.evaluate(SMALL) == []


@pytest.mark.browser
def test_the_read_out_is_in_sight_of_the_controls(framed):
    """On a phone, and beside or right below them on a wide screen."""
    _, place, tab = framed
    controls = place.locator(".touch-controls, .touch-row").first
    sentence = place.locator("[aria-live]")
    widen(tab, 390)
    assert 0 < box(sentence)[3] - box(controls)[1] <= 400
    widen(tab, 1280)
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
    _, place, tab = framed
    widen(tab, width)
    assert len(set(place.evaluate(SWEEP))) == 1


dial = opened_figure("rope_dial", "light", 1280, "reduce")


def thumb(slider):
    """Return where the middle of a slider's thumb is, and its track's left."""
    slider.scroll_into_view_if_needed()
    at = slider.bounding_box()
    part = slider.evaluate("e => (e.value - e.min) / (e.max - e.min)")
    return at["x"] + 12 + part * (at["width"] - 24), at["y"] + 14


@pytest.mark.browser
@pytest.mark.parametrize(("away", "holds"), [(11, True), (14, False)])
def test_a_thumb_is_24_pixels_wide(dial, away, holds):
    """A press on it moves nothing; beside it, the thumb comes."""
    slider = dial.get_by_label("query at m")
    slider.fill("200")
    x, y = thumb(slider)
    mouse = dial.page.mouse
    mouse.move(x + away, y)
    mouse.down()
    mouse.up()
    assert (slider.input_value() == "200") == holds


@pytest.mark.browser
def test_a_thumb_is_24_pixels_high(dial):
    slider = dial.get_by_label("query at m")
    slider.fill("200")
    x, y = thumb(slider)
    mouse = dial.page.mouse
    for away in (-11, 11):
        mouse.move(x, y + away)
        mouse.down()
        mouse.move(x + 40, y + away)
        mouse.up()
        assert slider.input_value() != "200"
        slider.fill("200")
