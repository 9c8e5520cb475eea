"""Interactive figures work inside a notebook, without the network."""

import re

import pytest

from attn.publishing import touch
from tests.book.pages import FIGURES
from tests.marks import exhaustive_but

THEME = "() => document.documentElement.dataset.theme"
CONTROLS = "input:enabled, [role=radio], select, button:not(code + *)"
SCROLLS = "() => getComputedStyle(document.documentElement).overflowY"
HEIGHT = "() => document.documentElement.offsetHeight"


@pytest.fixture
def shown(offline):
    """Show a figure as a notebook does: in a frame, on a ground of its own."""

    def show(name):
        tab = offline()
        body = '<body style="background: #fff">'
        tab.set_content(body + touch(name)._repr_html_())
        frame = tab.frames[1]
        frame.locator("[aria-live]").first.wait_for()
        return tab, frame

    return show


def moves(frame):
    """Yield after each control was moved, whatever it is."""
    for control in frame.locator(CONTROLS).all():
        if control.get_attribute("type") == "range":
            for key in ("End", "Home"):
                control.press(key)
                yield
            continue
        if control.evaluate("e => e.localName") == "select":
            control.select_option(index=1)
        else:
            control.click()
        yield


@pytest.fixture(params=exhaustive_but(["mask_workbench"], FIGURES))
def name(request):
    return request.param


@pytest.mark.browser
def test_a_figure_moves_offline_in_a_frame_called_by_its_title(shown, name):
    tab, frame = shown(name)
    words = frame.locator("[aria-live]").first
    before = words.inner_text()
    assert before
    assert any(words.inner_text() != before for _ in moves(frame))
    title = touch(name).title
    assert tab.get_by_title(title, exact=True).count() == 1
    assert frame.title() == title
    group = frame.get_by_role("group", name=title, exact=True)
    assert group.get_attribute("data-touch") == name


@pytest.mark.browser
def test_a_figure_has_the_theme_of_the_notebook_and_its_own_height(shown):
    tab, frame = shown("rope_dial")
    box = tab.locator("iframe")
    assert frame.evaluate(SCROLLS) == "hidden"  # a bar would not go away
    assert frame.evaluate(THEME) == "light"
    for width in (1000, 400):
        tab.set_viewport_size({"width": width, "height": 600})
        tab.wait_for_timeout(100)
        needed = frame.evaluate(HEIGHT)
        assert 0 <= box.bounding_box()["height"] - needed < 4
    tab.evaluate("() => { document.body.style.background = '#111' }")
    frame.wait_for_function(f"({THEME})() === 'dark'")
    ground = "() => getComputedStyle(document.documentElement).backgroundColor"
    assert frame.evaluate(ground) == "rgb(17, 17, 17)"


def test_a_figure_is_one_document_that_refers_to_no_other(name):
    page = touch(name).page()
    assert re.findall(r"(?:src|href)=|url\(|@import|fetch\(", page) == []
    assert page.count("<script>") == page.count("</script>") == 4
    for part in (f"Play.data.{name} = ", f'Play.figure("{name}"', ".touch"):
        assert part in page


def test_a_notebook_gives_a_figure_what_the_books_theme_gives_it(name):
    """Each of the theme's variables that a figure uses has a value."""
    page = touch(name).page()
    used = set(re.findall(r"var\((--pst-[\w-]+)", page))
    assert used and used <= set(re.findall(r"(--pst-[\w-]+):", page))


def test_a_figure_that_may_not_run_says_how_to_see_it():
    """JupyterLab takes the frame out of what it does not trust."""
    html = touch("rope_dial")._repr_html_()
    left = re.sub(r"<[^>]*>", "", html)
    assert left == (
        "A figure to touch is here when this cell has run, or when the "
        "notebook is trusted."
    )


def test_a_figure_that_the_book_lacks_is_refused_by_name():
    with pytest.raises(ValueError, match="must be one of .*; got 'dial'"):
        touch("dial")
