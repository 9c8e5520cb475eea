"""The printed book: one file, with contents that lead where they say."""

import io
import re

import pytest
from bs4 import BeautifulSoup

from book import browser, paper, speed

pypdf = pytest.importorskip("pypdf")
pytestmark = pytest.mark.browser

CHAPTER = "notebooks/05_gqa"
PAGES = [("", ["book/how-to-work"]), ("Attention", [CHAPTER])]
WHOLE = ["first-way-repeat", "the-layer", "measure-it"]
WHOLE += ["converting-a-trained-model", "questions-to-test-yourself"]
WHOLE += ["break-it-on-purpose"]


@pytest.fixture(scope="module")
def short(book, tmp_path_factory):
    """The book with a short chapter: of most sections, the heading only."""
    folder = tmp_path_factory.mktemp("book")
    for path in book.iterdir():
        if path.name != "notebooks":
            (folder / path.name).symlink_to(path)
    html = (book / f"{CHAPTER}.html").read_text("utf-8")
    page = BeautifulSoup(html, "html.parser")
    for section in page.select("article section > section:has(> h2)"):
        if section["id"] not in WHOLE:
            for part in section.select(":scope > :not(h2)"):
                part.decompose()
    (folder / "notebooks").mkdir()
    (folder / f"{CHAPTER}.html").write_text(str(page), "utf-8")
    return folder


@pytest.fixture(scope="module")
def printed(short, browser):
    """A light page and a chapter."""
    return paper.printed(short, PAGES, browser)


@pytest.fixture(scope="module")
def sheets(printed):
    """The text of each page."""
    pdf = pypdf.PdfReader(io.BytesIO(printed))
    return [re.sub(r"\s+", " ", x.extract_text()) for x in pdf.pages]


def test_the_contents_give_the_page_of_each_heading(sheets):
    entries = re.findall(r"(5\.\d+ [A-Z][^.]*?) (\d+) ", sheets[1])
    assert len(entries) > 10
    for heading, number in entries:
        assert heading in sheets[int(number) - 1]
    assert len({number for _, number in entries}) > 2


def test_every_page_but_the_cover_has_its_number_and_its_chapters_name(sheets):
    cover, *rest = sheets
    assert cover.startswith("Attention, built by hand")
    assert not re.search(r"\d", cover)
    for number, text in enumerate(rest, start=2):
        assert re.search(rf"\b{number}\b", text_of_margin(text))
    heads = {"Contents", "How to work through", "5 Grouped-query", "Answers"}
    for head in heads:
        own = [x for x in rest if head in text_of_margin(x)]
        assert own, head
    assert all(any(h in text_of_margin(x) for h in heads) for x in rest)


def text_of_margin(sheet):
    return sheet[:60] + sheet[-60:]


def test_code_that_is_folded_on_the_screen_is_not_printed(sheets, short):
    html = (short / f"{CHAPTER}.html").read_text("utf-8")
    page = BeautifulSoup(html, "html.parser")
    folded = page.select("details.hide.above-input pre")
    lines = {x.get_text().strip().splitlines()[0] for x in folded}
    assert lines
    text = " ".join(sheets)
    assert "Code of this figure" not in text
    assert not [x for x in lines if len(x) > 30 and x in text]


def test_the_cover_has_a_picture(printed):
    (picture,) = pypdf.PdfReader(io.BytesIO(printed)).pages[0].images[:1]
    assert picture.image.width > 800


def test_answers_are_at_the_end_and_nowhere_else(sheets):
    asked = next(x for x in sheets if "Answer: page" in x)
    number = int(re.search(r"Answer: page (\d+)", asked)[1])
    first = next(i for i, x in enumerate(sheets) if "Answers 5 Grouped" in x)
    assert sheets.index(asked) < first <= number - 1
    source = (paper.HERE.parent / "solutions" / "ch05_gqa.py").read_text()
    solution = re.search(r"\n +(return [^\n#]+[^\n# ])", source)[1]
    where = [i for i, x in enumerate(sheets) if solution in x]
    assert where and min(where) >= first


def test_no_page_number_is_left_to_be_filled_in(sheets):
    assert not any("page 000" in x for x in sheets)


@pytest.mark.parametrize("use", [paper.main, speed.main])
@pytest.mark.parametrize("missing", ["Chromium", "playwright"])
def test_a_missing_browser_is_reported_in_one_line(
    use, missing, monkeypatch, capsys
):
    programs = {"playwright": "chromium"}  # and where, by what is missing
    found = programs.get(missing)
    monkeypatch.setattr(browser.shutil, "which", lambda _: found)
    monkeypatch.setattr(browser, "find_spec", lambda _: None)
    with pytest.raises(SystemExit, match=rf"^{missing} must be .*$") as caught:
        use(paper.HERE, [])
    assert "\n" not in str(caught.value)
    assert capsys.readouterr() == ("", "")


@pytest.mark.exhaustive
def test_the_whole_book_prints(book, browser):
    pages = paper.parts(paper.HERE.parent)
    pdf = pypdf.PdfReader(io.BytesIO(paper.printed(book, pages, browser)))
    titles = [x.title for x in pdf.outline if not isinstance(x, list)]
    assert titles[0] == "Attention, built by hand"
    assert titles[-1] == "Answers"
    assert len(pdf.pages) <= 460
    assert len(titles) == 3 + sum(len(names) for _, names in pages)
