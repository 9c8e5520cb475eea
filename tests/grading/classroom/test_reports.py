"""Each report is read back by its own reader, and holds every row."""

import csv
import io
import json
import random
import re

import pytest
from rich.cells import cell_len
from rich.console import Console

from attn.grading.classroom.reports import write
from attn.grading.classroom.reports.class_ import Class, file_names
from attn.grading.classroom.reports.terminal import View
from attn.grading.classroom.reports.wording import clean, parts
from attn.grading.classroom.result import from_json
from tests.grading.classroom.invented import (
    DIAGNOSIS,
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

CLASSES = {
    "empty": [],
    "one": [graded("Ann", right(), wrong("gqa-pool_heads"))],
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
}


@pytest.fixture(scope="module", params=CLASSES)
def reported(request, tmp_path_factory):
    """Return the results, and the folder of their reports."""
    out = tmp_path_factory.mktemp("reports")
    results = CLASSES[request.param]
    write(Class.of(results), out)
    return results, out


def learners_of(results):
    return {clean(x.learner) for x in results}


def rows_of(out):
    text = (out / "class.csv").read_bytes().decode("utf-8-sig")
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_json_holds_every_result(reported):
    results, out = reported
    data = json.loads((out / "report.json").read_text("utf-8"))
    back = [from_json(x) for x in data["results"]]
    assert sorted(map(repr, back)) == sorted(map(repr, map(clean, results)))
    assert data["submissions"] == len(results)
    points = [x["points"] for x in data["learners"]]
    assert data["points"] == sum(x for x in points if x is not None)
    for row in (*data["results"], *data["learners"]):
        is_empty = row["points"] is None
        assert is_empty == (row["status"] == "unreadable"), row
    named = [x["learner"] for x in data["learners"]]
    assert sorted(named) == sorted(learners_of(results))


def test_a_spreadsheet_has_a_row_for_each_learner(reported):
    results, out = reported
    assert (out / "class.csv").read_bytes().startswith(b"\xef\xbb\xbf")
    rows = rows_of(out)
    assert len(rows) == len(learners_of(results))
    assert {x["learner"].removeprefix("'") for x in rows} == {
        x.removeprefix("'") for x in learners_of(results)
    }
    data = json.loads((out / "report.json").read_text("utf-8"))
    for row, learner in zip(rows, data["learners"], strict=True):
        of_exercises = [row.get(x) for x in WORTH if row.get(x)]
        assert row["status"] == learner["status"]
        if learner["status"] == "unreadable":  # no 0, and a reason
            assert learner["points"] is None and not of_exercises
            assert row["points"] == "" and row["unreadable"]
        else:
            assert float(row["points"]) == learner["points"]
            assert sum(map(float, of_exercises)) == learner["points"]


def test_no_cell_of_a_spreadsheet_is_a_formula(reported):
    _, out = reported
    for row in rows_of(out):
        for cell in row.values():
            assert not re.match(r"\s*[-=+@＝＋－＠]", cell), cell


# Gradescope, "Autograder Specifications": the fields of results.json.
TOP = {"score", "output", "output_format", "test_output_format"}
TOP |= {"test_name_format", "visibility", "tests"}
TEST = {"name", "score", "max_score", "status", "output", "visibility"}


def test_gradescope_gets_a_documented_file_for_each_learner(reported):
    results, out = reported
    files = list(out.glob("gradescope/*.json"))
    assert len(files) == len(learners_of(results))
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
    report = json.loads((out / "report.json").read_text("utf-8"))
    assert total == report["points"]
    alone = out / "results.json"
    assert alone.exists() == (len(files) == 1)
    assert not alone.exists() or alone.read_bytes() == files[0].read_bytes()


@pytest.mark.parametrize("name", CLASSES)
def test_the_same_results_give_the_same_bytes(name, tmp_path):
    results = CLASSES[name]
    mixed = random.Random(1).sample(results, len(results))
    first = write(Class.of(results), tmp_path / "a")
    second = write(Class.of(mixed), tmp_path / "b" / "deeper")
    for path, again in zip(first, second, strict=True):
        assert path.name == again.name
        assert path.read_bytes() == again.read_bytes()
        assert str(tmp_path).encode() not in path.read_bytes()


@pytest.mark.parametrize("name", CLASSES)
def test_write_lists_each_file_in_the_folder_once(name, tmp_path):
    written = write(Class.of(CLASSES[name]), tmp_path)
    files = [x for x in tmp_path.rglob("*") if x.is_file()]
    assert sorted(written) == sorted(files)


def test_a_file_is_replaced_and_others_are_left(tmp_path):
    (tmp_path / "index.html").write_text("old")
    (tmp_path / "mine.txt").write_text("mine")
    write(Class.of(a_class(2)), tmp_path)
    assert "old" not in (tmp_path / "index.html").read_text("utf-8")
    assert (tmp_path / "mine.txt").read_text() == "mine"


def test_each_learner_has_a_file_name_of_its_own_on_any_system():
    names = [clean(x) for x in HOSTILE]
    files = file_names(names)
    assert len({x.casefold() for x in files.values()}) == len(set(names))
    for stem in files.values():
        assert re.fullmatch(r"[\w-][\w.-]{0,80}", stem), stem
        assert stem.lower() not in ("con", "nul")
    assert file_names(["Zoë de Vries"]) == {"Zoë de Vries": "Zoë-de-Vries"}


@pytest.mark.parametrize(
    "names",
    [
        ("Ann", "ann", "ann2", "ann10", "ann10b"),
        ("7", "a", "a 1", "a 1 1", "a b"),
        ("x1", "x" + "9" * 5000, "y"),
        ("٣", "３", "b²", "b²2"),
    ],
    ids=["a number behind", "a number within", "long", "other digits"],
)
def test_learners_with_any_names_have_an_order(names):
    results = [graded(x, right()) for x in reversed(names)]
    assert [x.name for x in Class.of(results).learners] == [*names]


def test_the_best_submission_counts_or_the_first_of_equal_ones():
    (ann,) = Class.of(CLASSES["again"]).learners
    assert [x.submission for x in ann.counted.values()] == [
        "ann/2.ipynb",
        "Ann/13_more.ipynb",
    ]
    assert (ann.points, ann.max_points) == (4, 4)
    assert len(ann.results) == 5 and len(ann.unreadable) == 1


def test_a_class_page_names_what_counts_instead_of_a_file(tmp_path):
    results = [
        graded("bo", right(), submission="bo-1"),
        unreadable("bo", submission="bo-2"),
        unreadable("cem"),
    ]
    absent = ["Bell, Ann", "Eve"]
    write(Class.of(results, absent=absent), tmp_path)
    page = (tmp_path / "index.html").read_text("utf-8")
    assert page.count("counts instead:") == 1
    assert 'counts instead: <span class="path">bo-1</span>' in page
    assert re.search(r"Bell, Ann</bdi></a>; <a [^>]+><bdi>Eve<", page)


def test_a_misconception_counts_each_learner_once():
    three = Class.of(
        [
            graded("Ann", wrong(), wrong("gqa-grouped_attention")),
            graded("Ben", wrong(), right("gqa-grouped_attention")),
            graded("Cem", wrong(message="b", mistake="B")),
        ]
    )
    by_name = {x.name: x for x in three.misconceptions}
    assert list(by_name) == [TILED, "B"], "the most common first"
    assert [x.name for x in by_name[TILED].learners] == ["Ann", "Ben"]
    assert by_name[TILED].exercises == {
        "gqa-repeat_kv": 2,
        "gqa-grouped_attention": 1,
    }
    assert by_name[TILED].why.startswith("The heads come in tile order.")
    assert three.hardest[0] == ("gqa-repeat_kv", 0, 3)


@pytest.mark.parametrize("worth, bins", [(2, 3), (20, 21), (21, 10)])
def test_every_graded_learner_is_in_one_bin(worth, bins):
    marks = [
        wrong("gqa-pool_heads", points=p, max_points=worth)
        for p in (0, 0.5, worth / 2, worth)
    ]
    four = Class.of([graded(str(i), x) for i, x in enumerate(marks)])
    sizes = [size for _, size in four.bins()]
    assert len(sizes) == bins and sum(sizes) == 4
    assert sizes[-1] >= 1 and sizes[0] >= 1


def test_a_diagnosis_is_split_into_sentences_and_tensors():
    assert [kind for kind, _ in parts(DIAGNOSIS)] == ["p", "p", "p", "pre"]
    block = parts(DIAGNOSIS)[-1][1].splitlines()
    assert block[0].startswith("x  ") and len(block) == 3
    assert parts("") == []


def printed(results, width=120):
    """Return a table of results as a terminal shows it."""
    file = io.StringIO()
    Console(file=file, width=width).print(View(Class.of(results)))
    return file.getvalue()


@pytest.mark.parametrize("width", [30, 63, 64, 80, 120])
def test_a_table_shows_every_submission_at_any_width(reported, width):
    results, _ = reported
    text = printed(results, width)
    lines = text.splitlines()
    assert max(map(cell_len, lines)) <= width
    if len(results) == 1 and results[0].marks:
        assert sum(x[:1] in "✓✗·" for x in lines if x) == 2
    else:
        assert len(lines) >= len(results)
        assert f"{len(results)} submission" in text
    assert "\x1b" not in text


def test_a_wide_table_names_the_first_mistake_of_each_submission():
    text = printed([*CLASSES["one"], unreadable("Ben")])
    assert f"gqa-pool_heads: {TILED}" in text
    assert "✓✗" in text and "the file is empty" in text
    assert "2/4 points (50 %), 1 unreadable" in text


def test_a_table_does_not_interpret_text_as_markup():
    name = "[red]x[/red][link=a]b"
    results = [graded(name, wrong(mistake=name)), unreadable("[/]", "[b]")]
    text = printed(results)
    assert text.count(name) == 2
    assert "[/]" in text and "[b]" in text
    assert printed(results[:1]).count(name) == 2, "in its row, and its path"
