"""Progress counts points and leads on, in bars and in the start notebook."""

import json

import pytest
from bs4 import BeautifulSoup

from attn.__main__ import main
from attn.exercises import APPENDICES, CHAPTERS
from attn.exercises.answers import digest
from attn.grading.learner.progress import Progress, update
from attn.grading.learner.start_page import StartPage
from tests.grading.learner.conftest import (
    BEGUN,
    DONE,
    RIGHT,
    exercise_at,
    pane,
)


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
    every = dict.fromkeys((x.id for x in shown.rows), DONE)
    assert "is done" in Progress(every)._repr_html_()


def test_a_corrupt_progress_file_is_ignored(learner, tmp_path):
    (tmp_path / ".attn").mkdir()
    (tmp_path / ".attn" / "progress.json").write_text("{ not json")
    assert learner(f"{RIGHT}check('sdp-softmax')").out.startswith("✓")


def test_nothing_is_stored_under_pytest(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    update("sdp-softmax", **DONE)
    assert not list(tmp_path.iterdir())


def page(entries):
    return BeautifulSoup(StartPage(entries)._repr_html_(), "html.parser")


def test_a_beginner_is_led_to_the_first_chapter():
    begin = page({}).select_one(".next")
    assert begin.a.get_text() == "Begin here"
    assert begin.a["href"] == "01_why_attention.ipynb"
    assert "0 of " in begin.get_text()
    assert repr(StartPage({})).startswith("Chapter 1: Why attention?")


def test_the_page_leads_to_the_open_cell_of_the_chapter_begun():
    seen = page(BEGUN)
    step = seen.select_one(".next")
    assert step.a.get_text() == "Continue here"
    assert step.a["href"].startswith("03_masks.ipynb#")
    assert exercise_at(step.a) == "mask-padding"
    assert "wrong when L < S" in step.get_text()
    assert "wrong when L &lt; S" in str(step)
    [here] = seen.select("li.here")
    assert here.a.get_text() == "3 · Masks"
    assert "1 of 13 points" in here.get_text()


def test_a_card_for_each_chapter_has_its_picture_minutes_and_summary():
    cards = page({}).select(".cards li")
    stems = [*CHAPTERS.values(), *APPENDICES]
    assert [x.a["href"] for x in cards] == [f"{stem}.ipynb" for stem in stems]
    for card, stem in zip(cards, stems, strict=True):
        assert card.svg.path and not card.select("text")
        assert len(card.select_one(".quiet").get_text()) > 80
        minutes = stem in CHAPTERS.values()
        assert (" minutes" in card.get_text()) == minutes


def test_chapters_that_are_done_and_a_book_that_is_done_say_so():
    rows = Progress({}).rows
    first = {x.id: DONE for x in rows if x.stem == "01_why_attention"}
    assert len(page(first).select("li.done")) == 1
    every = page({x.id: DONE for x in rows})
    assert len(every.select("li.done")) == len(CHAPTERS)
    assert "The book is done" in every.select_one(".next").get_text()
    assert not every.select(".next a")


@pytest.mark.browser
@pytest.mark.parametrize(
    ("about", "theme"),
    [
        ('data-jp-theme-light="true"', "light"),
        ('data-jp-theme-light="false"', "dark"),  # of JupyterLab
        ('class="vscode-dark"', "dark"),
    ],
)
def test_the_page_can_be_read_by_all_in_either_theme(browser, about, theme):
    tab = pane(browser, StartPage(BEGUN)._repr_html_(), theme, about)
    blue = tab.locator(".bar span").first.evaluate(
        "e => getComputedStyle(e).backgroundColor"
    )
    assert (blue == "rgb(36, 112, 200)") == (theme == "light")
    tab.close()


def test_a_right_answer_that_the_file_has_lost_is_to_be_checked_again(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    was, now = "def causal(): pass", "def causal(): return 1"
    path = tmp_path / "03_masks.ipynb"
    cell = {"cell_type": "code", "source": [was]}
    path.write_text(json.dumps({"cells": [cell]}))
    own = {"passed": "2026-11-30", "text": digest(was), "at": 0}
    entries = {"mask-causal": own}
    said = "changed since its check: check it again"
    assert said not in repr(Progress(entries))
    path.write_text(json.dumps({"cells": [{**cell, "source": [now]}]}))
    shown = Progress(entries)
    assert f"✓ mask-causal              1/1  {said}" in repr(shown)
    assert said in shown._repr_html_()
    own["at"] = path.stat().st_mtime + 1  # it was saved before the check
    assert said not in repr(Progress(entries))
