"""The front page begins: nine lines that run, a way in, chapters, ticks."""

import json
import math
import re

import pytest
import torch
import torch.nn.functional as F

import attn
from attn.exercises import APPENDICES, CHAPTERS
from attn.exercises.spec import chapter
from tests.book.pages import ROOT, chapters, soup

PAGE = "book/intro"
FIRST = chapters()[0]


@pytest.fixture(scope="module")
def front(book):
    return soup(book / f"{PAGE}.html").find("article")


def test_the_nine_lines_compute_attention(front):
    """As they are on the page, run beside PyTorch's and the package's."""
    lines = [x.get_text() for x in front.select(".nine-lines .code")]
    names = {"math": math}
    exec("".join(lines), names)
    g = torch.Generator().manual_seed(0)
    q = torch.randn(2, 3, 5, 8, generator=g)
    k, v = torch.randn(2, 2, 3, 7, 8, generator=g)
    keep = torch.rand(5, 7, generator=g) < 0.7
    keep[:, 0] = True
    assert len(lines) == 9
    for mask in (None, keep):
        for scale in (None, 0.5):
            mine = names["nine_lines"](q, k, v, mask, scale)
            for other in (F.scaled_dot_product_attention, attn.attention):
                right = other(q, k, v, attn_mask=mask, scale=scale)
                torch.testing.assert_close(mine, right)


def test_each_line_leads_to_its_chapters_and_each_chapter_has_a_line(front):
    lines = front.select(".nine-lines .line")
    links = [[a["href"] for a in line.find_all("a")] for line in lines]
    assert all(links)
    assert {link for line in links for link in line} == {
        f"../notebooks/{stem}.html#ch-{key}" for key, stem in CHAPTERS.items()
    }
    for link in front.select(".nine-lines a"):
        assert int(re.search(r"/(\d+)_", link["href"])[1]) == int(link.text)


@pytest.mark.parametrize("key", CHAPTERS)
def test_a_chapters_card_has_its_title_minutes_exercises_and_points(
    front, key
):
    stem = CHAPTERS[key]
    notebook = json.loads((ROOT / f"notebooks/{stem}.ipynb").read_text())
    text = "".join("".join(cell["source"]) for cell in notebook["cells"])
    title = re.search(r"^# (.+)$", text, re.M)[1]
    minutes = re.search(r"in about (\d+) minutes", text)[1]
    exercises = chapter(key)
    worth = sum(x.points for x in exercises)
    (card,) = (
        x
        for x in front.select(".chapter")
        if x.find("a", href=re.compile(stem))
    )
    shown = " ".join(card.get_text().split())
    assert shown.startswith(f"{int(stem[:2])} {title} ")
    assert shown.endswith(
        f" {minutes} minutes · {len(exercises)} exercises · {worth} points"
    )
    own = card.select_one("[data-exercises]")["data-exercises"].split()
    assert own == [x.id for x in exercises]
    assert card.select_one("[aria-hidden=true] > svg")


def test_every_chapter_and_appendix_has_a_card(front):
    assert len(front.select(".chapter")) == len(CHAPTERS) + len(APPENDICES)


def test_without_javascript_there_is_no_control_for_ticks(front, book):
    assert front.select_one("#ticks").has_attr("hidden")
    assert 'class="tick"' not in (book / f"{FIRST}.html").read_text("utf-8")


SCREENS = (390, 844), (1280, 900)
# The numbers whose middle is covered by something else.
COVERED = """() => [...document.querySelectorAll(".nine-lines a")]
.filter(a => {
    a.scrollIntoView({block: "center", behavior: "instant"});
    const {x, y, width, height} = a.getBoundingClientRect();
    return document.elementFromPoint(x + width / 2, y + height / 2) !== a;
}).map(a => a.textContent)"""


@pytest.mark.browser
def test_attention_at_work_and_two_ways_in_are_on_the_first_screen(visit):
    with visit(PAGE, width=390, theme="dark") as seen:
        tab = seen.tab
        assert tab.locator(".secondary-toggle:visible").count() == 0
        start, path = tab.locator(".begin a").all()
        for width, height in SCREENS:
            tab.set_viewport_size({"width": width, "height": height})
            for part in (start, path, tab.locator(".touch-sentence")):
                box = part.bounding_box()
                assert box["y"] + box["height"] < height
            assert box["width"] > 0.7 * min(width, 1000)
            assert box["height"] > height / 4
            assert tab.locator(".nine-lines a").count() > len(CHAPTERS)
            assert tab.evaluate(COVERED) == []
            tab.evaluate("scrollTo({top: 0, behavior: 'instant'})")
        start.click()
        tab.wait_for_url(f"**/{FIRST}.html*", wait_until="commit")


CHOSEN = ".touch-token[aria-checked=true]"


@pytest.mark.browser
def test_the_figure_moves_until_it_is_touched(visit):
    with visit(PAGE) as seen:
        live = seen.tab.locator(".touch [aria-live]")
        chosen = seen.tab.locator(CHOSEN)
        first = chosen.element_handle()
        changed = "e => e.ariaChecked === 'false'"
        seen.tab.wait_for_function(changed, arg=first)
        assert live.get_attribute("aria-live") == "off"
        seen.tab.locator(".touch-token").last.focus()
        assert live.get_attribute("aria-live") == "polite"
        seen.tab.wait_for_timeout(600)  # a step and a half
        assert chosen.inner_text().startswith("it")


NO_STORAGE = """Object.defineProperty(window, "localStorage", {
    get() { throw new DOMException("denied", "SecurityError"); }})"""


@pytest.mark.browser
def test_without_motion_and_storage_the_figure_is_still_and_ticks_are_hidden(
    browser, address
):
    context = browser.new_context(reduced_motion="reduce")
    context.add_init_script(NO_STORAGE)
    tab = context.new_page()
    tab.goto(f"{address}/{PAGE}.html")
    assert tab.locator(".chapter").first.is_visible()
    assert tab.locator("#ticks").is_hidden()
    tab.wait_for_timeout(600)
    assert tab.locator(CHOSEN).inner_text().startswith("it")
    context.close()


@pytest.mark.browser
def test_a_tick_is_kept_counted_exported_erased_and_loaded(visit, tmp_path):
    exercises = [x.id for x in chapter("gqa")]
    with visit(f"notebooks/{CHAPTERS['gqa']}") as seen:
        tab = seen.tab
        tab.get_by_label(f"done: {exercises[1]}").press("Space")
        tab.reload()
        kept = tab.locator(".tick input").evaluate_all(
            "all => all.map(x => x.checked)"
        )
        assert kept == [name == exercises[1] for name in exercises]
        menu = tab.locator(".bd-sidebar-primary a[href='#']")
        assert menu.inner_text().endswith(f" 1 of {len(exercises)}")
        tab.get_by_role("link", name="your own note").click()
        tab.wait_for_url(f"**/{PAGE}.html#ticks")
        card = tab.locator(f".chapter:has([href*='{CHAPTERS['gqa']}'])")
        count = card.locator("[data-exercises]")
        assert count.inner_text() == f"1 of {len(exercises)} ticked"
        panel, start = tab.locator("#ticks"), tab.locator(".begin a").first
        top = panel.bounding_box()["y"]
        assert 0 <= top < tab.viewport_size["height"], "the link leads there"
        assert "no grade" in panel.inner_text()
        assert start.inner_text().startswith("Continue: ")
        with tab.expect_download() as got:
            panel.get_by_role("button", name="Download").press("Enter")
        file = tmp_path / got.value.suggested_filename
        got.value.save_as(file)
        assert json.loads(file.read_text()) == [exercises[1]]
        tab.on("dialog", lambda asked: asked.accept())
        panel.get_by_role("button", name="Erase").press("Enter")
        assert count.inner_text() == ""
        assert start.inner_text().startswith("Start ")

        def load(path):
            with tab.expect_file_chooser() as chosen:
                panel.get_by_text("Load", exact=True).press("Enter")
            chosen.value.set_files(path)

        other = tmp_path / "other.json"
        other.write_text('{"exercises": 3}')
        load(other)
        panel.get_by_text("That file holds no ticks.").wait_for()
        load(file)
        tab.wait_for_function("e => e.textContent", arg=count.element_handle())
        assert count.inner_text() == f"1 of {len(exercises)} ticked"
        assert seen.complaints == [] and seen.outside == []
