"""A learner calls check, hint, solution and reset in a notebook."""

import os
import re

import pytest
import torch
from IPython.core.oinspect import Inspector

import attn.__main__
from attn.exercises import sources
from attn.grading.learner import progress, workspace
from tests.grading.learner.conftest import RIGHT

CHECK = "\ncheck('sdp-softmax')"
WRONG = "def softmax(x, dim=-1):\n    return torch.exp(x) / x.shape[dim]\n"


def test_the_reference_replaces_a_wrong_answer_and_a_better_one_that(learner):
    out, err = learner(WRONG + CHECK)
    assert out == "" and err.startswith("✗ sdp-softmax  0/2 points")
    assert "chapter goes on; yours is\n  `case().yours()`" in err
    learner("total = softmax(torch.zeros(4)).sum().item()")
    assert learner.namespace["total"] == 1.0
    book = learner.namespace["softmax"]
    looked = Inspector(theme_name="nocolor").info(book, detail_level=1)
    assert looked["source"] is None and "(x: " in looked["definition"]
    assert learner(RIGHT + CHECK) == ("✓ sdp-softmax  2/2 points\n", "")


def test_a_check_again_says_the_same_and_never_passes(learner):
    first = learner(WRONG + CHECK)
    assert [learner(CHECK) for _ in range(2)] == [first] * 2
    assert [learner(WRONG + CHECK) for _ in range(2)] == [first] * 2
    [entry] = progress.load().values()
    assert entry["last"] in " ".join(first.err.split())


@pytest.mark.parametrize("value", [WRONG, RIGHT])
def test_a_check_that_is_stopped_is_no_verdict(learner, value):
    stop = "def stop(): raise KeyboardInterrupt\n"
    stopped = value.replace(
        "    ", "    left and (left.pop(), stop())\n    ", 1
    )
    out, err = learner(f"left = [1]\n{stop}{stopped}{CHECK}")
    assert out + err == "· sdp-softmax  stopped; nothing is judged\n"
    assert progress.load() == {}
    sign = "✓" if value is RIGHT else "✗"
    assert "".join(learner(CHECK)).startswith(sign)


def test_a_check_in_which_the_kernel_ended_is_no_right_answer(learner):
    learner(RIGHT + CHECK)
    if os.fork() == 0:
        learner("import os\ndef softmax(x, dim=-1): os._exit(0)" + CHECK)
    os.wait()
    rows = progress.Progress(progress.load()).rows
    [row] = [x for x in rows if x.id == "sdp-softmax"]
    assert row.sign == "✗" and row.last.startswith("its check has not ended")
    assert "The check before did not end" in learner(RIGHT + CHECK).out
    assert progress.load()["sdp-softmax"]["passed"]


@pytest.mark.parametrize(
    "trick",
    [
        "held = softmax\ndef softmax(x, dim=-1): return held(x, dim)",
        "from functools import partial\nsoftmax = partial(softmax)",
        "from attn import softmax",
        "import attn\ndef softmax(x, dim=-1): return attn.softmax(x, dim)",
        "def softmax(x, dim=-1): import attn; return attn.softmax(x, dim)",
        "from attn import functional as F\n"
        "def helper(x, dim): return F.softmax(x, dim)\n"
        "def softmax(x, dim=-1): return helper(x, dim)",
        "import attn\ndef made(do):\n"
        "    def softmax(x, dim=-1): return do(x, dim)\n"
        "    return softmax\nsoftmax = made(attn.softmax)",
    ],
)
def test_neither_the_reference_nor_the_library_is_an_answer(learner, trick):
    learner(WRONG + CHECK)  # now softmax is the reference
    out, err = learner(trick + CHECK)
    assert out == ""
    if "attn" in trick:
        said = r"attn\.functional\S* own: write it|which holds the answer"
        assert re.search(said, " ".join(err.split()))


@pytest.mark.parametrize(
    "value", ["", "softmax = 3", "softmax = None", "class softmax: pass"]
)
def test_a_missing_answer_or_another_object_is_reported(learner, value):
    out, err = learner(value + CHECK)
    assert out == "" and "softmax" in err.partition("\n")[2]


def test_hints_come_one_at_a_time_and_are_remembered(learner):
    said = [learner('hint("sdp-softmax")').out for _ in range(4)]
    assert [x.count("Hint ") for x in said] == [1, 2, 3, 3]
    assert progress.load()["sdp-softmax"]["hints"] == 3


def test_solution_prints_the_solution_and_changes_nothing(learner):
    learner(WRONG)
    answer = learner.namespace["softmax"]
    assert learner('solution("sdp-softmax")').out.startswith("# Softmax (sdp")
    assert learner.namespace["softmax"] is answer


def test_reset_restores_the_stub(learner):
    """test_answers.py proves that a notebook's answer is kept."""
    assert learner(f'{RIGHT}\nreset("sdp-softmax")').out.startswith("# Soft")
    with pytest.raises(NotImplementedError):
        learner.namespace["softmax"](torch.zeros(2))


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
    answer = RIGHT.replace("torch.exp", "math.e ** ")
    assert learner(answer + CHECK) == ("✓ sdp-softmax  2/2 points\n", "")


def test_why_prints_all_that_is_known_of_the_last_refusal(learner):
    brief = learner(WRONG + CHECK).err
    assert "More: why(). case() has this call:\n    softmax(x)  #" in brief
    known = learner("why()").out
    assert learner('why("sdp-softmax")').out == known
    assert "It is wrong in all" in known and "It is wrong in all" not in brief
    learner(RIGHT + CHECK)
    assert learner("why()").out == "Softmax (sdp-softmax) is right.\n"


def test_a_why_of_the_learners_own_stays(learner):
    said = learner(f"why = case = 3\n{WRONG}{CHECK}").err
    said = " ".join(said.split())
    assert "More: attn.grading.why(). attn.grading.case() has" in said
    assert learner.namespace["why"] == learner.namespace["case"] == 3


def test_a_call_without_an_id_is_about_the_last_refusal(learner):
    for name in ("check", "hint", "reset", "solution"):
        said = f'{name}: exercise_id must be given, such as "sdp-softmax"\n'
        assert learner(f"{name}()") == (said, "")
    causal = f"{sources.solution('mask-causal')}\ncheck('mask-causal')"
    learner("from torch import Tensor\n" + causal)
    assert "positions of one query and one key" in learner("hint()").out
    learner(WRONG + CHECK)
    learner(causal)  # right, and no more what is open
    assert "def softmax" in learner("solution()").out
    assert "make every score positive" in learner("hint()").out
    assert learner("why()").out.startswith("✗ Softmax (sdp-softmax)")
    assert "must be given" in learner("check()").out


def test_where_nothing_was_checked_a_call_is_about_the_notebooks_chapter(
    learner, monkeypatch
):
    monkeypatch.setenv("JPY_SESSION_NAME", str(sources.notebook_path("gqa")))
    progress.update("gqa-repeat_kv", passed="2026-11-22")
    progress.update("mask-padding", last="wrong")
    for name in ("hint", "reset", "solution"):
        assert "(gqa-grouped_attention)" in learner(f"{name}()").out
    assert ". Next: gqa-grouped_attention, in" in learner("progress()").out


NO = "there is no exercise"


@pytest.mark.parametrize(
    ("exercise_id", "said"),
    [
        ("'sdp-sotfmax'", f"""{NO} 'sdp-sotfmax': is it "sdp-s"""),
        ("'causal'", f"""{NO} 'causal': is it "mask-causal"?"""),
        ("'no'", f"""{NO} 'no', such as "sdp-softmax"""),
        ("sum", 'exercise_id must be a text, such as "sdp-softmax"'),
        ("check", 'exercise_id must be a text, such as "sdp-softmax"'),
    ],
)
def test_a_slip_is_a_printed_line_and_no_traceback(learner, exercise_id, said):
    for name in ("check", "hint", "solution", "reset", "why", "case"):
        learner(f"from attn.grading import {name}")
        out, err = learner(f"{name}({exercise_id})")
        assert out.startswith(f"{name}: {said}") and err == ""
        assert out.count("\n") == 1
