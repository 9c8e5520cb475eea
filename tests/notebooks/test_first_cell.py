"""In a kernel of ``attn lab``, whichever cell is first finds the imports."""

import json
import sys
from types import SimpleNamespace

import pytest
from jupyter_client.manager import start_new_kernel

from attn import __main__ as commands
from attn import grading
from attn.exercises import cells, first_cell

SOFTMAX = """
def softmax(x, dim=-1):
    return torch.softmax(x, dim)
"""
IMPORTS = "import torch\nprint('noise')"
SAID = "Run this first has run: it holds the imports of this chapter."


@pytest.fixture
def lab(prefork_kernels, tmp_path, monkeypatch):
    """Start a notebook's kernel as ``attn lab`` does: it runs cells."""
    seen = {}
    run = SimpleNamespace(returncode=0)
    monkeypatch.setattr(
        commands.subprocess, "run", lambda _, **how: seen.update(how) or run
    )
    own = tmp_path / "own.py"
    own.write_text("mine = 'started up'\n")
    monkeypatch.setenv("PYTHONSTARTUP", str(own))
    monkeypatch.setattr("attn.grading.learner.workspace.fill", lambda _: [])
    monkeypatch.setattr(commands, "find_spec", bool)  # JupyterLab, or not
    commands.main(["lab", str(tmp_path)])
    started = []

    def start(imports=IMPORTS, tags=(first_cell.TAG,)):
        path = tmp_path / "chapter.ipynb"
        about = {"id": "first", "metadata": {"tags": [*tags]}}
        path.write_text(json.dumps({"cells": [{**about, "source": imports}]}))
        env = seen["env"] | {"JPY_SESSION_NAME": str(path)}
        env.pop("PYTEST_CURRENT_TEST", None)
        manager, client = start_new_kernel(env=env, cwd=tmp_path)
        started.append((manager, client))

        def runs(code, **about):
            said = []
            about["output_hook"] = lambda x: said.append(shown(x))
            client.execute_interactive(code, timeout=60, **about)
            return [x for x in said if x]

        return runs

    yield start
    for manager, client in started:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def shown(message):
    content = message["content"]
    if "data" in content:
        return content["data"]["text/plain"]
    return content.get("evalue") or content.get("text", "").strip()


def test_the_imports_run_before_the_first_cell_and_once(lab):
    runs = lab()
    assert runs("print(torch.e > 2)") == [SAID, "True"]
    assert runs("print(mine, 'os' in dir())") == ["started up False"]


def test_the_cell_that_ran_first_is_known_to_checks(lab):
    runs = lab(imports="import torch\nfrom attn.grading import check")
    runs(SOFTMAX.replace("torch.softmax(x, dim)", "x"))
    for _ in range(2):  # the second time its name is the reference
        [said] = runs("check('sdp-softmax')")
        assert said.startswith("✗ sdp-softmax") and "attn.grading" not in said


def test_a_tool_that_looks_into_a_kernel_runs_nothing(lab):
    runs = lab()
    assert runs("'torch' in dir()", store_history=False) == ["False"]
    assert runs("'torch' in dir()") == [SAID, "True"]


def test_imports_that_fail_show_their_error_and_are_named(lab):
    first, said, second = lab(imports="import torchh")("torch")
    assert first == "No module named 'torchh'"
    assert said.startswith("Run this first ended with this error")
    assert second == "name 'torch' is not defined"


def test_a_notebook_without_imports_is_left_alone(lab):
    assert lab(tags=["hide-input"])("'torch' in dir()") == ["False"]


def test_the_functions_of_a_learner_are_there_and_find_the_answer(lab):
    runs = lab(tags=())
    names = " ".join(grading.__all__)
    assert runs(f"print(all(map(callable, ({names.replace(' ', ', ')}))))")
    runs("check = check; import torch")
    said = runs(f"{SOFTMAX}\ncheck('sdp-softmax')")
    assert said[0].startswith("✗ sdp-softmax") and "softmax" in said[0]
    assert not said[0].endswith("attn.grading.why()")
    assert runs("check.__module__") == ["'attn.grading'"]


def test_a_function_that_a_cell_calls_is_there_whatever_it_became(lab):
    runs = lab(tags=())
    runs("import torch; check = torch.zeros(3)")
    first, said = runs("check('sdp-softmax')")
    assert first == "check was a Tensor; now it is the book's again."
    assert said.startswith("· sdp-softmax")
    runs("%reset -f")
    assert runs("check('sdp-softmax')")[0].startswith("· sdp-softmax")


def test_what_lab_says_is_no_part_of_a_result():
    told = {
        "output_type": "display_data",
        "data": {"text/plain": SAID},
        "metadata": {"attn": {"stream": ""}},
    }
    card = {**told, "metadata": {"attn": {"stream": "stdout"}}}
    cell = {"outputs": [told, card]}
    cells.as_printed(cell)
    [left] = cell["outputs"]
    assert (left["name"], left["text"]) == ("stdout", SAID + "\n")


def test_python_in_a_terminal_of_lab_is_as_it_was(monkeypatch):
    monkeypatch.setenv("JPY_SESSION_NAME", "chapter.ipynb")
    monkeypatch.setenv("ATTN_PYTHONSTARTUP", "")
    path = commands._SETTINGS / "startup.py"
    names = {}
    with monkeypatch.context() as patch:
        patch.delitem(sys.modules, "ipykernel", raising=False)
        exec(compile(path.read_text("utf-8"), path, "exec"), names)
    assert names.keys() <= {"__builtins__", "__doc__"}
