"""Each report is read back by its own reader, and holds every row."""

import csv
import io
import json
import random
import re
from functools import cache
from urllib.parse import unquote

import pytest
from bs4 import BeautifulSoup
from rich.cells import cell_len
from rich.console import Console

from attn.grading.classroom.reports import write
from attn.grading.classroom.reports.class_ import Class, file_names
from attn.grading.classroom.reports.terminal import show
from attn.grading.classroom.result import Mark, clean, from_json
from tests.book.test_browser import AXE, FOUND, ONE_OF_EACH_KIND
from tests.grading.classroom.invented import (
    HOSTILE,
    TILED,
    WORTH,
    a_class,
    graded,
    hostile_class,
    right,
    unreadable,
    wrong,
)

CODE = """\
def repeat_kv(x, n_rep):
    # a < b && c </pre><script>alert(1)</script>
    return x"""
CLASSES = {
    "empty": [],
    "one": [
        graded(
            "Ann",
            right(code=CODE),
            wrong("gqa-pool_heads", code=CODE, notes=("two cells",)),
            wrong("gqa-grouped_attention", "not written", code="stub"),
        )
    ],
    "unreadable": [unreadable("Ann")],
    "hundred": a_class(100),
    "hostile": hostile_class(),
    "again": [
        graded("Ann", wrong(), submission="ann/1.ipynb"),
        graded("Ann", right(), submission="ann/2.ipynb"),
        graded("Ann", right(), submission="ann/3.ipynb"),
        graded("Ann", right("gqa-pool_heads"), chapter="13_more"),
        unreadable("Ann", submission="ann/4.ipynb"),
    ],
    "three": [
        graded("Ann", right(), wrong("gqa-pool_heads")),
        graded("Ben", right(), wrong("gqa-pool_heads")),
        graded("Cem", right(), wrong("gqa-pool_heads", "died")),
    ],
}


@pytest.fixture(scope="module")
def out_of(tmp_path_factory):
    """Write the reports of a class, once; return their folder."""

    @cache
    def out_of(name):
        out = tmp_path_factory.mktemp("reports")
        write(Class(CLASSES[name]), out)
        return out

    return out_of


@pytest.fixture(params=CLASSES)
def reported(request, out_of):
    """Return the results of each class, and the folder of the reports."""
    return CLASSES[request.param], out_of(request.param)


def page_of(path):
    return BeautifulSoup(path.read_text("utf-8"), "html.parser")


def test_json_holds_every_result(reported):
    results, out = reported
    data = json.loads((out / "report.json").read_text("utf-8"))
    assert data["submissions"] == len(results)
    points = [x["points"] for x in data["learners"]]
    assert data["points"] == sum(x for x in points if x is not None)
    for row in data["learners"] + data["results"]:
        assert (row["points"] is None) == (row["status"] == "unreadable"), row
    for row in data["results"]:
        del row["points"]
    back = map(from_json, data["results"])
    assert sorted(map(repr, back)) == sorted(map(repr, map(clean, results)))
    named = [x["learner"] for x in data["learners"]]
    assert sorted(named) == sorted({clean(x.learner) for x in results})


def test_a_spreadsheet_has_a_row_for_each_learner_and_no_formula(reported):
    _, out = reported
    text = (out / "class.csv").read_bytes().decode("utf-8")
    assert text.startswith("\ufeff")  # without which Excel reads no UTF-8
    rows = [*csv.DictReader(io.StringIO(text[1:], newline=""))]
    data = json.loads((out / "report.json").read_text("utf-8"))
    for row, learner in zip(rows, data["learners"], strict=True):
        name = learner["learner"].replace("\n", " ")
        assert row["learner"].removeprefix("'") == name.removeprefix("'")
        of_exercises = [row.get(x) for x in WORTH if row.get(x)]
        assert row["status"] == learner["status"]
        if learner["status"] == "unreadable":  # no 0, and a reason
            assert learner["points"] is None and not of_exercises
            assert row["points"] == "" and row["unreadable"]
        else:
            assert float(row["points"]) == learner["points"]
            assert sum(map(float, of_exercises)) == learner["points"]
        for cell in row.values():
            assert not re.match(r"\s*[-=+@＝＋－＠]", cell), cell


# Gradescope, "Autograder Specifications": the fields of results.json.
TOP = {"score", "output", "output_format", "test_output_format"}
TOP |= {"test_name_format", "visibility", "tests"}
TEST = {"name", "score", "max_score", "status", "output", "visibility"}


def test_gradescope_gets_a_documented_file_for_each_learner(reported):
    _, out = reported
    report = json.loads((out / "report.json").read_text("utf-8"))
    files = list(out.glob("gradescope/*.json"))
    assert len(files) == len(report["learners"])
    total = 0
    for file in files:
        data = json.loads(file.read_text("utf-8"))
        assert data.keys() == TOP and data["visibility"] == "visible"
        assert data["score"] == sum(x["score"] for x in data["tests"])
        total += data["score"]
        for test in data["tests"]:
            assert test.keys() == TEST
            assert test["status"] in ("passed", "failed")
            assert 0 <= test["score"] <= test["max_score"]
            assert isinstance(test["output"], str) and test["output"]
    assert total == report["points"]
    alone = out / "results.json"
    assert alone.exists() == (len(files) == 1)
    assert not alone.exists() or alone.read_bytes() == files[0].read_bytes()


def test_equal_results_give_equal_files_and_others_stay(reported, tmp_path):
    results, out = reported
    mixed = random.Random(1).sample(results, len(results))
    (tmp_path / "index.html").write_text("old")
    (tmp_path / "mine.txt").write_text("mine")
    written = write(Class(mixed), tmp_path)
    files = [x for x in tmp_path.rglob("*") if x.is_file()]
    assert sorted([*written, tmp_path / "mine.txt"]) == sorted(files)
    for path in written:
        same = out / path.relative_to(tmp_path)
        assert path.read_bytes() == same.read_bytes()


def test_answers_are_files_for_programs_that_compare_them(out_of):
    code = out_of("one") / "code"
    files = {str(x.relative_to(code)): x.read_text() for x in code.glob("*/*")}
    written = "gqa-repeat_kv/Ann.py", "gqa-pool_heads/Ann.py"
    assert files == dict.fromkeys(written, CODE), "and no stub"


def test_each_learner_has_a_file_name_of_its_own_on_any_system():
    names = [clean(x) for x in HOSTILE]
    files = file_names(names)
    assert len({x.casefold() for x in files.values()}) == len(set(names))
    for stem in files.values():
        assert re.fullmatch(r"[\w-][\w.-]{0,80}", stem), stem
        assert stem.lower() not in ("con", "nul")
    assert file_names(["Zoë de Vries"]) == {"Zoë de Vries": "Zoë-de-Vries"}


def test_learners_with_any_names_have_an_order():
    names = ["7", "a", "a 1", "a 1 1", "a b", "Ann", "ann", "ann2", "ann10"]
    names += ["ann10b", "b²", "b²2", "x1", "x" + "9" * 5000, "y"]
    results = [graded(x, right()) for x in reversed(names)]
    assert [x.name for x in Class(results).learners] == names
    assert len(Class([graded("٣"), graded("３")]).learners) == 2


def test_the_latest_attempt_counts_or_the_best_or_the_first_of_equal_ones():
    (ann,) = Class(CLASSES["again"]).learners
    names = [x.submission for x in ann.counted.values()]
    assert names == ["ann/2.ipynb", "Ann/13_more.ipynb"]
    assert (ann.points, ann.max_points, len(ann.results)) == (4, 4, 5)
    results = [
        graded("Ann", right(), submission="a", attempt=(5, 0)),
        graded("Ann", wrong(), submission="b", attempt=(5, 1)),
        graded("Ann", wrong(), submission="c", attempt=(4, 9)),
    ]
    (ann,) = Class(results).learners
    assert [x.submission for x in ann.counted.values()] == ["b"]
    later = "b was handed in later, and counts"
    assert ann.replaced == {"a": later, "c": later}


def test_a_misconception_counts_each_learner_once():
    results = [
        graded("Ann", wrong(), wrong("gqa-grouped_attention")),
        graded("Ben", wrong(), right("gqa-grouped_attention")),
        graded("Cem", wrong(message="b", mistake="B")),
    ]
    three = Class(results)
    first, second = three.misconceptions
    assert (first["mistake"], second["mistake"]) == (TILED, "B")
    assert [x.name for x in first["learners"]] == ["Ann", "Ben"]
    where = {"gqa-repeat_kv": 2, "gqa-grouped_attention": 1}
    assert first["exercises"] == where
    assert first["why"].startswith("The heads come in tile order.")
    counts = {"passed": 0, "open": 0, "graded": 3, "most_often": [(TILED, 2)]}
    assert three.hardest[0] == {"exercise": "gqa-repeat_kv", **counts}


@pytest.mark.parametrize("worth, bins", [(2, 3), (20, 21), (21, 10)])
def test_every_graded_learner_is_in_one_bin(worth, bins):
    marks = [
        wrong("gqa-pool_heads", points=p, max_points=worth)
        for p in (0, 0.5, worth / 2, worth)
    ]
    four = Class([graded(str(i), x) for i, x in enumerate(marks)])
    sizes = [size for _, size in four.bins()]
    assert len(sizes) == bins and sum(sizes) == 4
    assert sizes[-1] >= 1 and sizes[0] >= 1


# --- A terminal --------------------------------------------------------------


def printed(results, width=120):
    """Return a table of results as a terminal shows it."""
    console = Console(file=io.StringIO(), width=width)
    show(Class(results), console)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [30, 63, 64, 120])
@pytest.mark.parametrize("name", CLASSES)
def test_a_table_shows_every_submission_at_any_width(name, width):
    results = CLASSES[name]
    text = printed(results, width)
    lines = text.splitlines()
    assert max(map(cell_len, lines)) <= width
    if name == "one":
        assert sum(x[:1] in "✓✗·" for x in lines if x) == 3
    else:
        assert len(lines) >= len(results)
        assert f"{len(results)} submission" in text
    assert "\x1b" not in text
    if name == "hostile" and width == 120:
        assert "[red]x[/red][link" in text, "no text is markup"


def test_a_wide_table_names_the_first_mistake_of_each_submission():
    text = printed([*CLASSES["one"], unreadable("Ben")])
    assert f"gqa-pool_heads (+1): {TILED[:20]}" in text
    assert "✓✗·" in text and "the file is empty" in text
    assert "2/7 points (29 %), 1 unreadable" in text


# --- Pages -------------------------------------------------------------------


def test_text_by_learners_never_becomes_html(out_of):
    index = out_of("hostile") / "index.html"
    pages = [page_of(x) for x in index.parent.rglob("*.html")]
    for page in pages:
        assert not page.find_all(["script", "img", "link", "iframe"])
        assert len(page.find_all("style")) == 1
        links = {x["href"] for x in page.find_all("a")}
        assert all(x.startswith(("#", "learners/")) for x in links)
        attributes = [x for tag in page.find_all() for x in tag.attrs]
        assert not [x for x in attributes if x.startswith("on")]
        policy = page.find("meta", {"http-equiv": True})["content"]
        assert policy.startswith("default-src 'none'; style-src 'unsafe-inl")
    everywhere = " ".join(page.get_text() for page in pages)
    for text in ("<script>alert(1)</script>", "{{ 7 * 7 }}{% raw %}"):
        assert text in page_of(index).get_text()
    assert "nul\\x00inside" in everywhere and "\0" not in everywhere
    assert "back\\u202ewards" in everywhere and "\u202e" not in everywhere


@pytest.mark.parametrize("name", ["hundred", "hostile"])
def test_the_class_page_has_every_row_in_both_orders(name, out_of):
    results, out = CLASSES[name], out_of(name)
    page = page_of(out / "index.html")
    learners = {clean(x.learner) for x in results}
    assert len([*out.glob("learners/*.html")]) == len(learners)
    for order in ("by-name", "by-points"):
        rows = page.select(f".{order} tbody tr")
        assert len(rows) == len(learners)
        for row in rows:
            heading = page_of(out / unquote(row.a["href"])).h1.get_text()
            assert heading == row.a.get_text() and heading in learners
    cells = [x.get_text() for x in page.select(".by-points td.points")]
    points = [0 if x == "–" else int(x) for x in cells]
    assert points == sorted(points)
    bad = [x for x in results if x.status == "unreadable"]
    first = page.find("section")
    assert first.h2.get_text() == "Could not be read"
    assert len(first.select("li")) == len(bad)
    ids = [tag["id"] for tag in page.find_all(id=True)]
    assert len(ids) == len(set(ids))


def test_the_class_page_lists_the_hardest_exercises_and_their_mistakes(out_of):
    page = page_of(out_of("three") / "index.html")
    hardest = [x.get_text(" ", strip=True) for x in page.select(".bars > li")]
    assert re.match(r"gqa- ?pool_ ?heads 0 % right: 0 of 3", hardest[0])
    assert f"Most often (2): {TILED}" in hardest[0]
    assert "100 % right: 3 of 3" in hardest[1]
    card = page.find("h3", string=TILED).find_parent("li")
    assert "2 learners" in card.get_text()
    assert [x.get_text() for x in card.find_all("a")] == ["Ann", "Ben"]
    assert "1 wrong answer without a name" in page.get_text()
    assert page.find("dd", string="2"), "the median of 2, 2 and 2 points"


def test_the_class_page_names_those_without_points(tmp_path, out_of):
    page = page_of(out_of("empty") / "index.html")
    assert page.h1.get_text() == "Nothing could be graded"
    assert page.find("dd", string="0") and not page.find("table")
    results = [unreadable("Bo"), *CLASSES["again"]]
    write(Class(results, absent=["Bell, Ann", "Eve"]), tmp_path)
    page = (tmp_path / "index.html").read_text("utf-8")
    assert page.count("counts instead:") == 2, "one a chapter"
    assert 'counts instead: <span class="path">ann/2.ipynb</span>' in page
    assert re.search(r"Bell, Ann</bdi></a>; <a [^>]+><bdi>Eve<", page)


def test_a_learners_page_has_each_diagnosis_beside_the_code(out_of):
    page = page_of(out_of("one") / "learners/Ann.html")
    assert not page.find("script")
    good, bad, open_ = page.find_all("article")
    assert good.details.pre.get_text() == CODE
    assert "stub" not in open_.get_text()
    diagnosis, code = bad.find(class_="beside").find_all("div")
    assert code.pre.get_text() == CODE
    assert diagnosis.find("p").get_text() == f"This looks like: {TILED}"
    folded = diagnosis.details.extract()
    assert "The heads come in tile order." in folded.get_text()
    names = [x.get_text() for x in diagnosis.find_all("code")]
    assert names == ["repeat", "repeat_interleave"]
    (block,) = diagnosis.find_all("pre")
    x, got, expected = block.get_text().splitlines()
    assert x.startswith("x  ") and got.startswith("got       -2")
    assert bad.find(class_="note").get_text() == "two cells"
    text = page.get_text()
    assert "1 of 3 exercises is right" in text
    assert "bubblewrap: no network" in text
    assert CODE not in page_of(out_of("one") / "index.html").get_text()
    other = page_of(out_of("three") / "learners/Ben.html").get_text()
    assert "Ann" not in other and "Cem" not in other


def test_a_learners_page_says_which_submission_counts(out_of):
    page = page_of(out_of("again") / "learners/Ann.html")
    sections = [x.get_text(" ", strip=True) for x in page.select("section")]
    unread, counted, _, again = sections
    assert "ann/4.ipynb" in unread and "ann/2.ipynb" in counted
    assert "ann/1.ipynb : 0 of 2 points" in again


@pytest.mark.browser
def test_pages_are_accessible_offline_and_fit_a_phone(browser, tmp_path):
    many = [Mark(f"sdpa-causal_lower_{i}", 0, 1, "died") for i in range(12)]
    results = [*a_class(12), *CLASSES["one"]]
    results.append(graded("Ann", *many, chapter="08_sdpa"))
    by_hand = {("Ann", ""): (2, "ill")}
    write(Class(results, by_hand, absent=["Cem"]), tmp_path)
    names = ("index", "learners/Ann", "learners/Cem")
    paths = [tmp_path / f"{name}.html" for name in names]
    for width, theme in ((1280, "light"), (390, "dark")):
        size = {"width": width, "height": 900}
        tab = browser.new_page(viewport=size, color_scheme=theme)
        requests, complaints = [], []
        tab.on("request", lambda x, to=requests: to.append(x.url))
        tab.on("console", lambda x, to=complaints: to.append(x.text))
        for path in paths:
            tab.goto(path.as_uri())
            wide = tab.evaluate("document.documentElement.scrollWidth")
            assert wide <= width
            tab.evaluate(AXE)
            tab.evaluate(ONE_OF_EACH_KIND)
            assert tab.evaluate(FOUND) == []
        assert len(requests) == len(paths) and not complaints


@pytest.mark.browser
def test_the_class_page_is_sorted_without_javascript(browser, out_of):
    tab = browser.new_page(java_script_enabled=False)
    tab.goto((out_of("three") / "index.html").as_uri())
    tables = tab.locator(".by-name"), tab.locator(".by-points")
    assert [x.is_visible() for x in tables] == [True, False]
    tab.get_by_label("fewest points first").check()
    assert [x.is_visible() for x in tables] == [False, True]
