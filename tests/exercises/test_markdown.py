"""An exercise's Markdown file is read whole, or refused with its name."""

import pytest

from attn.exercises.edits import EditError
from attn.exercises.markdown import read

FILE = """
# Effort
10 minutes, medium

# Hints

1. a
2. b

# Mistakes

## c
    - x
    + y
or
    - x
    + z
Why?

# Right answers

## d
    return 1

## e, explained
    return 2
In another way.
""".lstrip()
EDITS = FILE.partition("## c\n")[2].partition("Why?")[0]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "scale.md"


def test_every_part_of_a_file_is_read(path):
    path.write_text(FILE)
    text = read(path)
    assert text.effort == "10 minutes, medium"
    assert text.hints == ("a", "b")
    assert text.mistakes == [("c", ("- x\n+ y", "- x\n+ z"), "Why?")]
    assert text.right_answers == [
        ("d", ("return 1",), ""),
        ("e, explained", ("return 2",), "In another way."),
    ]


def test_one_of_several_edits_is_called_by_its_number(path):
    path.write_text(FILE)
    [mistake], [right, _] = read(path)[2:]
    assert [x for x, _ in mistake.labelled()] == ["c, edit 1", "c, edit 2"]
    assert [*right.labelled()] == [("d", "return 1")]


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("10 minutes, medium", "10 minutes", "such as '10 minutes, medium'"),
        ("# Hints", "", "then '# Hints'"),
        ("# Mistakes", "", "then '# Hints', '# Mistakes'"),
        ("# Right answers", "", "and '# Right answers'"),
        ("2. b", "wrapped", "wrapped"),
        ("## c\n", "lost\n## c\n", "lost"),
        ("## d\n", "lost\n## d\n", "lost"),
        (EDITS, "", "## c: an entry must have a name and code"),
        ("    return 1\n", "", "## d: an entry must have a name and code"),
        ("    - x\n    + y\n", "", "## c: a line 'or' must be between two"),
        ("    - x\n    + z\n", "", "## c: a line 'or' must be between two"),
        ("or\n", "or\nor\n", "## c: a line 'or' must be between two"),
        ("or\n", "So?\nor\n", "## c: the explanation must be below all"),
        ("    + z", "    + y", "## c: its edits must differ"),
        ("turn 1", "turn 1\nor\n    x", "## d: a right answer must be one"),
        ("Why?", "", "## c: a mistake must have an explanation"),
        ("## e, explained", "## d", "## d: two entries share this name"),
        ("## c\n", "[Both](both.md)\n## c\n", "both.md"),
    ],
)
def test_a_malformed_file_is_refused(path, old, new, message):
    assert FILE.count(old) == 1
    path.write_text(FILE.replace(old, new))
    with pytest.raises(EditError, match=f"(?s)/scale.md.*{message}"):
        read(path)


def test_a_missing_file_is_named(path):
    with pytest.raises(EditError, match="scale.md cannot be read"):
        read(path)


def test_a_link_is_read_as_the_file_that_two_exercises_share(path):
    """For whole entries, for one edit, and for the beginning of one's code."""
    path.with_name("both.md").write_text("## b\n    c\nor\n    e\nd\n\n")
    path.with_name("helper.md").write_text("    two = 2\n")
    text = FILE.replace("## c\n", "[Both](both.md)\n\n## c\n")
    text = text.replace("## d\n", "## d\n[Two](helper.md)\n\n")
    text = text.replace("Why?", "or\n[Two](helper.md)\nWhy?")
    path.write_text(text)
    b, c = read(path).mistakes
    assert b == ("b", ("c", "e"), "d")
    assert c.edits[2:] == ("two = 2",)
    assert read(path).right_answers[0].edits == ("two = 2\nreturn 1",)
