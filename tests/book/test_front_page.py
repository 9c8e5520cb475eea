"""The front page begins: a door, paths, chapters, ticks; then nine lines."""

import json
import math
import re

import pytest
import torch
import torch.nn.functional as F

import attn
from attn.data.book import origin
from attn.exercises import APPENDICES, CHAPTERS
from attn.exercises.cells import box
from attn.exercises.spec import chapter
from attn.publishing.myst_to_markdown.targets import notebook
from book.paper import parts
from tests.book.pages import ROOT, chapters, soup

PAGE, DOOR = "book/intro", "book/five-minutes"
FIRST = chapters()[0]


@pytest.fixture(scope="module")
def front(book):
    return soup(book / f"{PAGE}.html").find("article")


@pytest.fixture(scope="module")
def door(book):
    return soup(book / f"{DOOR}.html").find("article")


def test_the_nine_lines_compute_attention(door):
    """As they are on the page, run beside PyTorch's and the package's."""
    lines = [x.get_text() for x in door.select(".nine-lines .code")]
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


def test_each_line_leads_to_its_chapters_and_each_chapter_has_a_line(door):
    lines = door.select(".nine-lines .line")
    links = [[a["href"] for a in line.find_all("a")] for line in lines]
    assert all(links)
    assert {link for line in links for link in line} == {
        f"../notebooks/{stem}.html#ch-{key}" for key, stem in CHAPTERS.items()
    }
    for link in door.select(".nine-lines a"):
        assert int(re.search(r"/(\d+)_", link["href"])[1]) == int(link.text)


@pytest.mark.parametrize("key", CHAPTERS)
def test_a_chapters_card_has_title_minutes_exercises_and_points(front, key):
    stem = CHAPTERS[key]
    text = "".join("".join(x["source"]) for x in notebook(stem)["cells"])
    title = re.search(r"^# (.+)$", text, re.M)[1]
    minutes = re.search(r"in about (\d+) minutes", text)[1]
    exercises = chapter(key)
    worth = sum(x.points for x in exercises)
    (card,) = front.select(f".chapter:has(a[href*='{stem}'])")
    shown = " ".join(card.get_text().split())
    assert shown.startswith(f"{int(stem[:2])} {title} ")
    assert shown.endswith(
        f" {minutes} minutes · {len(exercises)} exercises · {worth} points"
    )
    own = card.select_one("[data-exercises]")["data-exercises"].split()
    assert own == [x.id for x in exercises]
    assert card.select_one("[aria-hidden=true] > svg")


def test_every_chapter_and_appendix_has_a_card_in_its_part(front):
    assert len(front.select(".chapter")) == len(CHAPTERS) + len(APPENDICES)
    heads = front.select("#the-four-parts h3")
    names = [x.find(string=True) for x in heads]
    numbered = {*chapters()}
    assert names[:-1] == [x for x, own in parts(ROOT) if numbered & {*own}]
    for head in heads:
        assert head.find_next("p").get_text().endswith(".")


def test_what_a_newcomer_asks_comes_in_this_order(front):
    """What it is, how long, what one needs; the cards; where to get it."""
    titles = [x.find(string=True) for x in front.select("section h2")]
    assert titles == [
        "Three paths",
        "What you need",
        "What you will be able to do",
        "The four parts",
        "Get the book",
        "When something is wrong",
    ]


def test_a_path_takes_the_hours_of_its_chapters(front):
    ways = front.select(".way")
    assert len(ways) == 3
    minutes = {stem: int(box(notebook(stem))[1]) for stem in CHAPTERS.values()}
    for way in ways:
        links = [a["href"] for a in way.select(".sd-card-footer a")]
        stems = [re.search(r"/(\w+)\.html", x)[1] for x in links]
        hours = round(sum(minutes[x] for x in stems) / 60)
        assert len(stems) > 3 and f"{hours} hours" in way.get_text()
    whole = round(sum(minutes.values()) / 60)
    assert f"about {whole} hours" in " ".join(front.get_text().split())


@pytest.mark.parametrize("address", ["", "https://git.example/a/book"])
def test_one_setting_says_where_to_get_the_book(front, address, tmp_path):
    said = " ".join(front.get_text().split())
    assert origin().replace("`", "") in said or "git clone" in said
    assert (f"git clone {address}`" in origin(address)) == bool(address)
    assert f"**Get it.** {origin()}\n" in (ROOT / "README.md").read_text()


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
def test_the_finding_and_two_ways_in_are_on_the_first_screen(visit):
    """On a phone what the figure has found is above its tokens."""
    with visit(PAGE, width=390, theme="dark") as seen:
        tab = seen.tab
        assert tab.locator(".secondary-toggle:visible").count() == 0
        tab.locator(".touch").first.dispatch_event("pointerover")  # stops
        door, start = tab.locator(".begin a").all()
        found = tab.locator(".touch-live")
        animal = tab.locator(".touch-token", has_text="animal")
        for width, height in SCREENS:
            tab.set_viewport_size({"width": width, "height": height})
            for part in (door, start, found, animal):
                box = part.bounding_box()
                assert box["y"] + box["height"] < height
            assert "68 % of “it”’s" in found.inner_text().replace("\xa0", " ")
        tab.set_viewport_size({"width": 390, "height": 844})
        tab.wait_for_timeout(100)  # containers are measured a frame later
        at, row = found.bounding_box(), animal.bounding_box()
        assert at["y"] + at["height"] < row["y"] and row["height"] >= 32
        door.click()
        tab.wait_for_url(f"**/{DOOR}.html", wait_until="load")
        assert tab.locator(".nine-lines a").count() > len(CHAPTERS)
        for width, height in SCREENS:
            tab.set_viewport_size({"width": width, "height": height})
            assert tab.evaluate(COVERED) == []
        tab.locator(".begin a").first.click()
        tab.wait_for_url(f"**/{FIRST}.html*", wait_until="commit")


CHOSEN = ".touch-token[aria-checked=true]"


@pytest.mark.browser
def test_the_figure_moves_until_it_is_touched(visit):
    with visit(PAGE) as seen:
        live = seen.tab.locator(".touch [aria-live]").first
        found = seen.tab.locator(".touch-live:visible")
        chosen = seen.tab.locator(CHOSEN)
        first = chosen.element_handle()
        changed = "e => e.ariaChecked === 'false'"
        seen.tab.wait_for_function(changed, arg=first)
        assert live.get_attribute("aria-live") == "off"
        assert found.inner_text().startswith("68")  # meanwhile
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
        checked = "all => all.map(x => x.checked)"
        kept = tab.locator(".tick input").evaluate_all(checked)
        assert kept == [name == exercises[1] for name in exercises]
        menu = tab.locator(".bd-sidebar-primary a[href='#']")
        assert menu.inner_text().endswith(f" 1 of {len(exercises)}")
        tab.get_by_role("link", name="your own note").click()
        tab.wait_for_url(f"**/{PAGE}.html#ticks")
        card = tab.locator(f".chapter:has([href*='{CHAPTERS['gqa']}'])")
        count = card.locator("[data-exercises]")
        assert count.inner_text() == f"1 of {len(exercises)} ticked"
        panel, start = tab.locator("#ticks"), tab.locator(".begin a").last
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
