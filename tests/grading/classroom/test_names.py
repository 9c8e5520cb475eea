"""Names that platforms give: the learner, the attempt, late or not."""

import json
import os
from dataclasses import replace

import pytest

from attn.grading.classroom.reports.batch import Batch
from attn.grading.classroom.submissions import find
from tests.grading.classroom.damage.kinds import solved
from tests.grading.classroom.fakes import graded_names
from tests.grading.classroom.invented import graded, right, wrong

METADATA = """\
submission_11: !ruby/hash:Entry
  :submitters:
  - :name: Anna Bell
    :sid: '0042'
    :email: anna@example.edu
  :created_at: 2026-11-01 10:00:00.5 Z
submission_12:
  :submitters:
  - :name: Bo Chen
    :sid: 7
  - :name: Cem Demir
    :sid: 8
submission_13:
  :submitters: none
"""


@pytest.fixture
def made(tmp_path):
    """Make files below a folder, find the submissions in what is named."""

    def make(*files, named=("in",)):
        for name in files:
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(solved()))
        paths = [y for x in named for y in sorted(tmp_path.glob(x))]
        return find(paths)

    return make


def test_two_attempts_on_canvas_are_one_learner_of_whom_one_is_late(made):
    found = made(
        "in/bellana_10293_84756_03_masks.ipynb",
        "in/bellana_LATE_10293_84756_03_masks-1.ipynb",
        "in/chen-libo_LATE_10300_84001_masks.ipynb",
    )
    assert [(x.learner, x.ids, x.attempt, x.late) for x in found] == [
        ("bellana", ("10293",), (84756, 0), False),
        ("bellana", ("10293",), (84756, 1), True),
        ("chen-libo", ("10300",), (84001, 0), True),
    ]


def test_a_later_upload_to_canvas_is_a_later_attempt_whatever_its_name(made):
    one, two = made(
        "in/bellana_10293_84756_x-9.ipynb", "in/bellana_10293_90000_a.ipynb"
    )
    assert one.attempt < two.attempt


@pytest.mark.parametrize("named", ["in", "in/*"])
def test_a_folder_of_moodles_names_the_learner(named, made):
    found = made(
        "in/Anna Bell_12345_assignsubmission_file_/03_masks.ipynb",
        "in/Bo_Chen_12346_assignsubmission_file/03_masks.ipynb",
        "in/Participant_12347_assignsubmission_file_/mine.ipynb",
        named=(named,),
    )
    assert sorted((x.learner, x.ids) for x in found) == [
        ("Anna Bell", ("12345",)),
        ("Bo_Chen", ("12346",)),
        ("Participant 12347", ("12347",)),
    ]


def test_moodles_flat_files_and_empty_folders_name_the_learner(made, tmp_path):
    (tmp_path / "in/Zoë_3_assignsubmission_file_").mkdir(parents=True)
    found = made("in/Anna Bell_12345_assignsubmission_file_03_masks.ipynb")
    assert [x.learner for x in found] == ["Anna Bell"]
    (
        tmp_path / "in/Anna Bell_12345_assignsubmission_file_03_masks.ipynb"
    ).rename(tmp_path / "in/Zoë_3_assignsubmission_file_" / "x.ipynb")
    (tmp_path / "in/Cem_4_assignsubmission_file_").mkdir()
    assert [x.learner for x in made()] == ["Cem", "Zoë"]


def test_two_learners_of_one_name_are_told_apart(made):
    found = made(
        "a/bell_1_84756_x.ipynb",
        "b/bell_2_84757_x.ipynb",
        "a/Anna Bell_7_assignsubmission_file_/x.ipynb",
        "b/Anna Bell_8_assignsubmission_file_/x.ipynb",
        "b/Bo_8_assignsubmission_file_/x.ipynb",
        "b/Bo_9_assignsubmission_file_/x.ipynb",
        named=("a", "b"),
    )
    assert {x.learner for x in found} == {
        *("bell (1)", "bell (2)"),
        "Anna Bell",  # Moodle numbers the learners of each task
        *("Bo (8)", "Bo (9)"),
    }


def test_files_that_look_like_canvas_and_are_not_keep_their_names(made):
    found = made("in/hw_2026_101_ann.ipynb", "in/hw_2026_101_bo.ipynb")
    assert [x.learner for x in found] == ["hw_2026_101_ann", "hw_2026_101_bo"]
    assert not any(x.ids or x.attempt for x in found)


def test_no_learner_hands_in_under_the_name_of_another(made):
    found = made(
        "in/mallory/bellana_10293_99999_x.ipynb",
        "in/mallory/Anna Bell_12345_assignsubmission_file_/x.ipynb",
        "in/submission_12/submission_11/x.ipynb",
        "in/Bo_1_assignsubmission_file_/submission_11/x.ipynb",
        "in/submission_metadata.yml",
    )
    assert {x.learner for x in found} == {"mallory", "submission_12", "Bo"}


def test_nor_where_the_folder_of_each_learner_is_named(made):
    found = made(
        "in/anna/x.ipynb",
        "in/mallory/anna_10293_99999_x.ipynb",
        "in/mallory/submission_1/x.ipynb",
        "in/submission_2/submission_1/x.ipynb",
        named=("in/*",),
    )
    assert not any(x.ids == ("10293",) or x.attempt == (1,) for x in found)
    by_mallory = [x for x in found if x.path.parts[-2:-1] == ("mallory",)]
    assert by_mallory and not any(x.learner == "anna" for x in by_mallory)
    weeks = made(
        "a/bell_1_84756_x.ipynb", "b/bell_1_84757_x.ipynb", named=("a", "b")
    )
    assert {x.learner for x in weeks} == {"bell"}


@pytest.mark.parametrize("named", ["in", "in/submission_1*"])
def test_gradescopes_metadata_name_the_learners(named, made, tmp_path):
    made(*(f"in/submission_{x}/x.ipynb" for x in (11, 12, 13)))
    (tmp_path / "in/submission_metadata.yml").write_text(METADATA)
    found = made(named=(named,))
    assert [(x.learner, x.ids, x.partners) for x in found] == [
        ("Anna Bell", ("0042", "anna@example.edu"), ()),
        ("Bo Chen", ("7",), ("Cem Demir",)),
        ("Cem Demir", ("8",), ("Bo Chen",)),
        ("submission_13", ("13",), ()),
    ]
    assert found[1].path == found[2].path
    assert len({x.name for x in found}) == 4


def test_partners_of_one_name_are_told_apart(made, tmp_path):
    made(*(f"in/submission_{x}/x.ipynb" for x in (1, 2)))
    (tmp_path / "in/submission_metadata.yml").write_text(
        "submission_1:\n  :submitters:\n"
        "  - :name: Bo\n    :sid: 7\n  - :name: Bo\n    :sid: 8\n"
        "submission_2:\n  :submitters:\n"
        "  - :name: Ann\n    :sid: 9\n  - :name: Bo\n    :sid: 6\n"
    )
    assert [(x.learner, x.partners) for x in made(named=("in",))] == [
        ("Bo (7)", ("Bo (8)",)),
        ("Bo (8)", ("Bo (7)",)),
        ("Ann", ("Bo (6)",)),
        ("Bo (6)", ("Ann",)),
    ]


def test_metadata_that_cannot_be_read_are_an_error(made, tmp_path):
    made("in/submission_11/x.ipynb")
    (tmp_path / "in/submission_metadata.yml").write_text("a: [")
    with pytest.raises(ValueError, match=r"submission_metadata.yml must be Y"):
        made()


def test_metadata_that_a_learner_hands_in_are_not_read(made, tmp_path):
    made("in/ana/x.ipynb", "in/mallory/submission_11/x.ipynb")
    (tmp_path / "in/mallory/submission_metadata.yml").write_text("a: [")
    found = made(named=("in/*",))
    assert [x.learner for x in found] == ["ana", "mallory"]


BOMB = "a0: &a0 [x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join(9 * [f'*a{n - 1}'])}]\n" for n in range(1, 12)
)


@pytest.mark.parametrize(
    "name", ["*a11", "[]", "{}", "&b [*b]", "", "!!python/name:os.system ''"]
)
def test_only_text_in_metadata_names_a_learner(name, made, tmp_path):
    made("in/submission_11/x.ipynb")
    entry = f"submission_11:\n  :submitters:\n  - :name: {name}\n"
    path = tmp_path / "in/submission_metadata.yml"
    path.write_text(BOMB + entry + "    :sid: '7'\n")
    if name.startswith("&b"):
        with pytest.raises(ValueError, match="must be YAML; .*recursive"):
            made()
    else:
        assert [x.learner for x in made()] == ["7"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: " + "[" * 200_000, "nested at most"),
        ("- " * 200_000, "nested at most"),
        ("", "text file; it is empty"),
        ("a: \0", "must be YAML"),
    ],
    ids=["deep", "deep, in blocks", "nothing", "a null"],
)
def test_metadata_of_any_kind_end_no_grader(text, says, made, tmp_path):
    made("in/submission_11/x.ipynb")
    (tmp_path / "in/submission_metadata.yml").write_text(text)
    with pytest.raises(ValueError, match=says):
        made()


def test_metadata_that_are_no_file_are_not_waited_for(made, tmp_path):
    made("in/submission_11/x.ipynb")
    os.mkfifo(tmp_path / "in/submission_metadata.yml")
    with pytest.raises(ValueError, match="a pipe, not a file"):
        made()


def test_a_result_keeps_what_the_platform_says(made, grade_all, log):
    made("in/bellana_LATE_10293_84756_x-2.ipynb")
    found = made()
    for _ in range(2):  # graded, and as it was stored
        (result,) = grade_all(found)
        assert (result.learner, result.ids) == ("bellana", ("10293",))
        assert result.late and result.attempt == (84756, 2)
        assert result.status == "graded"
    assert len(graded_names(log)) == 1


def test_what_a_platform_says_later_reaches_the_stored_result(
    made, grade_all, log
):
    found = made("in/submission_11/x.ipynb")
    grade_all(found)
    changes = {"learner": "Ann"}, {"late": True}, {"ids": ("7",)}
    for change in changes:
        (result,) = grade_all([replace(found[0], **change)])
        ((name, value),) = change.items()
        assert getattr(result, name) == value
        assert result.status == "graded"


def test_the_latest_attempt_counts_even_if_it_has_fewer_points():
    results = [
        graded("Ann", right(), submission="a.ipynb", attempt=(5, 0)),
        graded("Ann", wrong(), submission="b.ipynb", attempt=(5, 1)),
        graded("Ann", wrong(), submission="c.ipynb", attempt=(4, 9)),
    ]
    (ann,) = Batch.of(results).learners
    assert [x.submission for x in ann.counted.values()] == ["b.ipynb"]
    later = "b.ipynb was handed in later, and counts"
    assert ann.replaced == {"a.ipynb": later, "c.ipynb": later}
