"""The museum: an entrance with an index to filter, and a page a room."""

import itertools

import pytest

from attn.exercises.changes import changed_lines
from attn.publishing.museum import SHOWN, exhibits
from attn.publishing.myst_to_markdown.targets import notebook
from book.ext.attn_book.museum import rooms
from tests.book.conftest import Visit
from tests.book.pages import pages, soup
from tests.marks import exhaustive_but

PAGE = "notebooks/museum"
EXHIBITS = exhibits(notebook("museum"))
ROOMS = [f"notebooks/{x}" for x in rooms(notebook("museum")) if x != "museum"]
HIGHLIGHTS = notebook("museum")["metadata"]["attn"]["highlights"]
#: Their repair is other code: no line of it is a change of one that fails.
REWRITTEN = """
    bug-finite-mask bug-first-loss bug-softmax-by-eye bug-no-mask
    bug-float32-mask bug-two-floors bug-unread-argument bug-shared-positions
    bug-other-pairs bug-counting-in-bfloat16 bug-saved-tables
    bug-inexact-reference bug-dead-override bug-listing-never-run
    bug-gone-names bug-heads-wider-than-they-look bug-pairs-of-the-indexer
    bug-more-blocks-than-there-are
"""


@pytest.fixture(scope="module")
def page(book):
    return soup(book / f"{PAGE}.html")


@pytest.fixture(scope="module")
def sections(book):
    """The exhibits by their labels, and the pages of their rooms."""
    return {
        section["id"]: (section, room)
        for room in ROOMS
        for section in soup(book / f"{room}.html").select("section.exhibit")
    }


def test_the_contents_of_the_book_list_each_room_once_in_order():
    assert [x for x in pages() if x.startswith(f"{PAGE}-")] == ROOMS


def test_six_highlights_come_first_with_code_of_their_exhibits(page, sections):
    first = page.select_one("article h2").find_parent("section")
    cards = first.select(".surprise")
    assert len(cards) == len(HIGHLIGHTS) == 6
    for card in cards:
        label = card.a["href"].partition("#")[2]
        _, before, after = HIGHLIGHTS[label]
        section, _ = sections[label]
        assert before in section.select_one(".fails").get_text()
        repaired = section.select_one(".repaired").get_text()
        assert after in repaired and before not in repaired
        assert f"- {before}\n+ {after}" in card.pre.get_text()


def test_a_rooms_card_leads_to_it_and_counts_its_exhibits(page, sections):
    cards = page.select(".sd-card.chapter")
    assert len(cards) == len(ROOMS)
    for card, room in zip(cards, ROOMS, strict=True):
        assert card.a["href"].partition("#")[0] == f"{room[10:]}.html"
        own = [x for x in EXHIBITS if sections[x["label"]][1] == room]
        effects = [x["effect"] for x in own]
        count, silent = len(effects), effects.count("silent")
        said = f"{silent} of them silent"
        if silent in (0, count):
            whole = "both" if count == 2 else "all"
            said = f"{whole} {'silent' if silent else 'loud'}"
        assert f"{count} exhibits, {said}" in card.get_text()


def test_a_rooms_download_is_the_whole_museum(book):
    link = soup(book / f"{ROOMS[0]}.html").select_one('a[href*="_sources"]')
    assert link["href"].endswith("/_sources/notebooks/museum.ipynb")


def test_without_javascript_the_index_is_a_table_of_links(page, sections):
    assert not page.select("form.museum-filters, .exhibit[hidden]")
    rows = page.select("#museum-index tbody tr")
    for row, exhibit in zip(rows, EXHIBITS, strict=True):
        title, *facts = row.find_all("td")
        _, room = sections[exhibit["label"]]
        assert title.a["href"] == f"{room[10:]}.html#{exhibit['label']}"
        assert [x.get_text() for x in facts] == [exhibit[x] for x in SHOWN]


def test_every_exhibit_has_a_permalink_and_its_changes_are_marked(sections):
    for exhibit in EXHIBITS:
        section, _ = sections[exhibit["label"]]
        link = section.find("h2").find("a", class_="headerlink")
        assert link["href"] == f"#{exhibit['label']}"
        parts = (f":scope > .{x}" for x in ("fails", "why", "repaired"))
        fails, why, repaired = map(section.select_one, parts)
        assert fails.select_one(".tag_raises-exception")
        left = [*fails.select(".hll"), *why.select(".hll")]
        right = repaired.select(".hll")
        expected = exhibit["label"] not in REWRITTEN.split()
        assert (bool(left), bool(right)) == (expected, expected), exhibit


def test_a_changed_line_is_found_and_a_new_one_only_in_an_edit():
    changed = changed_lines
    before = "q = read()\n\nk = q + 1\nout = q @ k.T\nprint(out)"
    edit = "q = read()\n\nk = q + 1\ns = 8\nout = q @ k.T / s\nprint(out)"
    other = "import attn\nout = q @ k.T / 8\nassert out.isfinite().all()"
    assert changed(before, edit) == ([4], [4, 5])
    assert changed(before, other) == ([4], [2])
    crossed = "b = g(y, 4)\na = f(x, 3, 4)"
    assert changed("a = f(x, 3)\nb = g(y, 3, 5)", crossed) == ([1], [2])
    assert changed(before, before) == changed("", other) == ([], [])


@pytest.fixture(scope="module")
def museum(browser, address):
    """The museum's entrance, opened once, and its index unfolded."""
    with Visit(browser, address, PAGE) as seen:
        seen.tab.get_by_text("exhibits in one table").click()
        yield seen.tab


def shown(museum, **choices):
    """Choose, and return the exhibits that remain, as they are announced."""
    form = museum.get_by_role("form", name="Filter the exhibits")
    for name, value in choices.items():
        form.get_by_label(name).select_option(value)
    rows = museum.locator("#museum-index tbody tr:visible")
    status = form.get_by_role("status").inner_text()
    assert status == f"{rows.count()} of {len(EXHIBITS)} shown"
    return rows.locator("td:first-child").all_inner_texts()


def expected(**facts):
    return [
        x["title"].replace("`", "").replace("'", "’").strip('"')  # as set
        for x in EXHIBITS
        if all(value in x[fact].split(", ") for fact, value in facts.items())
    ]


NONE = {"effect": "loud", "source": "invented here"}


@pytest.mark.browser
@pytest.mark.parametrize(
    "facts",
    [
        {"effect": "loud"},
        {"room": "11: one pass"},
        {"library": "timm"},  # named second in one exhibit
        {"source": "found here"},
        {"effect": "silent", "library": "pytorch", "source": "public"},
        NONE,
    ],
)
def test_the_index_shows_the_chosen_exhibits_and_then_all(museum, facts):
    titles = [title.strip("“”") for title in shown(museum, **facts)]
    assert titles == expected(**facts)
    assert bool(titles) == (facts != NONE)
    museum.get_by_role("button", name="Show all").press("Enter")
    hidden = "document.querySelector('#museum-index tr[hidden]')"
    museum.wait_for_function(f"!{hidden}")
    assert len(shown(museum)) == len(EXHIBITS)


@pytest.mark.browser
def test_the_index_is_filtered_by_keyboard(museum):
    museum.get_by_label("effect").focus()
    museum.keyboard.press("ArrowDown")
    assert len(shown(museum)) == len(expected(effect="loud"))
    museum.keyboard.press("ArrowUp")
    assert len(shown(museum)) == len(EXHIBITS)


PLACES = {"bug-true-is-one": "mask", "bug-no-mask-is-a-mask": "flex"}
PLACES |= {"museum-rope": "rope"}


@pytest.mark.browser
@pytest.mark.parametrize("place", exhaustive_but([*PLACES][:1], PLACES))
def test_a_permalink_of_the_one_page_leads_to_the_room(place, visit):
    with visit(PAGE, asked=f"#{place}") as seen:
        seen.tab.wait_for_url(f"**/museum-{PLACES[place]}.html#*")
        assert seen.tab.locator(f"#{seen.tab.url.partition('#')[2]}").count()


BOXES = """label => ["h2", ".says", ".fails", ".why", ".mends", ".repaired"]
    .map(part => document.querySelector(`#${label} > ${part}`))
    .map(part => part.getBoundingClientRect())
    .map(box => ({left: box.left, top: box.top, bottom: box.bottom}))"""


def below_each_other(*boxes):
    return all(
        a["left"] == b["left"] and a["bottom"] <= b["top"] + 0.01
        for a, b in itertools.pairwise(boxes)
    )


@pytest.mark.browser
@pytest.mark.parametrize("room", exhaustive_but([f"{PAGE}-iface"], ROOMS))
def test_pairs_are_side_by_side_beside_contents_if_there_is_room(room, visit):
    with visit(room) as seen:
        tab = seen.tab
        labels = tab.evaluate(
            "[...document.querySelectorAll('.exhibit')].map(x => x.id)"
        )
        contents = tab.locator(".bd-sidebar-secondary nav a:visible")
        assert contents.count() == len(labels) > 1
        height = tab.evaluate("document.documentElement.scrollHeight")
        assert height <= 9000
        for width in (1280, 1000, 390):
            tab.set_viewport_size({"width": width, "height": 900})
            for label in labels:
                boxes = tab.evaluate(BOXES, label)
                title, says, fails, why, mends, repaired = boxes
                if width == 390:
                    assert below_each_other(*boxes)
                    continue
                assert below_each_other(title, says, fails, why)
                assert below_each_other(mends, repaired)
                assert fails["top"] == repaired["top"]
                assert fails["left"] + 300 < repaired["left"]
                assert title["bottom"] <= mends["top"]
                assert repaired["bottom"] <= why["top"] + 0.01
