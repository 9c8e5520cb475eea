"""Marks by hand outlive each run, and a wrong line is named."""

import csv
import io
import json
import xml.etree.ElementTree as ET

import pytest
from bs4 import BeautifulSoup
from rich.console import Console

from attn.grading.classroom import marks
from attn.grading.classroom.marks import Remark
from attn.grading.classroom.reports import table, write
from attn.grading.classroom.reports.batch import Batch
from tests.grading.classroom.invented import graded, right, unreadable, wrong

HEAD = "learner,exercise,points,late_days,comment\n"
PEOPLE = {"Ann": ("7", "ann@example.edu"), "Bo": (), "Cem": ("7b",)}


@pytest.fixture
def read(tmp_path):
    def read(text, people=PEOPLE):
        path = tmp_path / "marks.csv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return marks.read(path, people)

    return read


@pytest.fixture
def reported(read, tmp_path):
    """Return what the reports make of results and marks by hand."""

    def reported(text, results, absent=()):
        results, remarks = read(text).applied(results)
        write(results, tmp_path / "out", remarks, absent)
        text = (tmp_path / "out/class.csv").read_bytes().decode("utf-8-sig")
        rows = csv.DictReader(io.StringIO(text, newline=""))
        return {x["learner"]: x for x in rows}, tmp_path / "out"

    return reported


def test_points_of_an_exercise_replace_the_judged_ones_everywhere(reported):
    text = HEAD + "Ann,gqa-pool_heads,1.5,,half a point\n"
    rows, out = reported(
        text, [graded("Ann", right(), wrong("gqa-pool_heads"))]
    )
    by_hand = "1.5 of 2 points by hand; it was judged as 0"
    assert (rows["Ann"]["points"], rows["Ann"]["gqa-pool_heads"]) == (
        *("3.5", "1.5"),
    )
    assert f"gqa-pool_heads: {by_hand}" in rows["Ann"]["by_hand"]
    data = json.loads((out / "report.json").read_text())
    assert data["learners"][0]["points"] == 3.5
    mark = data["results"][0]["marks"][1]
    assert (mark["points"], mark["judged"]) == (1.5, 0)
    assert mark["comments"] == ["half a point"]
    assert data["results"][0]["marks"][0]["judged"] is None
    page = BeautifulSoup(
        (out / "learners/Ann.html").read_text(), "html.parser"
    )
    card = page.find(id="gqa-pool_heads").get_text()
    assert by_hand in card and "half a point" in card
    assert "3.5 of 4 points" in page.find(class_="score").get_text()
    index = (out / "index.html").read_text()
    assert by_hand in index and "half a point" in index
    handed_over = json.loads((out / "gradescope/Ann.json").read_text())
    assert handed_over["score"] == 3.5
    assert by_hand in handed_over["tests"][1]["output"]
    assert by_hand in (out / "junit.xml").read_text()


def test_a_total_late_days_and_comments_are_of_the_learner(reported):
    text = HEAD + "Ann,,3,1,\n7,,,2,ill in week 3\n"
    rows, out = reported(text, [graded("Ann", right()), graded("Bo", right())])
    assert rows["Ann"]["points"] == "3" and rows["Ann"]["late_days"] == "3"
    assert rows["Ann"]["by_hand"] == (
        "total: 3 points by hand; the exercises have 2; late days: 3; "
        "ill in week 3"
    )
    assert (rows["Bo"]["late_days"], rows["Bo"]["by_hand"]) == ("", "")
    page = (out / "learners/Ann.html").read_text()
    assert "ill in week 3" in page and "late days: 3" in page
    assert "ill in week 3" not in (out / "learners/Bo.html").read_text()
    learner = json.loads((out / "report.json").read_text())["learners"][0]
    assert learner["late_days"] == 3 and len(learner["by_hand"]) == 3


def test_an_unreadable_file_may_have_points_by_hand(reported):
    text = HEAD + "Ann,gqa-pool_heads,2,,shown to me\nBo,,4,,\n"
    text += "Cem,gqa-pool_heads,,,send it again\n"
    results = [*map(unreadable, ("Ann", "Bo", "Cem")), graded("Dil", right())]
    rows, out = reported(text, results)
    assert (rows["Ann"]["points"], rows["Ann"]["05_gqa"]) == ("2", "2")
    assert (rows["Bo"]["points"], rows["Bo"]["05_gqa"]) == ("4", "")
    assert (rows["Cem"]["points"], rows["Cem"]["05_gqa"]) == ("", "")
    assert rows["Cem"]["by_hand"] == "gqa-pool_heads: send it again"
    assert all(rows[x]["unreadable"] for x in ("Ann", "Bo", "Cem"))
    ann = (out / "learners/Ann.html").read_text()
    assert "2 of 2 points by hand; nothing was judged" in ann
    data = json.loads((out / "report.json").read_text())
    assert data["submissions"] == 4
    assert [x["exercise"] for x in data["hardest"]] == ["gqa-repeat_kv"]
    suites = ET.parse(out / "junit.xml").getroot()
    assert suites.get("failures") == "0"
    handed_over = json.loads((out / "gradescope/Ann.json").read_text())
    assert handed_over["score"] == 2


def test_a_learner_without_a_submission_may_have_marks(reported):
    rows, out = reported(HEAD + "Bo,,4,,\n", [graded("Ann", right())], ["Bo"])
    assert rows["Bo"]["status"] == "nothing handed in"
    assert rows["Bo"]["points"] == "4"
    assert "Nothing was handed in." in (out / "learners/Bo.html").read_text()
    assert not (out / "gradescope/Bo.json").exists()


def test_the_marks_by_hand_change_no_stored_result(read):
    results = [graded("Ann", wrong())]
    (changed,), _ = read(HEAD + "Ann,gqa-repeat_kv,1,,\n").applied(results)
    assert changed.points == 1 and results[0].points == 0
    assert read(HEAD).applied(results) == (results, {})


@pytest.mark.parametrize("names", [["Ann"], ["Ann", "Bo"]])
def test_a_terminal_shows_marks_by_hand(names, read):
    text = HEAD + "Ann,,7,1,\nAnn,gqa-repeat_kv,,,see me\n"
    results, remarks = read(text).applied(graded(x, wrong()) for x in names)
    file = io.StringIO()
    view = table(results, remarks, absent=["Cem"] * (len(names) - 1))
    Console(file=file, width=100).print(view)
    shown = file.getvalue()
    assert "7/2" in shown
    if len(names) == 1:
        assert "by hand: gqa-repeat_kv: see me" in shown
        assert "by hand: late days: 1" in shown
    else:
        assert "1 learner with marks by hand" in shown
        assert "Cem" in shown and "nothing handed in" in shown


def test_a_hostile_comment_is_harmless(reported):
    text = HEAD + 'Ann,,,,"=1+1"\nBo,gqa-repeat_kv,,,<script>x</script>\n'
    results = [graded("Ann", right()), graded("Bo", right())]
    rows, out = reported(text, results)
    assert rows["Ann"]["by_hand"] == "'=1+1"
    assert "<script>" not in (out / "index.html").read_text()
    assert "<script>" not in (out / "learners/Bo.html").read_text()


@pytest.mark.parametrize(
    "text",
    [
        HEAD + "\nAnn,,,2,\n",
        "\ufeff" + HEAD.replace(",", ";") + "ann@example.edu;;;2;\r\n",
        "Late days,Comment,Learner,Exercise,Points\n2,,7,,",
    ],
)
def test_what_a_spreadsheet_saves_is_read(text, read):
    assert read(text).applied([])[1] == {"Ann": Remark(late_days=2)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD + "\nAna,,1,,", "line 3: learner must be one of .*Ann.*'Ana'"),
        (HEAD + ",,1,,", "line 2: learner .* got ''"),
        (HEAD + "Ann,gqa-repeatkv,1,,", "line 2: exercise .*gqa-repeat_kv"),
        (HEAD + "Ann,x,1,,", "line 2: exercise must be .* got 'x'"),
        (HEAD + "Ann,,-1,,", "line 2: points must be a number, .* got '-1'"),
        (HEAD + "Ann,,nan,,", "line 2: points .* got 'nan'"),
        (HEAD + "Ann,,,two,", "line 2: late_days .* got 'two'"),
        (HEAD + "Ann,,,,", "line 2: a line must be points, late .* got none"),
        (HEAD + 'Bo,,,,"a\nb"\nAnn,,1,,\n7,,2,,', "line 5: .*line 4 too"),
        (HEAD + "Ann,,1,,well, well", "line 2: .* got 6"),
        ("Ann,,1,,\n", "line 1: the columns must be learner, exercise"),
        (b"\xff\xfe", "must be a CSV in UTF-8"),
    ],
)
def test_a_wrong_line_is_one_error_with_its_number(text, message, read):
    with pytest.raises(ValueError, match=f"marks.csv,? .*{message}"):
        read(text)


def test_the_file_is_made_once_and_then_left_alone(tmp_path):
    path = tmp_path / "marks.csv"
    assert marks.read(path, PEOPLE).lines == ()
    marks.prepare(path)
    assert path.read_text() == HEAD and marks.read(path, PEOPLE).lines == ()
    path.write_text("mine")
    marks.prepare(path)
    assert path.read_text() == "mine"


def test_a_learner_with_nothing_but_points_by_hand_is_in_the_median():
    batch = Batch.of([unreadable("Ann")], {"Ann": Remark(points=5)})
    assert [x.points for x in batch.graded] == [5]
