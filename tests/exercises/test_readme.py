"""The README states the kill rate that the tests measure."""

import re
from pathlib import Path

import pytest

from attn.data.book import PACKAGE, state_package
from attn.exercises.kill_rate import state_kill_rate
from attn.exercises.spec import every_exercise

README = Path(__file__).resolve().parents[2] / "README.md"


def test_the_kill_rate_in_the_readme_is_the_measured_one():
    """test_mistakes proves that all are caught, named and accepted; the
    README must give their number (`make refresh` writes it)."""
    exercises = every_exercise()
    wrong = sum(len(x.mistakes) for x in exercises)
    names = {(y.name, y.why) for x in exercises for y in x.mistakes}
    right = sum(len(x.equivalents) + 1 for x in exercises)
    line = (
        f"{wrong} of {wrong} wrong answers caught, {wrong} named, under "
        f"{len(names)} names; "
        f"{right} of {right} right answers accepted**, "
        f"over {len(exercises)} exercises"
    )
    assert line in README.read_text("utf-8")


def test_refresh_writes_kill_rate_and_package_and_nothing_else(tmp_path):
    copy, text = tmp_path / "README.md", README.read_text("utf-8")
    copy.write_text(re.sub(r"\d+( of \d+ (?:wrong|right))", r"1\1", text))
    assert copy.read_text("utf-8") != text
    state_kill_rate(copy)
    assert copy.read_text("utf-8") == text
    copy.write_text(text.replace(f'"{PACKAGE}[', '"attn-0.whl['))
    assert copy.read_text("utf-8") != text
    state_package(copy)
    assert copy.read_text("utf-8") == text
    copy.write_text(text.replace("wrong answers", "answers"))
    with pytest.raises(ValueError, match="must state the kill rate once"):
        state_kill_rate(copy)
