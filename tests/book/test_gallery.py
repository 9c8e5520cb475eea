"""The museum's page: an index to filter, and pairs with marked changes."""

import itertools

import pytest

from attn.exercises.changes import changed_lines
from attn.publishing.myst_to_markdown.museum import SHOWN, exhibits
from attn.publishing.myst_to_markdown.targets import notebook
from tests.book.conftest import Visit
from tests.book.pages import soup

PAGE = "notebooks/museum"
EXHIBITS = exhibits(notebook("museum"))
#: Their repair is other code: no line of it is a change of one that fails.
REWRITTEN = {
    "bug-first-loss",
    "bug-softmax-by-eye",
    "bug-no-mask",
    "bug-float32-mask",
    "bug-two-floors",
    "bug-unread-argument",
    "bug-shared-positions",
    "bug-other-pairs",
    "bug-counting-in-bfloat16",
    "bug-saved-tables",
    "bug-inexact-reference",
    "bug-dead-override",
    "bug-listing-never-run",
    "bug-gone-names",
}


@pytest.fixture(scope="module")
def page(book):
    return soup(book / f"{PAGE}.html")


def test_without_javascript_the_index_is_a_table_of_links(page):
    assert not page.select("form.museum-filters, .exhibit[hidden]")
    rows = page.select("#museum-index tbody tr")
    for row, exhibit in zip(rows, EXHIBITS, strict=True):
        title, *facts = row.find_all("td")
        assert title.a["href"] == f"#{exhibit['label']}"
        assert [x.get_text() for x in facts] == [exhibit[x] for x in SHOWN]


def test_every_exhibit_has_a_permalink_and_its_changes_are_marked(page):
    for exhibit in EXHIBITS:
        section = page.find("section", id=exhibit["label"])
        link = section.find("h3").find("a", class_="headerlink")
        assert link["href"] == f"#{exhibit['label']}"
        fails, why, repaired = (
            section.select_one(f":scope > .{part}")
            for part in ("fails", "why", "repaired")
        )
        assert fails.select_one(".tag_raises-exception")
        left = [*fails.select(".hll"), *why.select(".hll")]
        right = repaired.select(".hll")
        expected = exhibit["label"] not in REWRITTEN
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
    """The museum, opened once."""
    with Visit(browser, address, PAGE) as seen:
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


@pytest.mark.browser
@pytest.mark.parametrize(
    "facts",
    [
        {"effect": "loud"},
        {"room": "11: one pass"},
        {"library": "timm"},  # named second in one exhibit
        {"source": "found here"},
        {"effect": "silent", "library": "pytorch", "source": "public"},
        {"effect": "loud", "source": "invented here"},
    ],
)
def test_the_index_shows_the_chosen_exhibits_and_then_all(museum, facts):
    titles = [title.strip("“”") for title in shown(museum, **facts)]
    assert titles == expected(**facts)
    assert bool(titles) == (
        facts != {"effect": "loud", "source": "invented here"}
    )
    museum.get_by_role("button", name="Show all").press("Enter")
    museum.wait_for_function(
        "!document.querySelector('#museum-index tr[hidden]')"
    )
    assert len(shown(museum)) == len(EXHIBITS)


@pytest.mark.browser
def test_the_index_is_filtered_by_keyboard(museum):
    museum.get_by_label("effect").focus()
    museum.keyboard.press("ArrowDown")
    assert len(shown(museum)) == len(expected(effect="loud"))
    museum.keyboard.press("ArrowUp")
    assert len(shown(museum)) == len(EXHIBITS)


BOXES = """label => ["h3", ".says", ".fails", ".why", ".mends", ".repaired"]
    .map(part => document.querySelector(`#${label} > ${part}`))
    .map(part => part.getBoundingClientRect())
    .map(box => ({left: box.left, top: box.top, bottom: box.bottom}))"""


def below_each_other(*boxes):
    return all(
        a["left"] == b["left"] and a["bottom"] <= b["top"] + 0.01
        for a, b in itertools.pairwise(boxes)
    )


@pytest.mark.browser
def test_pairs_are_side_by_side_where_there_is_room(museum):
    before = museum.viewport_size
    for width in (1280, 390):
        museum.set_viewport_size({"width": width, "height": 900})
        for exhibit in EXHIBITS:
            boxes = museum.evaluate(BOXES, exhibit["label"])
            title, says, fails, why, mends, repaired = boxes
            if width == 390:
                assert below_each_other(*boxes)
                continue
            assert below_each_other(title, says, fails, why)
            assert below_each_other(mends, repaired)
            assert fails["top"] == repaired["top"]
            assert fails["left"] + 400 < repaired["left"]
            assert title["bottom"] <= mends["top"]
    museum.set_viewport_size(before)
