"""What a learner sees: check, hint, solution, progress and reset."""

import re

import pytest
import torch
from bs4 import BeautifulSoup

import attn.__main__
from attn.exercises.cells import exercise_id
from attn.grading.learner import progress_store, session, workspace
from attn.grading.learner.progress_table import Progress
from attn.publishing.myst_to_markdown import copy_of
from attn.publishing.myst_to_markdown.targets import notebook as pristine
from tests.processes import run_python

WRONG = "def softmax(x, dim=-1):\n    return torch.exp(x) / x.shape[dim]\n"
RIGHT = """
def softmax(x, dim=-1):
    e = torch.exp(x.float() - x.float().amax(dim, keepdim=True))
    return (e / e.sum(dim, keepdim=True)).to(x.dtype)
"""
DOUBLE = """
def softmax(x, dim=-1):
    y = x.double()
    e = torch.exp(y - y.amax(dim, keepdim=True))
    return (e / e.sum(dim, keepdim=True)).to(x.dtype)
"""


@pytest.fixture
def learner(tmp_path, monkeypatch, capsys):
    """Run cells in a namespace and a folder of their own, with progress."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(progress_store, "is_enabled", lambda: True)
    session._last.clear()
    session._hints_shown.clear()
    namespace = {"torch": torch, "__name__": "__main__"}

    def run(source):
        exec(compile(source, "<cell>", "exec"), namespace)  # noqa: S102

    def check(exercise_id="sdp-softmax"):
        """Return what a check prints, and what it writes on stderr."""
        capsys.readouterr()
        run(f"check({exercise_id!r})")
        return capsys.readouterr()

    run("from attn.grading import check, hint, solution, progress, reset")
    run.namespace, run.check = namespace, check
    return run


def test_a_right_answer_prints_one_stable_line(learner):
    learner(DOUBLE)
    assert learner.check() == ("✓ sdp-softmax  2/2 points\n", "")


def test_a_wrong_answer_is_reported_on_stderr_without_an_error(learner):
    learner(WRONG)
    out, err = learner.check()
    assert out == ""
    assert err.startswith("✗ sdp-softmax  0/2 points")


def test_the_reference_replaces_a_wrong_answer(learner):
    learner(WRONG)
    learner.check()
    learner("total = softmax(torch.zeros(4)).sum().item()")
    assert learner.namespace["total"] == 1.0


def test_checking_the_reference_again_never_passes(learner):
    learner(WRONG)
    diagnosis = " ".join(learner.check().err.splitlines()[1].split())
    for _ in range(2):
        out, err = learner.check()
        assert out == ""
        assert diagnosis in " ".join(err.split())


def test_the_last_diagnosis_is_shown_once_at_each_further_check(learner):
    learner(WRONG)
    _, second, third, fourth = (learner.check().err for _ in range(4))
    assert second == third == fourth
    assert second.count("Last time:") == 1


@pytest.mark.parametrize(
    "trick",
    [
        "held = softmax\ndef softmax(x, dim=-1): return held(x, dim)",
        "softmax = lambda x, dim=-1, f=softmax: f(x, dim)",
        "from functools import partial\nsoftmax = partial(softmax)",
    ],
)
def test_the_reference_does_not_pass_as_an_answer(learner, trick):
    learner(WRONG)
    learner.check()
    learner(trick)
    assert learner.check().out == ""


@pytest.mark.parametrize(
    "trick",
    [
        "from attn import softmax",
        "from attn.functional import softmax",
        "import attn\ndef softmax(x, dim=-1): return attn.softmax(x, dim)",
        "import attn\n"
        "def softmax(x, dim=-1): import attn; return attn.softmax(x, dim)",
        "from attn import functional as F\n"
        "def helper(x, dim): return F.softmax(x, dim)\n"
        "def softmax(x, dim=-1): return helper(x, dim)",
        "import attn\nheld = [{'one': attn.softmax}]\n"
        "def softmax(x, dim=-1): return held[0]['one'](x, dim)",
        "import attn\n"
        "def softmax(x, dim=-1, do=attn.softmax): return do(x, dim)",
        "import attn\ndef made(do):\n"
        "    def softmax(x, dim=-1): return do(x, dim)\n"
        "    return softmax\nsoftmax = made(attn.softmax)",
        "import attn, functools\nhelper = functools.partial(attn.softmax)\n"
        "def softmax(x, dim=-1): return helper(x, dim)",
        "import attn, functools\n"
        "@functools.cache\ndef helper(): return attn.softmax\n"
        "def softmax(x, dim=-1): return helper()(x, dim)",
    ],
)
def test_a_call_of_the_library_does_not_pass_as_an_answer(learner, trick):
    learner(trick)
    out, err = learner.check()
    assert out == ""
    own, call = r"attn\.functional\S* own: write it", "which holds the answer"
    assert re.search(f"{own}|{call}", " ".join(err.split()))


def test_a_better_answer_replaces_the_reference(learner):
    learner(WRONG)
    learner.check()
    learner(DOUBLE)
    assert learner.check().out.startswith("✓")


@pytest.mark.parametrize(
    "value", ["", "softmax = 3", "softmax = None", "class softmax: pass"]
)
def test_a_missing_answer_or_another_object_is_reported(learner, value):
    learner(value)
    out, err = learner.check()
    assert out == ""
    assert "softmax" in err


def test_the_error_for_an_unknown_id_names_a_known_one(learner):
    with pytest.raises(ValueError, match="sdp-softmax"):
        learner.check("sdp-sotfmax")


def test_hints_come_one_at_a_time_and_are_remembered(learner, capsys):
    counts = []
    for _ in range(4):
        learner('hint("sdp-softmax")')
        counts.append(capsys.readouterr().out.count("Hint "))
    assert counts == [1, 2, 3, 3]
    assert progress_store.load()["sdp-softmax"]["hints"] == 3


def test_solution_prints_the_solution_and_changes_nothing(learner, capsys):
    learner(WRONG)
    answer = learner.namespace["softmax"]
    learner('solution("sdp-softmax")')
    assert "def softmax" in capsys.readouterr().out
    assert learner.namespace["softmax"] is answer


def test_progress_counts_points_over_the_whole_book(learner, capsys):
    learner(DOUBLE)
    learner.check()
    learner("progress()")
    out = capsys.readouterr().out
    assert "✓ sdp-softmax" in out
    assert "· mask-causal" in out
    assert out.splitlines()[-1].startswith("2 of ")


def test_a_repeated_failure_is_reported_briefly(learner):
    learner(WRONG)
    first, second = learner.check().err, learner.check().err
    assert len(second.splitlines()) <= 5 < len(first.splitlines())
    assert "run your own cell first" in " ".join(second.split())
    learner(WRONG)  # a new definition gets the whole diagnosis
    assert learner.check().err == first


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


def test_reset_restores_the_stub_and_stores_the_answer(learner, tmp_path):
    cell = tmp_path / "cell.py"
    cell.write_text(RIGHT)
    exec(compile(RIGHT, str(cell), "exec"), learner.namespace)  # noqa: S102
    learner("In = []")
    learner('reset("sdp-softmax")')
    kept = list((tmp_path / ".attn" / "kept").glob("sdp-softmax-*.py"))
    assert len(kept) == 1
    assert "x.float()" in kept[0].read_text()
    with pytest.raises(NotImplementedError):
        learner.namespace["softmax"](torch.zeros(2))


def test_a_corrupt_progress_file_is_ignored(learner, tmp_path):
    (tmp_path / ".attn").mkdir()
    (tmp_path / ".attn" / "progress.json").write_text("{ not json")
    learner(DOUBLE)
    assert learner.check().out.startswith("✓")


def test_nothing_is_stored_under_pytest(tmp_path):
    script = (
        "import torch\nfrom attn.grading import check\n"
        "def softmax(x, dim=-1): return x\ncheck('sdp-softmax')\n"
    )
    run_python(script, cwd=tmp_path, check=True)
    assert not list(tmp_path.iterdir())


def test_lab_without_jupyterlab_says_what_to_install(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(attn.__main__, "find_spec", lambda name: None)
    monkeypatch.setattr(workspace, "fill", lambda folder: [])
    assert attn.__main__.main(["lab", str(tmp_path)]) == 1
    err = capsys.readouterr().err
    assert "pip install jupyterlab" in err and str(tmp_path) in err
    assert "Traceback" not in err


def test_an_attribute_named_like_a_global_of_the_book_is_allowed(learner):
    """``math.e`` beside a global ``e`` of attn's is still math's."""
    learner("import math\nfrom attn.exercises.spec import find as e")
    learner(
        "def softmax(x, dim=-1):\n"
        "    y = math.e ** (x.float() - x.float().amax(dim, True))\n"
        "    return (y / y.sum(dim, keepdim=True)).to(x.dtype)\n"
    )
    out, err = learner.check()
    assert out == "✓ sdp-softmax  2/2 points\n", err
