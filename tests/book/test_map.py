"""The map of the chapters: a path for each kind of reader."""

import pytest

from tests.book.pages import chapters, soup

MAP = "book/map"


@pytest.fixture(scope="module")
def table(book):
    return soup(book / f"{MAP}.html").select_one(".paths table")


def test_every_chapter_is_on_the_map_and_on_a_path(table):
    rows = table.select("tbody tr")
    links = [row.select_one("th a")["href"] for row in rows]
    assert links == [f"../{page}.html" for page in chapters()]
    for row in rows:
        assert row.select(".stop"), row.get_text()
        assert "minutes" in row.select_one("th small").get_text()


def test_each_reader_has_a_line_from_the_first_stop_to_the_last(table):
    heads = table.select("thead th")[:-1]
    assert len(heads) >= 6
    for place, head in enumerate(heads):
        name = head.get_text()
        column = [x.select("td")[place] for x in table.select("tbody tr")]
        stops = [i for i, x in enumerate(column) if x.select(".stop")]
        line = [i for i, x in enumerate(column) if "on" in x["class"]]
        assert line == list(range(stops[0], stops[-1] + 1)), name
        assert "first" in column[stops[0]]["class"], name
        assert "last" in column[stops[-1]]["class"], name
        assert any(x.select(".build") for x in column), name


@pytest.mark.browser
def test_a_chosen_path_leaves_the_others_pale(visit):
    with visit(MAP, width=390) as seen:
        stops = seen.tab.locator(".paths td .stop")
        pale = """all => all.map(x =>
            Number(getComputedStyle(x.closest("td")).opacity) < 0.5)"""
        assert not any(stops.evaluate_all(pale))
        seen.tab.get_by_label("I write kernels").check()
        own = "all => all.map(x => x.closest('td').matches('.path-5'))"
        is_pale = stops.evaluate_all(pale)
        assert [not x for x in is_pale] == stops.evaluate_all(own)
