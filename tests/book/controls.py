"""Move the controls of a figure, and read its words."""

import json
import re

import pytest

from book.figures.bake import FOLDER
from tests.book.conftest import Visit
from tests.book.pages import FIGURES

#: For JavaScript about a figure, `place`: move a control to a value at once,
#: unlike a hand; the figure hears of it all the same.
PUT = """const put = (name, value) => {
    const own = label => [...label.childNodes].map(x => x.data ?? "").join("");
    const control = [...place.querySelectorAll("label")].find(
        label => own(label).trim() === name).control;
    if (control.disabled) return;
    if (control.type === "checkbox") control.checked = value;
    else control.value = value;
    control.dispatchEvent(new Event("input", {bubbles: true}));
};"""


class Figure:
    """A figure on its page, as a locator: its controls, and its words."""

    def __init__(self, place):
        self.place = place

    def __getattr__(self, name):
        return getattr(self.place, name)

    def heard(self):
        """Return what the figure says."""
        words = self.locator("[aria-live]").inner_text()
        return words.replace("\xa0", " ")

    def put(self, **values):
        """Move controls to values at once, in order; a blank is ``_``."""
        named = [[name.replace("_", " "), x] for name, x in values.items()]
        self.evaluate(
            f"(place, named) => {{ {PUT} named.forEach(x => put(...x)); }}",
            named,
        )

    def press_to(self, label, value):
        """Move a slider to a value by arrow keys alone."""
        slider = self.get_by_label(label, exact=True)
        slider.focus()
        while (now := int(slider.input_value())) != value:
            slider.press("ArrowRight" if now < value else "ArrowLeft")
            assert int(slider.input_value()) != now

    def drag(self, board, *points):
        """Press the mouse on a board's first point, and pull it to the rest.

        A point is a share of the board's width and one of its height.
        """
        board.scroll_into_view_if_needed()
        at = board.bounding_box()
        mouse = self.page.mouse
        for n, (x, y) in enumerate(points):
            mouse.move(at["x"] + x * at["width"], at["y"] + y * at["height"])
            if n == 0:
                mouse.down()
        mouse.up()


def opened_figure(name, theme="dark", width=390, motion=None):
    """Make a fixture: the figure on its page, opened once for a module.

    Every test puts it where it needs it.
    """

    @pytest.fixture(scope="module")
    def figure(browser, address):
        with Visit(browser, address, FIGURES[name], theme, width) as seen:
            seen.tab.emulate_media(reduced_motion=motion)
            yield Figure(seen.tab.locator(f"[data-touch={name}]"))

    return figure


def baked(name):
    """Return the numbers of a figure."""
    text = (FOLDER / f"{name}.data.js").read_text("utf-8")
    return json.loads(text.partition(" = ")[2].rstrip(";\n"))


def numbers_of(text):
    """Return the numbers of a text, in which minus is a sign of its own."""
    text = text.replace("−", "-")
    return [float(x) for x in re.findall(r"-?\d+\.?\d*", text)]
