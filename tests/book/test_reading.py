"""The book with a finger, with the keyboard only, and on paper."""

import pytest

from tests.book.conftest import Visit
from tests.book.pages import pages
from tests.marks import exhaustive_but

pytestmark = pytest.mark.browser
PHONE = 390
CHAPTER = "notebooks/03_masks"
#: A page without formulas and figures: it opens in a fifth of the time.
LIGHT = "book/how-to-work"


def opened_once(page, **how):
    """Make a fixture: a page, which every test leaves as it was."""

    @pytest.fixture(scope="module")
    def tab(browser, address):
        with Visit(browser, address, page, **how) as seen:
            yield seen.tab

    return tab


phone = opened_once(LIGHT, width=PHONE)
light = opened_once(LIGHT)
opened = opened_once(CHAPTER, theme="dark")


def test_the_contents_of_a_page_open_on_a_phone(phone):
    phone.locator(".secondary-toggle:visible").click()
    link = phone.locator(".bd-sidebar-secondary a:visible").last
    place = link.get_attribute("href")
    link.click()
    assert phone.evaluate("location.hash") == place
    assert phone.locator("dialog[open]").count() == 0
    assert phone.locator(f"[id='{place[1:]}']").is_visible()


def test_the_menu_leads_to_another_page_on_a_phone(phone):
    here, menu = phone.url, phone.locator(".primary-toggle:visible")
    assert menu.count() == 1
    menu.click()
    last = phone.locator(".bd-sidebar-primary nav a:visible").last
    target = last.get_attribute("href").rpartition("/")[2]
    last.click()
    phone.wait_for_url(f"**/{target}")
    phone.goto(here)


@pytest.mark.parametrize("side", ["primary", "secondary"])
def test_a_drawer_has_a_close_button_and_escape_leaves_nothing(phone, side):
    drawer = phone.locator("dialog[open]")
    left = phone.locator("dialog[open], .tooltip:visible")
    phone.locator(f".{side}-toggle:visible").click()
    drawer.get_by_role("button", name="Close", exact=True).click()
    assert left.count() == 0
    phone.locator(f".{side}-toggle").focus()
    phone.keyboard.press("Enter")
    assert drawer.count() == 1
    phone.keyboard.press("Escape")
    phone.wait_for_timeout(300)  # a tooltip fades in
    assert left.count() == 0


EDGES = """box => new Promise(done => {
    const more = () => getComputedStyle(box).maskImage === "none"
        ? "" : box.dataset.more ?? "";
    const seen = [more()];
    box.addEventListener("scroll", () => setTimeout(() => {
        seen.push(more());
        done(seen);
    }), {once: true});
    box.scrollTo({left: 1e6, behavior: "instant"});
})"""


def test_what_scrolls_fades_at_the_edge_where_there_is_more(visit):
    with visit(CHAPTER, width=PHONE) as seen:
        wide = seen.tab.locator("[data-more]:is(pre, div.math)")
        assert wide.count() > 5
        for box in (wide.first, wide.last):
            assert box.evaluate(EDGES) == ["right", "left"]
        cut = "e => e.scrollWidth > e.clientWidth + 1 && !e.dataset.more"
        boxes = seen.tab.locator(".bd-article :is(pre, div.math):visible")
        assert boxes.evaluate_all(f"all => all.filter({cut}).length") == 0
        seen.tab.evaluate("scrollTo(0, 4000)")
        seen.tab.evaluate("scrollBy(0, -400)")  # then the button appears
        assert not seen.tab.locator("#pst-back-to-top").is_visible()


def test_the_menu_closes_and_opens_on_a_desktop(light):
    side = light.locator(".bd-sidebar-primary nav").first
    assert side.is_visible()
    for state in ("hidden", "visible"):
        light.locator(".primary-toggle:visible").click()
        side.wait_for(state=state)


def test_escape_ends_the_tooltip_of_a_button(light):
    button = light.locator(".theme-switch-button:visible").first
    button.hover()
    tip = light.locator(".tooltip")
    tip.wait_for(state="visible")
    light.keyboard.press("Escape")
    tip.wait_for(state="hidden", timeout=2000)


def copied(tab, box):
    """Return what the button of a box copies."""
    tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    box.hover()
    box.locator("button.copybtn").click()
    tab.wait_for_selector("button.copybtn.success")
    return tab.evaluate("navigator.clipboard.readText()")


def test_the_copy_button_copies_the_command_without_its_prompt(light):
    box = light.locator("div.highlight-console").first
    assert copied(light, box).strip() == "make lab"


def test_the_icons_need_no_script(light):
    drawn = (
        "[...document.fonts].filter(f => f.status === 'loaded'"
        " && f.family.includes('Awesome')).length"
    )
    assert light.evaluate(drawn) >= 1
    scripts = "[...document.scripts].map(s => s.src).join()"
    assert "fontawesome" not in light.evaluate(scripts)


def test_hints_are_revealed_one_at_a_time(visit):
    with visit("notebooks/05_gqa") as seen:
        card = seen.tab.locator(".exercise-card").first
        hints = seen.tab.locator("details.exercise-hint")
        shown = "details.exercise-hint:visible"
        exercises = seen.tab.locator(".exercise-card").count()
        assert card.is_visible() and hints.count() == 3 * exercises
        assert seen.tab.locator(shown).count() == exercises
        for opened in (1, 2):
            hints.nth(opened - 1).locator("summary").click()
            hints.nth(opened).wait_for(state="visible")
            assert seen.tab.locator(shown).count() == exercises + opened


BAR = "e => getComputedStyle(e).borderLeftColor"


def test_only_an_exercise_and_a_check_have_a_coloured_bar(opened):
    kinds = {}
    for kind in ("exercise", "check"):
        boxes = opened.locator(f".cell.tag_{kind} > .cell_input")
        kinds[kind] = boxes.first.evaluate(BAR)
    plain = ".cell:not(.tag_exercise, .tag_check) > .cell_input"
    bars = opened.locator(plain).evaluate_all(f"all => all.map({BAR})")
    (colour,) = set(bars)
    assert len({colour, *kinds.values()}) == 3


def test_a_solution_opens_on_a_click(opened):
    box = opened.locator("details.exercise-solution").first
    assert not box.locator("pre").is_visible()
    box.locator("summary").click()
    box.locator("pre").wait_for()
    box.locator("summary").click()


# What the keyboard comes to, until it comes to the first once more.
WATCH = """() => {
    window.stops = [];
    const seen = new Set(), done = new AbortController();
    window.round = false;
    document.addEventListener("focusin", () => {
        const e = document.activeElement, s = getComputedStyle(e);
        if (seen.has(e)) {
            window.round = stops[0].e === e;
            return done.abort();
        }
        seen.add(e);
        const name =
            `${e.tagName} ${e.className} ${e.textContent.slice(0, 40)}`;
        const ring = s.outlineStyle !== "none"
            && parseFloat(s.outlineWidth) >= 1 || s.boxShadow !== "none";
        const acts = e.matches("a, button, input, summary, select")
            || ["application", "textbox"].includes(e.getAttribute("role"));
        const scrolls = e.scrollWidth > e.clientWidth + 1;
        stops.push({e, name, ring, useful: acts || scrolls});
    }, {signal: done.signal});
}"""
ROUND = "window.round && stops.map(({e, ...stop}) => stop)"


@pytest.mark.parametrize("page", exhaustive_but([LIGHT], pages()))
def test_every_keyboard_focus_is_visible_and_useful(visit, page):
    """From the first stop to the last, and round again."""
    with visit(page, theme="dark") as seen:
        seen.tab.evaluate(WATCH)
        for _ in range(30):
            for _ in range(20):
                seen.tab.keyboard.press("Tab")
            if stops := seen.tab.evaluate(ROUND):
                break
    assert stops and len(stops) > 10
    assert [x["name"] for x in stops if not x["ring"]] == []
    assert [x["name"] for x in stops if not x["useful"]] == []


def test_print_is_light_and_shows_the_answers_to_the_questions(opened):
    closed = "document.querySelectorAll('article details:not([open])').length"
    before = opened.evaluate(closed)
    assert before > 5
    opened.evaluate("dispatchEvent(new Event('beforeprint'))")
    opened.emulate_media(media="print")
    assert opened.evaluate(closed) == 0
    theme = "document.documentElement.dataset.theme"
    assert opened.evaluate(theme) == "light"
    shown = opened.locator("details.exercise-solution:visible").count()
    assert shown == 0, "a solution spoils an exercise on paper, too"
    label = opened.locator("details.above-input summary").first
    assert label.inner_text().strip().startswith("Code of this")
    fades = (
        "[...document.querySelectorAll('details.above-input > pre,"
        " details.above-input > div')].filter("
        "e => getComputedStyle(e).animationName !== 'none').length"
    )
    assert opened.evaluate(fades) == 0, "printed while still blank"
    answers = opened.locator("details:visible").count()
    assert answers > 3
    opened.emulate_media(media="screen")
    opened.evaluate("dispatchEvent(new Event('afterprint'))")
    assert opened.evaluate(closed) == before
    assert opened.evaluate(theme) == "dark"


IN_VIEW = """() => {
    const top = (e) => Math.round(e.getBoundingClientRect().y);
    const entry = [...document.querySelectorAll(
        ".bd-sidebar-primary .current > a")].pop();
    const search = document.querySelector(".search-button-field");
    return [entry.textContent, top(entry), top(search)];
}"""


def test_the_column_shows_its_page_and_the_search_however_it_was(visit):
    """The theme restores how far the page before had scrolled it."""
    with visit("book/intro") as seen:
        for page, name in (
            ("notebooks/18_latent_sparse", "18 "),
            ("notebooks/05_gqa", "5 "),
            ("book/api/masks", "attn.masks"),
            ("book/notation", "Notation"),
        ):
            seen.tab.goto(f"{seen.home}/{page}.html")
            seen.tab.wait_for_timeout(50)
            text, entry, search = seen.tab.evaluate(IN_VIEW)
            assert text.strip().startswith(name)
            assert 60 < entry < 860 and 0 <= search < 160


def test_the_drawer_of_a_phone_opens_at_its_page(visit):
    with visit("notebooks/16_serving", width=PHONE) as seen:
        seen.tab.locator(".primary-toggle:visible").click()
        seen.tab.wait_for_timeout(100)
        assert 60 < seen.tab.evaluate(IN_VIEW)[1] < 860


def test_the_contents_mark_nothing_at_the_top_of_a_page(visit):
    marked = "[...document.querySelectorAll('.page-toc a.active')].length"
    with visit(CHAPTER) as seen:
        to = "top => scrollTo({top, behavior: 'instant'})"
        for top, count in ((9000, 1), (0, 0)):
            seen.tab.evaluate(to, top)
            seen.tab.wait_for_function(f"{marked} === {count}")


STAYS = """table => {
    const first = row => row.cells[0].getBoundingClientRect().x;
    const before = [...table.rows].map(first);
    table.parentElement.scrollLeft = 120;
    return table.parentElement.scrollLeft > 100
        && [...table.rows].every((row, i) => first(row) - before[i] > -2);
}"""
#: Numbers of which a part is on the next line.
BROKEN = r"""() => {
    const found = [], range = document.createRange();
    const walk = document.createTreeWalker(
        document.querySelector(".bd-article"), NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) {
        const text = walk.currentNode;
        if (!text.parentElement.closest("td")) continue;
        for (const x of text.data.matchAll(/[\d.,]*\d(e[-+]?\d+)?/g)) {
            range.setStart(text, x.index);
            range.setEnd(text, x.index + x[0].length);
            const tops = [...range.getClientRects()].map(x => x.top);
            if (new Set(tops).size > 1) found.push(x[0]);
        }
    }
    return found;
}"""


def test_a_wide_table_keeps_its_first_column_on_a_phone(visit):
    with visit("notebooks/16_serving", width=PHONE) as seen:
        table = seen.tab.locator("[data-more] > table").last
        assert table.evaluate(STAYS)


@pytest.mark.parametrize("page", exhaustive_but(["book/claims"], pages()))
def test_no_number_of_a_table_breaks(visit, page):
    with visit(page, width=PHONE) as seen:
        assert seen.tab.evaluate(BROKEN) == []
        seen.tab.set_viewport_size({"width": 1280, "height": 900})
        assert seen.tab.evaluate(BROKEN) == []
        colour = "getComputedStyle(document.documentElement)" + (
            ".getPropertyValue('--pst-color-table-row-hover-bg')"
        )
        assert "#d5b4fd" not in seen.tab.evaluate(colour)
