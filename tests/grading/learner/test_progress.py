"""Progress counts points, names the next exercise, and survives damage."""

from bs4 import BeautifulSoup

from attn.exercises.cells import exercise_id
from attn.grading.learner.progress_table import Progress
from attn.publishing.myst_to_markdown import copy_of
from attn.publishing.myst_to_markdown.targets import notebook as pristine
from tests.grading.learner.conftest import RIGHT
from tests.processes import run_python


def test_progress_counts_points_over_the_whole_book(learner, capsys):
    learner(RIGHT)
    learner.check()
    learner("progress()")
    out = capsys.readouterr().out
    assert "✓ sdp-softmax" in out
    assert "· mask-causal" in out
    assert out.splitlines()[-1].startswith("2 of ")


def test_progress_names_the_next_exercise_of_a_chapter_begun(learner, capsys):
    learner("from torch import zeros")
    learner("def causal(q_len, kv_len, q_offset=0): return zeros(1)")
    learner.check("mask-causal")
    learner("progress()")
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.endswith("Next: mask-causal, in 03_masks.ipynb")


def test_progress_is_a_table_with_links_to_what_is_open():
    done = {"passed": "2026-11-22 12:00", "attempts": 2}
    wrong = {"attempts": 1, "last": "wrong when L < S"}
    table = Progress({"mask-causal": done, "mask-padding": wrong})
    html = BeautifulSoup(table._repr_html_(), "html.parser")
    links = {a.get_text(): a["href"] for a in html.select("td a")}
    assert "mask-causal" not in links
    file, _, cell = links["mask-padding"].partition("#cell-id=")
    notebook = copy_of(pristine("03_masks"), set_up=False)
    stub = next(x for x in notebook["cells"] if x["id"] == cell)
    assert (file, exercise_id(stub)) == ("03_masks.ipynb", "mask-padding")
    row = html.find("tbody").find("a", string="mask-padding").parent.parent
    assert "wrong when L < S" in row.get_text()
    step = html.find("p").get_text()
    assert "mask-padding" in step and 'hint("mask-padding")' in step
    every = {x.exercise.id: done for x in table.rows}
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
