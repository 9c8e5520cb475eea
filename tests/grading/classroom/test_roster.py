"""A teacher's own tables: a platform's roster, marks by hand, points."""

import difflib

import pytest
from bs4 import BeautifulSoup

from attn.grading.classroom.assignment import read_points
from attn.grading.classroom.reports import write
from attn.grading.classroom.reports.class_ import Class
from attn.grading.classroom.tables import (
    MARKS_HEAD,
    Roster,
    applied,
    read_marks,
)
from tests.grading.classroom.invented import graded, right, unreadable, wrong

ANNA = '"Bell, Anna",10293,S1,abell,"A ""one"" x",{},1'
CANVAS = f"""\
Student,ID,SIS User ID,SIS Login ID,Section,05_gqa (77),Other (78),Final
,,,,,Manual Posting,,
    Points Possible,,,,,7.0,9.0,(read only)
{ANNA.format(",9")}
"Chen, Bo",10294,S2,bchen,A,3.5,,
"Demir, Cem",10295,S3,cdemir,B,,,
"Demir, Cem",10296,S4,cdemir2,B,,,
"Student, Test",10299,,x,A,,,
"""
MOODLE = """\
Identifier,Full name,Email address,Status,Grade,Maximum,Feedback
Participant 12345,Anna Bell,anna@x.edu,Submitted,,7.00,
Participant 12346,Bo Chen,bo@x.edu,No submission,-,7.00,"a
b"
"""
CEMS = ["Demir, Cem", "Demir, Cem (row 7)"]
HEAD = f"{MARKS_HEAD}\n"

#: By what they show: the table, the results, the lines that change, the
#: learners without a submission, those not in the table, and --column.
TABLES = {
    "Canvas: by id, login or name; an unreadable file is no 0": (
        CANVAS,
        [
            graded("bellana", right(), ids=("10293",)),
            unreadable("bchen"),
            graded("cdemir2", wrong()),
            graded("stranger", right()),
        ],
        [ANNA.format("2,9"), '"Demir, Cem",10296,S4,cdemir2,B,0,,'],
        ["Demir, Cem"],
        ["stranger"],
    ),
    "a name, its words in any order, but none that two rows have": (
        CANVAS,
        [
            graded("anna bell", right()),
            graded("Chen, Bo", wrong()),
            graded("Cem Demir", right()),
        ],
        [ANNA.format("2,9"), '"Chen, Bo",10294,S2,bchen,A,0,,'],
        CEMS,
        ["Cem Demir"],
    ),
    "Moodle: the total, in its own column": (
        MOODLE,
        [
            graded("Anna Bell", right("gqa-pool_heads"), chapter="13_x"),
            graded("Anna Bell", right(), ids=("12345",)),
        ],
        ["Participant 12345,Anna Bell,anna@x.edu,Submitted,4,7.00,"],
        ["Bo Chen"],
    ),
    "without a column for points: one a chapter": (
        "First Name;Last Name;Email\nAnna;Bell;a@x\nBo;Chén;b@x",
        [graded("Bo Chén", right()), graded("a@x", right(), chapter="9_x")],
        [
            "First Name;Last Name;Email;05_gqa;9_x",
            "Anna;Bell;a@x;;2",
            "Bo;Chén;b@x;2;",
        ],
        [],
    ),
    "a column that is chosen, and a total by hand": (
        CANVAS,
        [graded("abell", right()), graded("bchen", right())],
        [ANNA.format(",2"), '"Chen, Bo",10294,S2,bchen,A,3.5,7.5,'],
        CEMS,
        [],
        "Other (78)",
    ),
}


@pytest.mark.parametrize("kind", TABLES)
def test_points_are_filled_into_the_rows_of_their_learners(kind, tmp_path):
    text, results, changed, absent, *more = TABLES[kind]
    unknown, column = (*more, *([], None)[len(more) :])
    data = text.encode("latin-1" if "é" in text else "utf-8")
    people = {x.learner: x.ids for x in results}
    roster = Roster(written(tmp_path, data), column, people)
    by_hand = {("bchen", ""): (7.5, "")} if column else None
    after = roster.filled(Class(results, by_hand, roster.absent))
    lines = difflib.ndiff(text.splitlines(), after.splitlines())
    assert [x[2:] for x in lines if x.startswith("+ ")] == changed
    assert (roster.absent, roster.unknown) == (absent, unknown)


@pytest.mark.parametrize(
    ("text", "column"), [("a,b\n1,2\n", None), ("", None), ("Name,x\n", "y")]
)
def test_a_table_of_another_kind_is_an_error(text, column, tmp_path):
    with pytest.raises(ValueError, match=r"table.csv must (be|have) a "):
        Roster(written(tmp_path, text), column, {})


# --- Marks by hand -----------------------------------------------------------


PEOPLE = {"Ann": ("7", "ann@example.edu"), "Bo": (), "Cem": ("7b",)}


def written(folder, text):
    path = folder / "table.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_points_and_comments_by_hand_are_in_each_report(tmp_path):
    text = "Ann,gqa-pool_heads,1.5,<b>half\nBo,,4,on paper\nCem,,,=ill\n"
    by_hand = read_marks(written(tmp_path, HEAD + text), PEOPLE)
    ann = graded("Ann", right(), wrong("gqa-pool_heads"))
    results = [ann, unreadable("Bo"), graded("Cem", right())]
    marked = applied(results, by_hand)
    assert results[0].points == 2 and marked[0].points == 3.5
    class_ = Class(marked, by_hand)
    write(class_, tmp_path)
    points = {x.name: x.points for x in class_.graded}
    assert points == {"Ann": 3.5, "Bo": 4, "Cem": 2}
    page = (tmp_path / "learners/Ann.html").read_text()
    card = BeautifulSoup(page, "html.parser").find(id="gqa-pool_heads")
    assert "1.5/2" in card.get_text() and "<b>" not in str(card)
    note = "by hand: it was judged as 0. <b>half"
    assert card.find(class_="note").get_text() == note
    total = "total: 4 points by hand; the exercises have 0"
    for name in ("learners/Bo.html", "index.html", "class.csv", "report.json"):
        text = (tmp_path / name).read_text()
        assert total in text and "on paper" in text, name
    assert "'=ill" in (tmp_path / "class.csv").read_text()


@pytest.mark.parametrize(
    "text",
    [
        "\nAnn,,2.5,\n,,,\n",
        "7,,1,\nann@example.edu,,2.5,\n",
        "\ufeff" + HEAD.replace(",", ";") + "Ann;;2,5;\r\n",
    ],
)
def test_what_a_spreadsheet_saves_is_read(text, tmp_path):
    text = text if text[0] == "\ufeff" else HEAD + text
    by_hand = read_marks(written(tmp_path, text), PEOPLE)
    assert by_hand == {("Ann", ""): (2.5, "")}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD + "\nAna,,1,", r"row 3 must .*\(Ann, Bo, Cem, …\).* got Ana"),
        (HEAD + ",,1,", "row 2 must"),
        (HEAD + "Ann,,-1,", "row 2 must .* points from 0; got Ann, , -1"),
        (HEAD + "Ann,,nan,", "row 2 must"),
        (HEAD + "Ann,,1,well, well", "row 2 must"),
        (b"PK\3\4", "must be a CSV; it is a zip archive"),
    ],
)
def test_a_wrong_row_is_one_error_with_its_number(text, message, tmp_path):
    with pytest.raises(ValueError, match=f"table.csv,? {message}"):
        read_marks(written(tmp_path, text), PEOPLE)


# --- Points ------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        '{"gqa-repeat_kv": 5, "sdp-softmax": 0.5}',
        "gqa-repeat_kv,5\nsdp-softmax,0.5\n",
        "exercise,points\r\ngqa-repeat_kv, 5\r\n\r\nsdp-softmax, 0.5\r\n",
        '\ufeff"gqa-repeat_kv","5"\n"sdp-softmax",".5"',
    ],
)
def test_json_and_csv_give_the_same_points(text, tmp_path):
    points = read_points(written(tmp_path, text))
    assert points == {"gqa-repeat_kv": 5, "sdp-softmax": 0.5}
    assert repr(points["gqa-repeat_kv"]) == "5"


VALUES = [f"gqa-repeat_kv,{x}" for x in ("-1", "nan", "inf", "", "1,2")]
IN_JSON = ("Infinity", "true", "null", "[1]", '"a"')
VALUES += [f'{{"gqa-repeat_kv": {x}}}' for x in IN_JSON]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *((x, "0 or more, on each line; got gqa-repeat_kv, ") for x in VALUES),
        ("gqa-repeat_kv", "on each line; got gqa-repeat_kv"),
        ('{"gqa-repeatkv": 5}', "got 'gqa-repeatkv'"),
        ("gqa-repeat_kv,5\nGQA-softmax,1", "got 'GQA-softmax'"),
        ('{"gqa-repeat_kv": 5, "gqa-repeat_kv": 6}', "gqa-repeat_kv once"),
        ('{"gqa-repeat_kv": 5', "be JSON or CSV"),
        ('{"a":' * 100_000, "be JSON or CSV"),
        ("", "at least one"),
        ("{}", "at least one"),
        (b"\xff\xfe\x00", "text file"),
    ],
)
def test_a_mistake_in_the_points_is_named(text, message, tmp_path):
    with pytest.raises(ValueError, match=f"table.csv must (.*){message}"):
        read_points(written(tmp_path, text))
