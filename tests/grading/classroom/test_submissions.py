"""Each file is one submission, wherever it is and whatever it is."""

import os
import re
from pathlib import Path

import pytest

from attn.exercises import sources
from attn.grading.classroom.plan import read
from attn.grading.classroom.reading import Unreadable
from attn.grading.classroom.submissions import find


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Make files below a folder, and empty folders; go there."""
    monkeypatch.chdir(tmp_path)

    def make(*names):
        for name in names:
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.mkdir() if name.endswith("/") else path.touch()
        return tmp_path

    return make


def rows(*paths):
    return [(x.name, x.learner) for x in find(paths)]


def table(text):
    """Read lines of three: a title and what is named; files; what is found."""
    found = re.findall(r"^(.+): (.+)\n    (.+)\n    (.+)", text, re.MULTILINE)
    assert len(found) == (text.count("\n") - 1) // 3
    return [pytest.param(*cells, id=title) for title, *cells in found]


#: What is found: a name, and a learner.
FOLDERS = f"""
nbgrader's: in
    in/bo/ps1/5.ipynb in/ann/ps1/5.ipynb in/ann/ps1/extra/06.py
    ann/ps1/5.ipynb:ann ann/ps1/extra/06.py:ann bo/ps1/5.ipynb:bo
nbgrader's, as a shell names them: in/ann in/bo
    in/bo/ps1/5.ipynb in/ann/ps1/5.ipynb in/ann/ps1/extra/06.py
    ann/ps1/5.ipynb:ann ann/ps1/extra/06.py:ann bo/ps1/5.ipynb:bo
learners with different files: w1/ann w1/bo w2/ann w2/bo
    w1/ann/x.ipynb w1/bo/y.ipynb w2/ann/z.py w2/bo/z.py
    ann/x.ipynb:ann bo/y.ipynb:bo ann/z.py:ann bo/z.py:bo
two weeks: w1 w2
    w1/ann/5.py w1/bo/5.py w2/ann/5.py w2/bo/5.py
    w1/ann/5.py:ann w1/bo/5.py:bo w2/ann/5.py:ann w2/bo/5.py:bo
files and folders: in
    in/a/x.ipynb in/b.ipynb in/data/table.csv in/a/figure.png in/.git/x.py
    b.ipynb:b a/x.ipynb:a
folders beside a file of another kind: in
    in/bob/05.ipynb in/bob/figure.png in/roster.csv
    bob/05.ipynb:bob
a flat folder, with files of another kind: in
    in/zoe.pdf in/bob_05.ipynb in/xi.ipynb.txt
    bob_05.ipynb:bob_05 xi.ipynb.txt:xi zoe.pdf:zoe
a learner's empty folder: in
    in/a/x.ipynb in/b/essay.pdf in/c/
    a/x.ipynb:a b:b c:c
caches and hidden files: in
    in/a/.ipynb_checkpoints/x.py in/a/__pycache__/x.py in/a/.x.py in/a/X.IPYNB
    a/X.IPYNB:a
equal names: a/x.ipynb b/x.ipynb
    a/x.ipynb b/x.ipynb b/y.ipynb
    a/x.ipynb:a b/x.ipynb:b
a file named twice: in in/x.ipynb in/../in/x.ipynb
    in/x.ipynb in/y.py
    x.ipynb:x y.py:y
a deep folder: in
    in/{"d/" * 300}x.ipynb
    {"d/" * 300}x.ipynb:d
"""


@pytest.mark.parametrize(("named", "files", "expected"), table(FOLDERS))
def test_each_file_has_a_name_and_a_learner(named, files, expected, place):
    place(*files.split())
    found = (f"{name}:{learner}" for name, learner in rows(*named.split()))
    assert " ".join(found) == expected


def test_a_file_of_another_kind_is_read_for_what_it_is(place):
    folder = place("in/zoe.pdf", "in/xi.ipynb.txt", "in/x.py") / "in"
    (folder / "zoe.pdf").write_bytes(b"%PDF-1.7")
    chapter = sources.notebook_path("mask").read_bytes()
    (folder / "xi.ipynb.txt").write_bytes(chapter)  # as some browsers save it
    found = {x.learner: x for x in find([folder])}
    assert read(found["xi"]).key == "mask"
    with pytest.raises(Unreadable, match="the notebook itself is needed"):
        read(found["zoe"])
    with pytest.raises(Unreadable, match="without a notebook"):
        read(find([place("two/a/x.py", "two/c/") / "two"])[1])


@pytest.mark.parametrize(
    "planted",
    [
        "mallory/bo/x.ipynb",
        "mallory/bo.ipynb",
        "mallory/bo_1_assignsubmission_file_/x.ipynb",
        "mallory/bo_10293_99999_x.ipynb",
        "mallory/submission_1/x.ipynb mallory/submission_metadata.yml",
    ],
)
@pytest.mark.parametrize("file", ["x.ipynb", "05/x.ipynb"])
@pytest.mark.parametrize("again", ["", "in/mallory/x.ipynb"])
@pytest.mark.parametrize("named", ["in", "in/ana in/bo in/mallory"])
def test_no_learner_hands_in_under_the_name_of_another(
    planted, file, again, named, place
):
    place(f"in/ana/{file}", f"in/bo/{file}", *again.split())
    place(*(f"in/{x}" for x in planted.split()))
    found = find(named.split())
    assert {x.learner for x in found} == {"ana", "bo", "mallory"}
    assert all(x.name.startswith(f"{x.learner}/") for x in found)
    assert not any(x.ids or x.attempt for x in found)


def test_a_folder_that_cannot_be_listed_is_a_row(place, monkeypatch):
    place("in/a/x.ipynb", "in/b/ps1/x.ipynb")

    def listed(scan):
        def call(path, *flags):
            if str(path).endswith("ps1"):
                raise PermissionError(13, "Permission denied")
            return scan(path, *flags)

        return call

    monkeypatch.setattr(os, "listdir", listed(os.listdir))
    monkeypatch.setattr(os, "open", listed(os.open))
    assert rows("in") == [("a/x.ipynb", "a"), ("b/ps1", "b")]
    with pytest.raises(Unreadable, match="opened: Permission denied"):
        read(find(["in"])[1])
    with pytest.raises(ValueError, match="must be readable"):
        find(["in/b/ps1"])


def test_links_are_followed_only_where_the_teacher_names_them(place):
    folder = place("real/x.ipynb", "in/a/y.ipynb")
    (folder / "in/b").symlink_to(folder / "real")
    (folder / "in/c.ipynb").symlink_to(folder / "real/x.ipynb")
    (folder / "in/loop.ipynb").symlink_to("loop.ipynb")
    (folder / "in/a/up").symlink_to(folder / "in")
    own = [("c.ipynb", "c"), ("loop.ipynb", "loop"), ("a/y.ipynb", "a")]
    assert rows("in") == own
    assert rows("in/b") == [("x.ipynb", "x")]
    (named,) = find(["in/c.ipynb"])
    assert named.path == (folder / "real/x.ipynb").resolve()


@pytest.mark.parametrize(
    "name", ["new\nline", "new\\nline", "\x1b[31mred", "\udcff", "é"]
)
def test_a_name_is_one_line_that_can_be_printed_and_unique(name, place):
    folder = place(f"in/{name}.ipynb", "in/new\nline.ipynb", "in/plain.ipynb")
    found = find(["in"])
    for x in found:
        assert x.name.isprintable() and x.learner.isprintable()
        x.name.encode()
        assert x.path.parent == (folder / "in").resolve()
    names = {f"{name}.ipynb", "new\nline.ipynb", "plain.ipynb"}
    assert len({x.name for x in found}) == len(names)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("nowhere", "must exist; got 'nowhere'"),
        ("in/nowhere.ipynb", "must exist"),
        ("in/x.zip", "must be a folder, a notebook"),
        ("empty", "a folder without one"),
        ("a\0b", "must exist"),
        ("loop.ipynb", "must exist"),
    ],
)
def test_a_path_without_submissions_is_an_error(path, message, place):
    folder = place("in/x.zip", "in/x.ipynb", "empty/readme.md")
    (folder / "loop.ipynb").symlink_to("loop.ipynb")
    with pytest.raises(ValueError, match=message):
        find(["in", path])
    with pytest.raises(ValueError, match="got none"):
        find([])


# --- Platforms ---------------------------------------------------------------

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
  - :name: Bo Chen
    :sid: 8
submission_13:
  :submitters: none
"""


def known(named="in"):
    """Return what is known of each learner."""
    found = find(sorted(Path.cwd().glob(named)))
    return [(x.learner, x.ids, x.attempt) for x in found]


#: What is found: names, ids and attempts.
NAMES = """
Canvas: in
    in/ann_10_847_x.ipynb; in/ann_LATE_10_847_x-1.ipynb; in/ann_10_900_a.py
    ann 10 847 0; ann 10 847 1; ann 10 900 0
Canvas, a name with a hyphen: in
    in/chen-libo_LATE_10300_84001_masks.ipynb
    chen-libo 10300 84001 0
files that look like Canvas's and are not: in
    in/hw_2026_101_ann.ipynb; in/hw_2026_101_bo.ipynb
    hw_2026_101_ann; hw_2026_101_bo
Moodle, a folder for each: in
    in/Anna Bell_1_assignsubmission_file_/x.py; in/Cem_3_assignsubmission_file/
    Anna Bell 1; Cem 3
Moodle, folders as a shell names them: in/*
    in/Ann_1_assignsubmission_file_/x.py; in/B_C_2_assignsubmission_file/y.py
    Ann 1; B_C 2
Moodle, without names: in
    in/Participant_12347_assignsubmission_file_/mine.ipynb
    Participant 12347 12347
Moodle, flat: in
    in/Anna Bell_12345_assignsubmission_file_03_masks.ipynb
    Anna Bell 12345
two of one name: ?
    a/bell_1_84756_x.ipynb; b/bell_2_84757_x.ipynb
    bell (1) 1 84756 0; bell (2) 2 84757 0
Moodle numbers the learners of each task: ?
    a/Ann_7_assignsubmission_file_/x.ipynb; b/Ann_8_assignsubmission_file_/x.py
    Ann 7; Ann 8
two of one name in one task: in
    in/Bo_8_assignsubmission_file_/x.ipynb; in/Bo_9_assignsubmission_file_/x.py
    Bo (8) 8; Bo (9) 9
a name of a platform's inside another: in
    in/submission_2/submission_1/x.py; in/B_1_assignsubmission_file/a_1_222_.py
    B 1; submission_2 2 2
"""


@pytest.mark.parametrize(("named", "files", "expected"), table(NAMES))
def test_a_platforms_names_are_taken_apart(named, files, expected, place):
    place(*files.split("; "))
    told = (" ".join(map(str, (x, *y, *z))) for x, y, z in known(named))
    assert "; ".join(sorted(told)) == expected


@pytest.mark.parametrize("named", ["in", "in/submission_1*"])
def test_gradescopes_metadata_name_the_learners(named, place):
    place(*(f"in/submission_{x}/x.ipynb" for x in (11, 12, 13)))
    Path("in/submission_metadata.yml").write_text(METADATA)
    assert known(named) == [
        ("Anna Bell", ("0042", "anna@example.edu"), (11,)),
        ("Bo Chen (7)", ("7",), (12,)),
        ("Bo Chen (8)", ("8",), (12,)),
        ("submission_13", ("13",), (13,)),
    ]
    found = find(["in"])
    assert found[1].path == found[2].path
    assert len({x.name for x in found}) == 4


def test_only_text_in_metadata_names_a_learner(place):
    text = "a0: &a0 [x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join(9 * [f'*a{n - 1}'])}]\n"
        for n in range(1, 12)
    )
    names = "*a11", "[]", "{}", "", "!!python/name:os.system ''"
    for n, name in enumerate(names):
        people = f"  :submitters:\n  - :name: {name}\n    :sid: '{n}'\n"
        text += f"submission_{n}:\n{people}"
    place(*(f"in/submission_{n}/x.ipynb" for n in range(5)))
    Path("in/submission_metadata.yml").write_text(text)
    assert [x[0] for x in known()] == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize(
    "text",
    ["a: " + "[" * 200_000, "- " * 200_000, "", "a: \0", "a: [", "&b [*b]"],
    ids=["deep", "deep, in blocks", "nothing", "a null", "half", "a circle"],
)
def test_metadata_that_cannot_be_read_are_an_error(text, place):
    path = place("in/submission_11/x.ipynb") / "in/submission_metadata.yml"
    path.write_text(text)
    with pytest.raises(ValueError, match="submission_metadata.yml must be "):
        known()
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(ValueError, match="a pipe or a device, not a file"):
        find(["in/../in"])
