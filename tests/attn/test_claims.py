"""Claims are comparisons: asserted on a page, repeated by the runner."""

import importlib
import json
from concurrent.futures import Executor, Future

import nbformat
import pytest
import torch

from attn.publishing.claims import cells, claim, experiment, record, run

claims_main = importlib.import_module("attn.publishing.claims.__main__")


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """A record of its own, and pages that assert."""
    monkeypatch.setattr(record, "FOLDER", tmp_path / "record")
    monkeypatch.setattr(record, "REPEATING", False)
    return tmp_path / "record"


def test_a_claim_reports_the_margin_to_its_bound():
    assert claim("a", torch.tensor(2.0), above=1.5).margin == 0.5
    assert claim("a", 2, below=2.5).margin == 0.5
    assert not claim("a", 2, above=2).holds, "equal is no margin"
    assert not claim("a", float("nan"), above=0).holds


@pytest.mark.parametrize("bounds", [{}, {"above": 1, "below": 2}])
def test_a_claim_requires_exactly_one_bound(bounds):
    with pytest.raises(ValueError, match="one bound: above=… or below=…"):
        claim("a", 1, **bounds)


def test_a_page_asserts_its_claims(kept, capsys):
    @experiment(steps=5)
    def count(seed, steps):
        return seed + steps

    @count.shows
    def right(result):
        return [claim("it counts", result, above=4)]

    @count.shows(after=5)
    def right_then(result):
        return [claim("it is at five", result, below=6)]

    shown = capsys.readouterr().out
    assert shown == "✓ it counts\n✓ after 5 steps, it is at five\n"
    assert [x.text for x in count.claims(3, 5)] == [
        "it counts",
        "after 5 steps, it is at five",
    ]
    assert len(count.claims(0, 50)) == 1, "the other is about 5 steps"

    with pytest.raises(AssertionError, match="it is large: 5, above 9"):

        @count.shows
        def wrong(result):
            return [claim("it is large", result, above=9)]

    with pytest.raises(ValueError, match="must show something"):
        count.shows(lambda result: [])
    with pytest.raises(ValueError, match="5 or 50, the steps of count; got 6"):
        count.shows(after=6)(right)
    with pytest.raises(ValueError, match="longer must be at least 10.*got 3"):
        experiment(steps=5, longer=3)


CELLS = (
    "import math\nimport attn\n"
    "from attn.publishing.claims import claim, experiment",
    "%xmode Minimal\nunused = missing",
    "size = 3\nsizes = {}\nsizes['a'] = 1",
    "def grow(n):\n    return size * n",
    "@experiment(steps=2)\ndef growth(seed, steps):\n"
    "    return grow(steps) + seed",
    "print(growth())",
    "bound = 5",
    "@growth.shows\ndef it_grows(result):\n"
    "    return [claim('it grows', result, above=bound)]",
    "@growth.shows(after=20)\ndef long(result):\n"
    "    return [claim('it is long', result, above=50)]",
)


def chapter(folder, *changes):
    made = nbformat.v4.new_notebook()
    for source in CELLS:
        for old, new in changes:
            source = source.replace(old, new)
        made.cells.append(nbformat.v4.new_code_cell(source))
    wrong = nbformat.v4.new_code_cell("size = size / 0")
    wrong.metadata["tags"] = ["raises-exception"]
    made.cells.insert(3, wrong)
    path = folder / "90_growth.ipynb"
    nbformat.write(made, path)
    run.sources.cache_clear()
    return path


def test_an_experiment_needs_the_cells_that_bind_its_names():
    assert cells.needed(list(CELLS), "growth") == [0, 2, 3, 4, 6, 7, 8]


def test_an_experiment_inside_a_condition_is_found():
    source = "if True:\n    " + CELLS[4].replace("\n", "\n    ")
    assert cells.experiments(source) == ["growth"]


def test_a_chapter_is_repeated_with_other_seeds_and_more_steps(tmp_path, kept):
    path = chapter(tmp_path)
    runs = list(run.repeat(path, "growth"))
    ran = [(x["seed"], x["steps"]) for x in runs]
    on_the_page = [(seed, 2) for seed in range(4)]
    assert ran == [*on_the_page, (0, 4), *((seed, 20) for seed in range(4))]
    assert [len(x["claims"]) for x in runs] == [1] * 5 + [2] * 4
    assert runs[-1]["result"] == 63 and runs[-1]["claims"][1]["margin"] == 13
    others = list(run.repeat(path, "growth", (8, 9)))
    assert [x["seed"] for x in others] == [8, 9]


def test_a_record_is_written_by_the_runner_and_read_by_a_page(tmp_path, kept):
    path = chapter(tmp_path)
    assert claims_main.main([str(path), "--processes", "1"]) == 0
    entries = json.loads((kept / "90_growth.json").read_text("utf-8"))
    assert entries["growth"]["digest"] == run.digest(path, "growth")
    assert entries["growth"]["about"]["versions"]["torch"]
    assert record.result("growth", 1, 20) == 61
    with pytest.raises(LookupError, match="make claims"):
        record.result("growth", 9, 20)


class Here(Executor):
    """Jobs that run at once, in this process."""

    def __init__(self, *_, **options):
        pass

    def submit(self, job, *arguments):
        done = Future()
        done.set_result(job(*arguments))
        return done


def test_a_failed_claim_is_reported_and_sets_the_exit_status(
    tmp_path, kept, capsys, monkeypatch
):
    monkeypatch.setattr(claims_main, "ProcessPoolExecutor", Here)
    path = chapter(tmp_path, ("above=bound", "above=7"))
    assert claims_main.main([str(path), "--processes", "1"]) == 1
    shown = capsys.readouterr().err
    assert "growth: seed 0, 2 steps: it grows: 6, bound 7" in shown
    entry = record.chapter("90_growth")["growth"]
    assert len(claims_main.failures(entry)) == 2


OUTDATED_BY = [
    ("it grows", "it grows fast"),
    ("above=bound", "below=bound"),
    ("bound = 5", "bound = 4"),
    ("size * n", "n * size"),
]
GRADER = "from attn.grading import check, why\n"
NOT_BY = [
    ("    return grow", "    '''Grow.'''  # well\n\n    return grow"),
    ("import math\n", f"import math\n{GRADER}"),
]


@pytest.mark.parametrize("change", OUTDATED_BY + NOT_BY)
def test_a_record_is_outdated_by_claims_and_code_not_layout(tmp_path, change):
    old = run.digest(chapter(tmp_path), "growth")
    new = run.digest(chapter(tmp_path, change), "growth")
    assert (new != old) == (change in OUTDATED_BY)
