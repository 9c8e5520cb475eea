"""Progress counts points, names the next exercise, and survives damage."""

import json

from bs4 import BeautifulSoup

from attn.__main__ import main
from attn.exercises import CHAPTERS
from attn.grading.learner.progress import Progress, update
from tests.grading.learner.conftest import BEGUN, DONE, RIGHT, exercise_at


def test_progress_counts_points_over_the_whole_book(learner):
    learner(f"{RIGHT}check('sdp-softmax')")
    *lines, last = learner("progress()").out.splitlines()
    assert len(CHAPTERS) == sum("░" in x for x in lines)
    bar = next(x for x in lines if "Scaled dot-product attention" in x)
    assert bar.endswith("███░░░░░░░░░░░░░░░░░   2/11")
    assert last.startswith("2 of ")


def test_the_text_leads_to_the_open_exercises_of_a_chapter_begun():
    text = repr(Progress(BEGUN))
    assert "  ✗ mask-padding             0/2  checks: 2  hints: 1\n" in text
    assert "      wrong when L < S\n" in text and "  · mask-document" in text
    assert "mask-causal" not in text and "sdp-softmax" not in text
    assert len(text.splitlines()) == len(CHAPTERS) + 5 + 1 + 1
    assert text.endswith("Next: mask-padding, in 03_masks.ipynb")


def test_the_command_prints_the_progress_of_a_workspace(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert main(["progress"]) == 1
    assert "folder must be a workspace" in capsys.readouterr().err
    kept = tmp_path / "workspace" / ".attn"
    kept.mkdir(parents=True)
    (kept / "progress.json").write_text(json.dumps(BEGUN))
    for words, entries in (([], BEGUN), (["workspace/.attn"], {})):
        assert main(["progress", *words]) == 0
        assert capsys.readouterr().out == f"{Progress(entries)!r}\n"


def test_progress_is_a_bar_a_chapter_with_links_to_what_is_open():
    shown = Progress(BEGUN)
    html = BeautifulSoup(shown._repr_html_(), "html.parser")
    chapters = html.select("details")
    assert len(chapters) == len(CHAPTERS)
    [own] = [x for x in chapters if x.has_attr("open")]
    assert own.summary.get_text(" ", strip=True) == "3 Masks 1/13"
    assert "width:8%" in str(own.summary)
    links = {a.get_text(): a for a in own.select("li a")}
    assert "The causal mask" not in links
    link = links["The padding mask"]
    assert link["href"].startswith("03_masks.ipynb#")
    assert exercise_at(link) == "mask-padding"
    assert "wrong when L < S" in link.parent.get_text()
    step = html.find("p").get_text()
    assert "padding mask, in Masks" in step and 'hint("mask-padding")' in step
    every = dict.fromkeys((x.exercise.id for x in shown.rows), DONE)
    assert "is done" in Progress(every)._repr_html_()


def test_a_corrupt_progress_file_is_ignored(learner, tmp_path):
    (tmp_path / ".attn").mkdir()
    (tmp_path / ".attn" / "progress.json").write_text("{ not json")
    assert learner(f"{RIGHT}check('sdp-softmax')").out.startswith("✓")


def test_nothing_is_stored_under_pytest(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    update("sdp-softmax", **DONE)
    assert not list(tmp_path.iterdir())
