"""The book in a real browser: whole, offline, accessible, on any screen."""

import re

import pytest

from book.speed import MEASURED
from tests.book.conftest import SETTLED, Visit
from tests.book.pages import KINDS, ROOT, chapters, pages, views

pytestmark = pytest.mark.browser

AXE = (ROOT / "tests" / "book" / "axe" / "axe.min.js").read_text("utf-8")
# What passes is not wanted, nor where it stands: a fifth of the time.
FOUND = """rules => axe.run(document, {resultTypes: ["violations"],
    selectors: false, ...(rules && {runOnly: rules})}).then(r => r.violations
    .filter(v => ["serious", "critical"].includes(v.impact)
        || v.tags.some(tag => /^wcag2\\d?aa?$/.test(tag)))
    .map(v => v.id + ": " + v.nodes.slice(0, 3).map(n => n.html.slice(0, 160)
        + " " + (n.any[0] || {}).message).join(" | ")))"""


@pytest.fixture(scope="module", params=views())
def seen(request, browser, address):
    """A page, opened once for all tests that only look."""
    with Visit(browser, address, request.param) as opened:
        yield opened


def test_a_page_makes_no_outside_request_and_logs_no_error(seen):
    assert seen.outside == []
    assert seen.complaints == []


def test_a_page_weighs_at_most_a_megabyte_and_a_half(seen):
    """With all that it loads, but its own pictures."""
    weighed = seen.tab.evaluate(MEASURED)["page"]
    assert 200_000 < weighed <= 1_500_000


# Contrast takes half of the time, and depends on colours and size only: the
# rule looks at one text of each kind.
ONE_OF_EACH_KIND = """() => {
    const kinds = new Set(), clear = "rgba(0, 0, 0, 0)";
    for (const e of document.querySelectorAll("body *")) {
        delete e.dataset.kind;
        if (![...e.childNodes].some(n => n.data?.trim())) continue;
        if (!e.checkVisibility()) continue;
        const own = getComputedStyle(e), grounds = new Set();
        for (let up = e; up; up = up.parentElement) {
            const at = getComputedStyle(up);
            grounds.add(at.opacity).add(at.backgroundImage);
            if (at.backgroundColor !== clear) {
                grounds.add(at.backgroundColor);
                break;
            }
        }
        const kind = [own.color, own.fontSize, own.fontWeight, ...grounds];
        if (!kinds.has(kind.join())) e.dataset.kind = "";
        kinds.add(kind.join());
    }
    axe.configure({rules: [{id: "color-contrast", selector: "[data-kind]"}]});
}"""

AT_REST = """() => document.getAnimations().forEach(
    x => x.effect.getTiming().iterations === Infinity || x.finish())"""


def serious_violations(seen, theme, prepare="0", rules=None):
    """Return the violations of a page in this theme, after a script.

    Args:
        rules: those to look for; all when None.
    """
    shown = seen.tab.evaluate("document.documentElement.dataset.theme")
    assert shown == theme
    seen.tab.evaluate(AXE)
    seen.tab.evaluate(prepare)
    seen.tab.evaluate(AT_REST)  # text that fades in has no contrast yet
    return seen.tab.evaluate(FOUND, rules)


@pytest.mark.parametrize("seen", KINDS, indirect=True)
def test_a_page_has_no_serious_axe_violation(seen):
    assert serious_violations(seen, "light", ONE_OF_EACH_KIND) == []


OPEN_ALL = """() => {
    for (const box of document.querySelectorAll("details")) {
        box.hidden = false;
        box.open = true;
    }
}"""

#: What depends on the theme: colours, and pictures that have two versions.
OF_THE_THEME = ["color-contrast", "link-in-text-block", "image-alt"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("page", pages())
def test_no_element_of_an_opened_page_violates_axe(visit, page):
    """The contrast of every text is measured once, else of each kind.

    What a phone shows in the light is alike on all pages but one of a kind.
    """
    looks = [
        (1280, "light", "0", None),
        (1280, "dark", ONE_OF_EACH_KIND, OF_THE_THEME),
        (390, "dark", ONE_OF_EACH_KIND, None),
    ]
    if page in KINDS:
        looks.append((390, "light", ONE_OF_EACH_KIND, OF_THE_THEME))
    with visit(page) as seen:
        seen.tab.evaluate(OPEN_ALL)
        for width, theme, kinds, rules in looks:
            seen.tab.set_viewport_size({"width": width, "height": 900})
            seen.tab.emulate_media(color_scheme=theme)
            seen.tab.evaluate(SETTLED)
            assert serious_violations(seen, theme, kinds, rules) == []


OVERFLOW = "document.documentElement.scrollWidth - window.innerWidth"


def sideways_overflow(seen):
    """Return by how many pixels a page is wider than its window."""
    return seen.tab.evaluate(OVERFLOW)


def test_a_page_does_not_scroll_sideways_in_a_narrow_window(seen):
    before = seen.tab.viewport_size
    seen.tab.set_viewport_size({"width": 360, "height": 900})
    assert sideways_overflow(seen) <= 0
    seen.tab.set_viewport_size(before)


TOO_WIDE = """() => [...document.querySelectorAll(".cell_input pre")]
    .filter(e => e.offsetParent && e.scrollWidth > e.clientWidth + 1)
    .map(e => e.textContent.slice(0, 80))"""


def test_code_and_inline_formulas_need_no_scroll_bar(seen):
    """At 1280 pixels, beside both sidebars, lines of 79 characters fit."""
    assert seen.tab.evaluate(TOO_WIDE) == []
    boxes = (
        "[...document.querySelectorAll('span.math')]"
        ".filter(e => getComputedStyle(e).overflowX === 'auto').length"
    )
    assert seen.tab.evaluate(boxes) == 0


def test_formulas_are_typeset_with_katex_and_mathml(seen):
    """In KaTeX's fonts, and as MathML; what is wrong the builder reports."""
    formulas = seen.tab.locator(".math").count()
    read = seen.tab.locator(".math .katex-mathml math").count()
    fonts = seen.tab.evaluate(
        "[...document.fonts].filter(x => x.family === 'KaTeX_Main'"
        " && x.status === 'loaded').length"
    )
    assert read == formulas
    assert (fonts > 0) == (formulas > 0)
    assert formulas or seen.page not in chapters()


def test_every_figure_is_loaded_and_has_alt_text(seen):
    figures = seen.tab.evaluate(
        "[...document.querySelectorAll('.bd-article img')]"
        ".map(i => [i.alt, i.naturalWidth, i.src])"
    )
    for words, width, source in figures:
        assert len(words) > 20, source
        assert width > 0, source
    drawings = seen.tab.evaluate(
        "[...document.querySelectorAll('.drawn')].map(box =>"
        "[...box.querySelectorAll('svg[role=img]')].map(x => x.ariaLabel))"
    )
    for labels in drawings:
        assert labels and all(len(words) > 20 for words in labels)
    if seen.page in chapters():
        assert len(figures) + len(drawings) >= 5


def results(seen):
    """Wait for what the search finds; returns the words of its links."""
    seen.tab.wait_for_selector("ul.search li a", timeout=10_000)
    seen.tab.wait_for_function(  # when the last result is on the page
        "() => document.querySelector('.search-summary').innerText"
    )
    return seen.tab.locator("ul.search li a").all_inner_texts()


def test_the_search_finds_a_term_and_quotes_prose(visit):
    """Every plot calls `plot.figure`, and no excerpt has to show it."""
    with visit("search", asked="?q=figure") as seen:
        results(seen)
        seen.tab.wait_for_selector("p.context >> nth=7", timeout=10_000)
        excerpts = seen.tab.locator("p.context").all_inner_texts()
        code = re.compile(r"plot\.figure|\bax\b|^import|[\\{}]")
        assert [x for x in excerpts if code.search(x)] == []
        seen.tab.goto(f"{seen.home}/search.html?q=softmax")
        assert any("dot-product" in text.lower() for text in results(seen))
        first = seen.tab.locator("ul.search li p.context").first
        assert len(first.inner_text()) > 60, "the glossary's own words"
        assert seen.complaints == []
        seen.tab.goto(f"{seen.home}/search.html?q=masks")
        assert results(seen)[0].endswith("Masks"), "chapters come first"


def test_search_in_a_book_from_a_file_explains_missing_excerpts(browser, book):
    with Visit(browser, book.as_uri(), "search", asked="?q=softmax") as seen:
        assert any("dot-product" in text.lower() for text in results(seen))
        article = seen.tab.locator(".bd-article-container").inner_text()
        assert "no excerpts, because the book is opened from a file" in article
        assert seen.complaints == []
        assert seen.outside == []


COLOURS = r"""e => ["color", "backgroundColor"].map(name =>
    getComputedStyle(e)[name].match(/\d+/g).slice(0, 3).map(Number))"""


def test_without_javascript_a_page_has_its_colours_its_menu_and_its_folds(
    without_javascript,
):
    size = {"width": 390, "height": 900}
    how = {"color_scheme": "dark", "viewport": size}
    tab = without_javascript("notebooks/05_gqa", **how)
    assert tab.evaluate(OVERFLOW) <= 0
    for part in ("body", ".cell_input pre", ".exercise-card"):
        text, ground = tab.locator(part).first.evaluate(COLOURS)
        assert sum(text) < 200 and sum(ground) > 600, "light, as configured"
    fold = tab.locator("details.above-input").first
    assert not fold.locator("pre").is_visible()
    fold.locator("summary", has_text="Code of this figure").click()
    assert fold.locator("pre").is_visible()
    menu = tab.locator(".bd-sidebar-primary nav a:visible")
    assert menu.count() > len(chapters())
    target = menu.last.get_attribute("href").rpartition("/")[2]
    menu.last.click()
    tab.wait_for_url(f"**/{target}")
