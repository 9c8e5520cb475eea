"""A platform's table comes back with the marks, and nothing else changed."""

import difflib

import pytest

from attn.grading.classroom.register import Register
from attn.grading.classroom.reports.batch import Batch
from attn.grading.classroom.roster import Roster
from attn.grading.classroom.submissions import Submission
from tests.grading.classroom.invented import graded, right, unreadable, wrong

ANNA = '"Bell, Anna",10293,S1,abell,"A ""one"" x",{},1' + "\n"
CANVAS = f"""\
Student,ID,SIS User ID,SIS Login ID,Section,05_gqa (77),Other (78),Final
,,,,,Manual Posting,,
    Points Possible,,,,,7.0,9.0,(read only)
{ANNA.format(",9")}"Chen, Bo",10294,S2,bchen,A,3.5,,
"Demir, Cem",10295,S3,cdemir,B,,,
"Demir, Cem",10296,S4,cdemir2,B,,,
"Student, Test",10299,,x,A,,,
"""
MOODLE = (
    "Identifier,Full name,Email address,Status,Grade,Maximum,Feedback\r\n"
    "Participant 12345,Anna Bell,anna@x.edu,Submitted,,7.00,\r\n"
    'Participant 12346,"Bo Chen",bo@x.edu,No submission,-,7.00,"a\nb"\r\n'
)


@pytest.fixture
def filled(tmp_path):
    """Fill results into a table; return the changes, line by line."""

    def filled(text, results, column=None):
        path = tmp_path / "class.csv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        people = {x.learner: x.ids for x in results}
        roster = Roster(path, column)
        missing = roster.absent(people)
        batch = Batch.of(results, absent=missing)
        rows = roster.matched(people) | missing
        after = roster.filled(batch, rows).decode("latin-1")
        before = path.read_bytes().decode("latin-1")
        lines = [x.splitlines(keepends=True) for x in (before, after)]
        return [
            x[2:] for x in difflib.ndiff(*lines) if x.startswith("+ ")
        ], sorted(missing)

    return filled


def test_canvas_gets_points_by_id_login_or_name(filled):
    results = [
        graded("bellana", right(), ids=("10293",)),
        unreadable("bchen"),
        graded("cdemir2", wrong()),
    ]
    changed, absent = filled(CANVAS, results)
    assert changed == [
        ANNA.format("2,9"),
        '"Demir, Cem",10296,S4,cdemir2,B,0,,\n',
    ], "an unreadable file changes nothing, and is no 0"
    assert absent == ["Demir, Cem"]


@pytest.mark.parametrize("name", ["Bell, Anna", "anna bell", "BellAnna"])
def test_a_name_is_a_match_in_either_order(name, filled):
    changed, _ = filled(CANVAS, [graded(name, right())])
    assert changed == [ANNA.format("2,9")]


def test_a_name_of_two_rows_is_no_match(filled):
    changed, absent = filled(CANVAS, [graded("Cem Demir", right())])
    assert changed == []
    assert absent == [
        *("Bell, Anna", "Chen, Bo", "Demir, Cem", "Demir, Cem (row 7)"),
    ]


def test_an_id_that_two_rows_have_is_settled_by_the_name(filled):
    text = "Name,ID,SIS User ID,x_05_gqa\nAnn,1,2,\nBo,2,3,\nCem,4,4,\n"
    changed, absent = filled(text, [graded("bo", right(), ids=("2",))])
    assert changed == ["Bo,2,3,2\n"] and absent == ["Ann", "Cem"]
    changed, _ = filled(text, [graded("eve", right(), ids=("2",))])
    assert changed == []


def test_moodle_gets_the_total_in_its_column(filled):
    results = [
        graded("Anna Bell", right(), ids=("12345",)),
        graded("Anna Bell", right("gqa-pool_heads"), chapter="13_x"),
    ]
    changed, absent = filled(MOODLE, results)
    assert changed == [
        "Participant 12345,Anna Bell,anna@x.edu,Submitted,4,7.00,\r\n"
    ]
    assert absent == ["Bo Chen"]


def test_a_table_without_a_column_for_points_gets_one_a_chapter(filled):
    text = "\ufeffFirst Name;Last Name;Email\nAnna;Bell;a@x\nBo;Chen;b@x"
    changed, _ = filled(text, [graded("Bo Chen", right())])
    assert [x.encode("latin-1").decode("utf-8-sig") for x in changed] == [
        "First Name;Last Name;Email;05_gqa\n",
        "Anna;Bell;a@x;\n",
        "Bo;Chen;b@x;2",
    ]


def test_a_column_can_be_chosen(filled):
    changed, _ = filled(
        CANVAS, [graded("abell", right())], column="Other (78)"
    )
    assert changed == [ANNA.format(",2")]


def test_two_learners_of_the_batch_may_be_one_of_the_table(filled):
    results = [
        graded("abell", wrong()),
        graded("bellana", right(), submission="b", ids=("10293",)),
    ]
    changed, _ = filled(CANVAS, results)
    assert changed == [ANNA.format("2,9")]


@pytest.mark.parametrize(
    "text",
    [
        CANVAS, MOODLE, b"Name,x\nZo\xeb,1",
        'Name\r\n"a ""b"", c"\r\n\r\n', "Name,\na,", "Name", "ID,a\n1\n",
    ],
)  # fmt: skip
def test_a_table_that_gets_no_points_is_the_same_bytes(text, filled):
    changed, _ = filled(text, [])
    assert changed == []


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("a,b\n1,2\n", None, "must have a column that names the learners"),
        ("", None, "must have a column that names the learners"),
        ("Name,x\nAnn,1\n", "y", "--column must be one of Name, x; got 'y'"),
        ("Name,x,x\nAnn,1,\n", "x", "--column must be one of"),
        ('Name\n"1,2\n3', None, "line 2 of a CSV must have quotes"),
        ('Name\n"a"b\n', None, "line 2 of a CSV must have quotes"),
    ],
)
def test_a_table_of_another_kind_is_an_error(text, column, message, tmp_path):
    path = tmp_path / "class.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        Roster(path, column)


def test_two_columns_of_one_chapter_are_an_error(filled):
    text = "Name,05_gqa (1),My 05 gqa (2)\nAnn,,\n"
    with pytest.raises(ValueError, match="choose with --column"):
        filled(text, [graded("Ann", right())])


def test_a_register_knows_who_is_absent_and_who_is_unknown(tmp_path):
    path = tmp_path / "class.csv"
    path.write_text(CANVAS)
    handed_in = [
        Submission(tmp_path / "x", "x", "bellana", ("10293",)),
        Submission(tmp_path / "y", "y", "stranger"),
    ]
    (tmp_path / "marks.csv").write_text(
        "learner,exercise,points,late_days,comment\n"
        '"Chen, Bo",,,1,\nbchen,,,1,\n"Bell, Anna",,,3,\n'
    )
    register = Register.of(handed_in, tmp_path, path)
    assert register.unknown == ("stranger",)
    assert register.absent[0] == "Chen, Bo" and len(register.absent) == 3
    _, more = register.applied([])
    days = {k: x.late_days for k, x in more["remarks"].items()}
    assert days == {"Chen, Bo": 2, "bellana": 3}
    with pytest.raises(ValueError, match="learner must be one of"):
        Register.of(handed_in, tmp_path)  # without the roster
    with pytest.raises(ValueError, match="--column must come with"):
        Register.of(handed_in, tmp_path, None, "x")


def test_a_mark_by_hand_of_a_name_that_several_have_is_an_error(tmp_path):
    path = tmp_path / "class.csv"
    path.write_text("Name,ID\nAnna Bell,1\nAnna Bell,2\nAnna Bell,3\n")
    handed_in = [
        Submission(tmp_path / x, x, f"Anna Bell ({x})", (x,)) for x in "12"
    ]
    marks = tmp_path / "marks.csv"
    head = "learner,exercise,points,late_days,comment\n"
    marks.write_text(f"{head}Anna Bell,,,1,\n")
    with pytest.raises(ValueError, match="an id tells them apart"):
        Register.of(handed_in, tmp_path, path)
    marks.write_text(f"{head}3,,,1,\n1,,,2,\n")
    _, more = Register.of(handed_in, tmp_path, path).applied([])
    assert {k: x.late_days for k, x in more["remarks"].items()} == {
        "Anna Bell": 1,
        "Anna Bell (1)": 2,
    }


@pytest.mark.parametrize(
    ("columns", "column", "names"),
    [
        ("05_gqa,03_masks", None, ["bo"]),
        ("05_gqa,03_masks", "03_masks", []),
        ("Grade", None, []),
        ("Other", None, ["bo"]),
    ],
)
def test_a_total_by_hand_without_a_column_is_named(
    columns, column, names, tmp_path
):
    path = tmp_path / "class.csv"
    path.write_text(f"Name,{columns}\nbo,,\n")
    (tmp_path / "marks.csv").write_text(
        "learner,exercise,points,late_days,comment\nbo,,7,,\nann,,7,,\n"
    )
    handed_in = [Submission(tmp_path / x, x, x) for x in ("bo", "ann")]
    register = Register.of(handed_in, tmp_path, path, column)
    both = [graded("bo", right()), graded("ann", right(), chapter="03_masks")]
    results, more = register.applied(both)
    assert register.without_column(results, more["remarks"]) == names
    one, more = register.applied(both[:1])
    assert register.without_column(one, more["remarks"]) == []
