"""The book with a finger, with the keyboard only, and on paper."""

import pytest

from tests.book.pages import chapters, pages

pytestmark = pytest.mark.browser
PHONE = 390


def test_the_menu_leads_to_another_page_on_a_phone(visit):
    with visit(chapters()[0], width=PHONE) as seen:
        menu = seen.tab.locator(".primary-toggle:visible")
        assert menu.count() == 1
        menu.click()
        last = seen.tab.locator(".bd-sidebar-primary nav a:visible").last
        target = last.get_attribute("href").rpartition("/")[2]
        last.click()
        seen.tab.wait_for_url(f"**/{target}")


def test_the_contents_of_a_page_open_on_a_phone(visit):
    with visit(chapters()[0], width=PHONE) as seen:
        seen.tab.locator(".secondary-toggle:visible").click()
        link = seen.tab.locator(".bd-sidebar-secondary a:visible").last
        place = link.get_attribute("href")
        link.click()
        assert seen.tab.evaluate("location.hash") == place


def test_the_menu_closes_and_opens_on_a_desktop(visit):
    with visit(chapters()[0]) as seen:
        side = seen.tab.locator(".bd-sidebar-primary nav").first
        for shown in (False, True):
            seen.tab.locator(".primary-toggle:visible").click()
            seen.tab.wait_for_timeout(400)
            assert side.is_visible() == shown


STOP = """() => {
    const e = document.activeElement, s = getComputedStyle(e);
    const name = `${e.tagName} ${e.className} ${e.textContent.slice(0, 40)}`;
    const ring = s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 1
        || s.boxShadow !== "none";
    const acts = e.matches("a, button, input, summary, select")
        || e.getAttribute("role") === "application";
    const scrolls = e.scrollWidth > e.clientWidth + 1;
    return {name, ring, useful: acts || scrolls, end: e === document.body};
}"""


@pytest.mark.parametrize(
    "page",
    [
        page
        if page == chapters()[1]
        else pytest.param(page, marks=pytest.mark.exhaustive)
        for page in pages()
    ],
)
def test_every_stop_of_the_keyboard_shows_its_ring_and_does_something(
    visit, page
):
    with visit(page) as seen:
        stops = []
        for _ in range(600):
            seen.tab.keyboard.press("Tab")
            stops.append(seen.tab.evaluate(STOP))
            if stops[-1]["end"]:
                break
        assert stops.pop()["end"] and len(stops) > 10
        assert [x["name"] for x in stops if not x["ring"]] == []
        assert [x["name"] for x in stops if not x["useful"]] == []


def test_paper_is_white_and_holds_the_answers_to_the_questions(visit):
    with visit(chapters()[1], theme="dark") as seen:
        closed = "document.querySelectorAll('details:not([open])').length"
        before = seen.tab.evaluate(closed)
        assert before > 5
        seen.tab.evaluate("dispatchEvent(new Event('beforeprint'))")
        seen.tab.emulate_media(media="print")
        assert seen.tab.evaluate(closed) == 0
        theme = "document.documentElement.dataset.theme"
        assert seen.tab.evaluate(theme) == "light"
        shown = seen.tab.locator("details.exercise-solution:visible").count()
        assert shown == 0, "a solution spoils an exercise on paper, too"
        label = seen.tab.locator("details.above-input summary").first
        assert label.inner_text().strip().startswith("Code of this")
        fades = (
            "[...document.querySelectorAll('details.above-input > pre,"
            " details.above-input > div')].filter("
            "e => getComputedStyle(e).animationName !== 'none').length"
        )
        assert seen.tab.evaluate(fades) == 0, "printed while still blank"
        answers = seen.tab.locator("details:visible").count()
        assert answers > 3
        seen.tab.emulate_media(media="screen")
        seen.tab.evaluate("dispatchEvent(new Event('afterprint'))")
        assert seen.tab.evaluate(closed) == before
        assert seen.tab.evaluate(theme) == "dark"


def test_a_copied_command_is_the_command(visit):
    with visit("book/how-to-work") as seen:
        seen.context.grant_permissions(["clipboard-read", "clipboard-write"])
        box = seen.tab.locator("div.highlight-console").first
        box.hover()
        box.locator("button.copybtn").click()
        copied = seen.tab.evaluate("navigator.clipboard.readText()")
        assert copied.strip() == "make lab"


def test_the_icons_need_no_script(visit):
    with visit(chapters()[0]) as seen:
        drawn = (
            "[...document.fonts].filter(f => f.status === 'loaded'"
            " && f.family.includes('Awesome')).length"
        )
        assert seen.tab.evaluate(drawn) >= 1
        scripts = "[...document.scripts].map(s => s.src).join()"
        assert "fontawesome" not in seen.tab.evaluate(scripts)


def test_hints_come_one_at_a_time(visit):
    with visit(chapters()[0]) as seen:
        card = seen.tab.locator(".exercise-card").first
        hints = seen.tab.locator("details.exercise-hint")
        shown = "details.exercise-hint:visible"
        exercises = seen.tab.locator(".exercise-card").count()
        assert card.is_visible() and hints.count() == 3 * exercises
        assert seen.tab.locator(shown).count() == exercises
        for opened in (1, 2):
            hints.nth(opened - 1).locator("summary").click()
            seen.tab.wait_for_timeout(50)
            assert seen.tab.locator(shown).count() == exercises + opened
