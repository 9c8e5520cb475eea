"""The README states the kill rate that `make test` measures."""

from pathlib import Path

from attn.exercises.spec import every_exercise

ROOT = Path(__file__).resolve().parents[2]


def test_the_kill_rate_in_the_readme_is_the_measured_one():
    """test_teeth proves that all are caught, named and accepted; the README
    must give their number."""
    exercises = every_exercise()
    wrong = sum(len(x.mistakes) for x in exercises)
    right = sum(len(x.equivalents) + 1 for x in exercises)
    line = (
        f"{wrong} of {wrong} wrong answers caught, {wrong} named; "
        f"{right} of {right} right answers accepted"
    )
    assert line in (ROOT / "README.md").read_text("utf-8")
