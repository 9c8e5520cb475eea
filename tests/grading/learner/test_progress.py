"""Progress counts points, names the next exercise, and survives damage."""

import json

from bs4 import BeautifulSoup

from attn.__main__ import main
from attn.exercises import CHAPTERS
from attn.exercises.cells import exercise_id
from attn.grading.learner.progress import Progress
from attn.publishing.myst_to_markdown import copy_of
from attn.publishing.myst_to_markdown.targets import notebook as pristine
from tests.grading.learner.conftest import RIGHT
from tests.processes import run_python


def test_progress_counts_points_over_the_whole_book(learner, capsys):
    learner(RIGHT)
    learner.check()
    learner("progress()")
    *lines, last = capsys.readouterr().out.splitlines()
    assert len(CHAPTERS) == sum("░" in x for x in lines)
    bar = next(x for x in lines if "Scaled dot-product attention" in x)
    assert bar.endswith("███░░░░░░░░░░░░░░░░░   2/11")
    assert last.startswith("2 of ")


def test_the_text_lists_the_open_exercises_of_the_chapter_one_is_in():
    entries = {
        "mask-causal": {"passed": "2026-11-22 12:00"},
        "mask-padding": {"attempts": 2, "hints": 1, "last": "the name"},
    }
    text = repr(Progress(entries))
    assert "  ✗ mask-padding             0/2  checks: 2  hints: 1\n" in text
    assert "      the name\n" in text and "  · mask-document" in text
    assert "mask-causal" not in text and "sdp-softmax" not in text
    assert len(text.splitlines()) == len(CHAPTERS) + 5 + 1 + 1


def test_progress_names_the_next_exercise_of_a_chapter_begun(learner, capsys):
    learner("from torch import zeros")
    learner("def causal(q_len, kv_len, q_offset=0): return zeros(1)")
    learner.check("mask-causal")
    learner("progress()")
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.endswith("Next: mask-causal, in 03_masks.ipynb")


def test_the_command_prints_the_progress_of_a_workspace(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert main(["progress"]) == 1
    assert "folder must be a workspace" in capsys.readouterr().err
    kept = tmp_path / "workspace" / ".attn"
    kept.mkdir(parents=True)
    entries = {"sdp-softmax": {"passed": "2026-11-22 12:00"}}
    (kept / "progress.json").write_text(json.dumps(entries))
    assert main(["progress"]) == 0
    assert capsys.readouterr().out == f"{Progress(entries)!r}\n"
    assert main(["progress", "workspace/.attn"]) == 0
    assert capsys.readouterr().out == f"{Progress({})!r}\n"


def test_progress_is_a_bar_a_chapter_with_links_to_what_is_open():
    done = {"passed": "2026-11-22 12:00", "attempts": 2}
    wrong = {"attempts": 1, "last": "wrong when L < S"}
    shown = Progress({"mask-causal": done, "mask-padding": wrong})
    html = BeautifulSoup(shown._repr_html_(), "html.parser")
    chapters = html.select("details")
    assert len(chapters) == len(CHAPTERS)
    [own] = [x for x in chapters if x.has_attr("open")]
    assert own.summary.get_text(" ", strip=True) == "3 Masks 1/13"
    assert "width:8%" in str(own.summary)
    links = {a.get_text(): a["href"] for a in own.select("li a")}
    assert "The causal mask" not in links
    file, _, cell = links["The padding mask"].partition("#cell-id=")
    notebook = copy_of(pristine("03_masks"), set_up=False)
    stub = next(x for x in notebook["cells"] if x["id"] == cell)
    assert (file, exercise_id(stub)) == ("03_masks.ipynb", "mask-padding")
    row = own.find("a", string="The padding mask").parent
    assert "wrong when L < S" in row.get_text()
    step = html.find("p").get_text()
    assert "padding mask, in Masks" in step and 'hint("mask-padding")' in step
    every = {x.exercise.id: done for x in shown.rows}
    assert "is done" in Progress(every)._repr_html_()


def test_a_corrupt_progress_file_is_ignored(learner, tmp_path):
    (tmp_path / ".attn").mkdir()
    (tmp_path / ".attn" / "progress.json").write_text("{ not json")
    learner(RIGHT)
    assert learner.check().out.startswith("✓")


def test_nothing_is_stored_under_pytest(tmp_path):
    script = (
        "import torch\nfrom attn.grading import check\n"
        "def softmax(x, dim=-1): return x\ncheck('sdp-softmax')\n"
    )
    run_python(script, cwd=tmp_path, check=True)
    assert not list(tmp_path.iterdir())
