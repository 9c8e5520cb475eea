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
Why?

# Right answers

## d
    return 1

## e, explained
    return 2
In another way.
""".lstrip()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "scale.md"


def test_every_part_of_a_file_is_read(path):
    path.write_text(FILE)
    text = read(path)
    assert text.effort == "10 minutes, medium"
    assert text.hints == ("a", "b")
    assert text.mistakes == [("c", "- x\n+ y", "Why?")]
    assert text.right_answers == [
        ("d", "return 1", ""),
        ("e, explained", "return 2", "In another way."),
    ]


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
        ("    - x\n    + y\n", "", "## c: an entry must have a name and code"),
        ("    return 1\n", "", "## d: an entry must have a name and code"),
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
    """For whole entries, and for the beginning of one's code."""
    path.with_name("both.md").write_text("## b\n    c\nd\n\n")
    path.with_name("helper.md").write_text("    two = 2\n")
    text = FILE.replace("## c\n", "[Both](both.md)\n\n## c\n")
    text = text.replace("## d\n", "## d\n[Two](helper.md)\n\n")
    path.write_text(text)
    assert [x.name for x in read(path).mistakes] == ["b", "c"]
    assert read(path).right_answers[0].code == "two = 2\nreturn 1"
