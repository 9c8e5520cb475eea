"""``attn check`` judges the answers in a file, as a learner types it."""

import pytest

from attn.__main__ import main
from attn.exercises import sources
from attn.exercises.spec import find

RIGHT = sources.solution("why-causal_average")
WRONG = find("why-soft_lookup").mistakes[0]


@pytest.fixture
def file(tmp_path):
    """One right answer, one wrong, two missing."""
    path = tmp_path / "work" / "mine.py"
    path.parent.mkdir()
    path.write_text(f"import torch\n\n\n{RIGHT}\n\n\n{WRONG.source}\n")
    return path


def test_each_exercise_of_a_file_has_its_verdict(file, capfd):
    before = sorted(file.parent.iterdir())
    assert main(["check", str(file)]) == 1
    out, err = capfd.readouterr()
    assert out == "✓ why-causal_average  1/1 points\n"
    refused = [x for x in err.splitlines() if x.startswith("✗")]
    assert [x.split()[1] for x in refused] == [
        "why-gradient_by_distance",
        "why-kernel_regression",
        "why-soft_lookup",
    ]
    assert WRONG.name in err
    assert sorted(file.parent.iterdir()) == before, "nothing is stored"


def test_only_what_is_named_counts(file, capfd):
    assert main(["check", str(file), "why-causal_average"]) == 0
    assert capfd.readouterr() == ("✓ why-causal_average  1/1 points\n", "")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["mine.py", "sdp-softmax"], "ids must be of the chapter in mine.py"),
        (["mine.py", "why-nix"], "exercise_id must be one of the book's"),
        (["empty.py"], "empty.py: it is empty"),
        (["nowhere.py"], "nowhere.py: it cannot be opened"),
    ],
)
def test_what_cannot_be_checked_is_named(
    words, says, file, monkeypatch, capfd
):
    monkeypatch.chdir(file.parent)
    (file.parent / "empty.py").write_text("")
    assert main(["check", *words]) == 1
    out, err = capfd.readouterr()
    assert says in err and not out
