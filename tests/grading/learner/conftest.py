"""A learner's notebook: its namespace, its folder, its progress."""

import pytest
import torch

from attn.exercises.cells import exercise_id
from attn.exercises.wrapping import WIDTH
from attn.grading.learner import cards, session
from attn.publishing.myst_to_markdown import copy_of
from attn.publishing.myst_to_markdown.targets import notebook as pristine
from tests.book.test_browser import AXE, OVERFLOW

DONE = {"passed": "2026-11-22 12:00"}
#: The entries of a learner who is in chapter 3.
BEGUN = {
    "mask-causal": DONE,
    "mask-padding": {"attempts": 2, "hints": 1, "last": "wrong when L < S"},
}
RIGHT = """
def softmax(x, dim=-1):
    e = torch.exp(x.float() - x.float().amax(dim, keepdim=True))
    return (e / e.sum(dim, keepdim=True)).to(x.dtype)
"""


@pytest.fixture
def learner(tmp_path, monkeypatch, capsys):
    """Run cells in a namespace and a folder of their own, with progress."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cards, "is_enabled", lambda: True)
    session._last.clear()
    session._hints_shown.clear()
    namespace = {"torch": torch, "__name__": "__main__"}

    def run(source):
        """Run a cell; return what it prints, and what it writes on stderr."""
        capsys.readouterr()
        exec(compile(source, "<cell>", "exec"), namespace)
        said = capsys.readouterr()
        assert all(len(x) <= WIDTH for x in "\n".join(said).splitlines())
        return said

    names = "check, goal, hint, progress, reset, solution"
    run(f"from attn.grading import {names}")
    run.namespace = namespace
    return run


def exercise_at(link):
    """The exercise of the cell of a copied chapter that a link leads to."""
    file, _, cell = link["href"].partition("#cell-id=")
    copied = copy_of(pristine(file.removesuffix(".ipynb")), set_up=False)
    return exercise_id(next(x for x in copied["cells"] if x["id"] == cell))


#: Ground, text and links of JupyterLab's themes.
THEMES = {
    "light": ("#ffffff", "#212121", "#0b3d91"),
    "dark": ("#111111", "#ffffff", "#64b5f6"),
}
FOUND = """() => axe.run(document.body).then(found => found.violations.map(
    x => x.id + ": " + x.nodes.map(n => n.html.slice(0, 120)).join(" | ")))"""


def pane(browser, html, theme, about=""):
    """HTML in a narrow pane: axe finds nothing, and nothing scrolls."""
    ground, ink, link = THEMES[theme]
    tab = browser.new_page(viewport={"width": 390, "height": 900})
    tab.set_content(
        f'<html lang="en"><title>x</title><body {about} style="'
        f"background: {ground}; color: {ink}; font-family: sans-serif; "
        f"--jp-layout-color0: {ground}; --jp-content-link-color: {link}"
        f'"><style>a {{ color: {link} }}</style><main><h1>x</h1>{html}</main>'
    )
    tab.evaluate(AXE)
    assert tab.evaluate(FOUND) == []
    assert tab.evaluate(OVERFLOW) <= 0
    return tab
