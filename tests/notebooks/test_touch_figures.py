"""Interactive figures work inside a notebook, without the network."""

import re

import pytest

from attn.publishing import touch
from tests.book.pages import FIGURES, exhaustive_but

THEME = "() => document.documentElement.dataset.theme"
CONTROLS = "input:enabled, [role=radio], select, button:not(code + *)"
HEIGHT = "() => document.documentElement.offsetHeight"


class Shown:
    """A figure as a notebook shows it: in a frame, on a ground of its own."""

    def __init__(self, browser, name):
        context = browser.new_context(offline=True)
        self.tab = context.new_page()
        self.complaints, self.requests = [], []
        self.tab.on("console", lambda x: self.complaints.append(x.text))
        self.tab.on("pageerror", lambda x: self.complaints.append(str(x)))
        self.tab.on("request", lambda x: self.requests.append(x.url))
        body = '<body style="background: #fff">'
        self.tab.set_content(body + touch(name)._repr_html_())
        self.frame = self.tab.frames[1]
        self.words = self.frame.locator("[aria-live]").first
        self.words.wait_for()

    def moves(self):
        """Yield after each control was moved, whatever it is."""
        for control in self.frame.locator(CONTROLS).all():
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
def test_a_figure_moves_offline_in_a_frame_of_its_own(browser, name):
    shown = Shown(browser, name)
    before = shown.words.inner_text()
    assert before
    assert any(shown.words.inner_text() != before for _ in shown.moves())
    assert shown.complaints == []
    assert [x for x in shown.requests if not x.startswith("about:")] == []
    shown.tab.context.close()


@pytest.mark.browser
def test_a_figure_has_the_theme_of_the_notebook_and_its_own_height(browser):
    shown = Shown(browser, "rope_dial")
    box = shown.tab.locator("iframe")
    assert shown.frame.evaluate(THEME) == "light"
    for width in (1000, 400):
        shown.tab.set_viewport_size({"width": width, "height": 600})
        shown.tab.wait_for_timeout(100)
        needed = shown.frame.evaluate(HEIGHT)
        assert 0 <= box.bounding_box()["height"] - needed < 4
    shown.tab.evaluate("() => { document.body.style.background = '#111' }")
    shown.frame.wait_for_function(f"({THEME})() === 'dark'")
    ground = "() => getComputedStyle(document.documentElement).backgroundColor"
    assert shown.frame.evaluate(ground) == "rgb(17, 17, 17)"
    shown.tab.context.close()


@pytest.mark.browser
def test_the_frame_and_the_figure_are_called_by_its_title(browser, name):
    shown = Shown(browser, name)
    title = touch(name).title
    assert shown.tab.get_by_title(title, exact=True).count() == 1
    assert shown.frame.title() == title
    group = shown.frame.get_by_role("group", name=title, exact=True)
    assert group.get_attribute("data-touch") == name
    shown.tab.context.close()


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
