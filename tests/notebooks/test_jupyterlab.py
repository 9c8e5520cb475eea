"""A learner works through a chapter in a real JupyterLab, in a browser.

It takes half a minute: JupyterLab starts, and a whole chapter runs.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from importlib.util import find_spec
from urllib.parse import urlsplit

import pytest

from attn.exercises import cells
from attn.grading.learner import start_page
from attn.publishing import notebooks

pytestmark = [
    pytest.mark.exhaustive,
    pytest.mark.browser,
    pytest.mark.skipif(
        find_spec("jupyterlab") is None, reason="needs make .venv/.lab"
    ),
]

CHAPTER = "03_masks.ipynb"
WRONG = """def causal(q_len, kv_len, q_offset=0):
    return torch.ones(q_len, kv_len, dtype=torch.bool).tril()"""
RIGHT = WRONG.replace("tril()", "tril(q_offset)")
MYST = re.compile(r"\{(?:cite|term|ref|numref)\}|:::|\([\w-]+\)=")
# Every cell's state: a cell that is out of sight has no element.
CELLS = """() => jupyterapp.shell.currentWidget.content.widgets.map(c => ({
    id: c.model.id, code: c.model.type === "code",
    source: c.model.sharedModel.getSource(),
    ran: c.model.executionCount,
    tags: c.model.getMetadata("tags") ?? [],
    failed: (c.model.outputs?.toJSON() ?? []).some(
        o => o.output_type === "error"),
    said: (c.model.outputs?.toJSON() ?? []).map(
        o => [].concat(o.text ?? o.data?.["text/plain"] ?? o.evalue ?? "")
            .join("")).join("")}))"""
SESSION = "jupyterapp.shell.currentWidget.sessionContext"
READY = "() => window.jupyterapp?.shell.currentWidget?.content?.widgets"
READY += f" && {SESSION}.isReady"
IDLE = f"{SESSION}.session.kernel.status === 'idle'"
GO_TO = """id => {
    const shown = jupyterapp.shell.currentWidget.content;
    shown.deselectAll();
    shown.activeCellIndex =
        shown.widgets.findIndex(c => c.model.id === id);
    shown.activeCell.node.scrollIntoView();
    shown.mode = "command"}"""
SHOWN = ".jp-NotebookPanel:not(.lm-mod-hidden)"
ACTIVE = f"{SHOWN} .jp-Cell.jp-mod-active"
TEXTS = """jupyterapp.shell.currentWidget.content.widgets
    .filter(c => c.model.type === "markdown").map(c => c.node)"""
RENDERED = f"""() => {TEXTS}.every(
    x => x.querySelector(".jp-RenderedMarkdown")?.innerHTML)"""
IN_VIEW = """id => {
    const shown = jupyterapp.shell.currentWidget?.content;
    const cell = shown?.widgets?.find(c => c.model.id === id);
    const top = cell?.node.getBoundingClientRect().top;
    return top > 0 && top < innerHeight}"""


@contextmanager
def lab(folder, home):
    """Run ``attn lab`` as a learner does at the first time; yield its URL."""
    config = home / "config"
    config.mkdir(parents=True, exist_ok=True)
    exposed = {"LabApp": {"expose_app_in_browser": True}}
    (config / "jupyter_lab_config.json").write_text(json.dumps(exposed))
    ours = ("PYTEST", "JUPYTER")
    clean = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
    clean |= {"HOME": str(home), "JUPYTER_CONFIG_DIR": str(config)}
    clean |= {"BROWSER": "true", "PYTHONPATH": os.getcwd()}
    said = home / "said.txt"
    with said.open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "attn", "lab", str(folder), "--port=0"],
            env=clean,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        url = ""
        while not _listens(url):  # it says its address first
            time.sleep(0.2)
            text = said.read_text()
            assert process.poll() is None, text
            url = "".join(re.findall(r"http://127\S+token=\w+", text)[:1])
        yield url
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()


def _listens(url):
    at = urlsplit(url)
    with socket.socket() as visitor:
        return url and not visitor.connect_ex((at.hostname, at.port))


class Learner:
    """A learner in front of a chapter: looks, types, runs cells."""

    def __init__(self, browser, url, at=CHAPTER):
        self.outside = []
        base, _, query = url.partition("/lab/")
        self.tab = browser.new_page(viewport={"width": 1280, "height": 900})
        self.tab.set_default_timeout(60_000)
        own = (base, "data:", "blob:")
        self.tab.on(
            "request",
            lambda r: r.url.startswith(own) or self.outside.append(r.url),
        )
        self.tab.goto(f"{base}/lab/{query.replace(start_page.NAME, at)}")
        self.tab.wait_for_function(READY)
        self.tab.wait_for_selector(f"{SHOWN} .jp-Notebook h1")

    def does(self, command):
        self.tab.evaluate(f"() => jupyterapp.commands.execute('{command}')")

    def cell(self, name):
        return next(x for x in self.tab.evaluate(CELLS) if x["id"] == name)

    def types(self, name, text):
        """Replace a cell's text."""
        self.tab.evaluate(GO_TO, name)
        self.tab.locator(f"{ACTIVE} .cm-content").click()
        self.tab.keyboard.press("Control+a")
        self.tab.keyboard.insert_text(text)
        self._runs(name)

    def runs(self, name):
        """Run a cell, and return what it says."""
        self.tab.evaluate(GO_TO, name)
        self.tab.locator(f"{ACTIVE} .jp-InputPrompt").click()
        return self._runs(name)

    def _runs(self, name):
        before = self.cell(name)["ran"]
        self.tab.keyboard.press("Shift+Enter")
        self.tab.wait_for_function(
            f"([name, before]) => {{const c = ({CELLS})().find(c => "
            f"c.id === name); return c.ran && c.ran !== before && {IDLE}}}",
            arg=[name, before],
        )
        return self.cell(name)["said"]

    def follows(self, links):
        """Follow the last of the links to the second exercise, to its cell."""
        self.tab.locator(links, has_text="The padding mask").last.click()
        self.tab.wait_for_function(IN_VIEW, arg="mask-padding")

    def sees(self, name, text):
        """Wait until a cell shows a text: cells are drawn when scrolled to.

        JupyterLab may still be bringing back where the learner last was.
        """
        self.tab.wait_for_function(
            f"([name, text]) => {{({GO_TO})(name); return jupyterapp.shell"
            ".currentWidget.content.activeCell.node.innerText.includes(text)}",
            arg=[name, text],
            polling=200,
        )


def places(path):
    """The ids of the first exercise's two cells."""
    every = notebooks.read(path).cells
    return [
        next(x.id for x in every if of(x) == "mask-causal")
        for of in (cells.exercise_id, cells.checked_id)
    ]


def test_a_chapter_is_worked_through_and_the_work_is_kept(browser, tmp_path):
    work = tmp_path / "work"
    names = ("paged_attention", "schedule", "match_prefix")
    done = {f"serve-{name}": {"passed": "2026-11-22"} for name in names}
    (work / ".attn").mkdir(parents=True)
    (work / ".attn" / "progress.json").write_text(json.dumps(done))
    with lab(work, tmp_path / "home") as url:
        stub, check = places(work / CHAPTER)
        it_begins_at_the_start_page(Learner(browser, url, start_page.NAME))
        learner = Learner(browser, url)
        first_look(learner)
        a_term_leads_to_its_place_in_the_glossary(learner)
        any_cell_may_be_the_first(learner, stub)
        a_figure_moves_before_anything_has_run(learner)
        everything_runs(learner)
        an_exercise_is_answered(learner, stub, check)
        progress_leads_to_the_next(learner, check)
        learner.does("docmanager:save-all")
        learner.tab.wait_for_timeout(1000)
        assert learner.outside == []
        assert learner.tab.locator(".jp-Dialog").count() == 0
        learner.tab.close()
    mine = (work / CHAPTER).read_text("utf-8")
    assert json.dumps(RIGHT.splitlines()[-1]).strip('"') in mine


def first_look(learner):
    """The title comes first, nothing pops up, no MyST, answers are folded."""
    learner.tab.wait_for_timeout(1000)
    asked = learner.tab.locator(".jp-Dialog, .Toastify__toast")
    assert asked.all_inner_texts() == []
    shown = learner.tab.evaluate(CELLS)
    learner.sees(shown[0]["id"], "What keeps the query from it?")
    learner.tab.wait_for_function(RENDERED)
    texts = learner.tab.evaluate(f"{TEXTS}.map(x => x.textContent)")
    assert len(texts) > 50
    assert [text for text in texts if MYST.search(text)] == []
    closed = "x => x.querySelector('details:not([open]) p')"
    assert learner.tab.evaluate(f"{TEXTS}.some({closed})")


def a_term_leads_to_its_place_in_the_glossary(learner):
    """Which is not open yet; and what was only read is not changed."""
    dirty = """() => [...jupyterapp.shell.widgets("main")].filter(
        x => x.context.model.dirty).map(x => x.title.label)"""
    link = learner.tab.locator(f"{SHOWN} a[href*='glossary.md']").last
    name = link.get_attribute("href").rpartition("#")[2]
    link.click()
    place = learner.tab.locator(f"[data-jupyter-id='{name}']")
    place.wait_for(state="attached")
    learner.tab.wait_for_timeout(500)
    assert 0 < place.bounding_box()["y"] < 900
    assert learner.tab.evaluate(dirty) == []
    learner.does("application:close")
    learner.tab.wait_for_function(READY)


def any_cell_may_be_the_first(learner, stub):
    """The imports run before it, and so does check find the stub."""
    assert "Run this first has run" in learner.runs(stub)
    assert not learner.cell(stub)["failed"]
    learner.sees(stub, "it holds the imports of this chapter")


def it_begins_at_the_start_page(learner):
    """Its pictures are there unrun; it leads far down a closed chapter."""
    tab = learner.tab
    assert tab.locator(".attn-start .cards svg").count() > 15
    names = tab.locator(".jp-DirListing-itemText")
    assert names.first.inner_text() == start_page.NAME
    cut = "all => all.filter(e => e.scrollWidth > e.clientWidth).length"
    assert names.evaluate_all(cut) <= 1  # the longest
    tab.locator(".attn-start .next a").click()
    tab.wait_for_function(IN_VIEW, arg="x-serve-tree-mask")
    drawn = "() => jupyterapp.shell.currentWidget.content.widgets.every("
    tab.wait_for_function(drawn + "x => x.node.isConnected)")
    assert tab.evaluate(IN_VIEW, "x-serve-tree-mask")
    assert learner.outside == []
    tab.close()


def a_figure_moves_before_anything_has_run(learner):
    """What is stored is trusted; it follows JupyterLab's theme."""
    learner.tab.evaluate(GO_TO, "touch-mask_workbench")
    box = learner.tab.locator("iframe[title='Masks: a workbench']")
    frame = box.content_frame
    full = "() => document.documentElement.clientWidth === innerWidth"
    box.element_handle().content_frame().wait_for_function(full)
    words = frame.locator("[aria-live]").first
    before = words.inner_text()
    frame.get_by_label("causal").uncheck()
    assert words.inner_text() != before
    for theme in ("Dark", "Light"):
        learner.tab.evaluate(
            "theme => void jupyterapp.commands.execute("
            "'apputils:change-theme', {theme})",
            f"JupyterLab {theme}",
        )
        frame.locator(f"html[data-theme={theme.lower()}]").wait_for()


def everything_runs(learner):
    """An untouched chapter runs to its end, on the references."""
    learner.does("notebook:run-all-cells")
    learner.tab.wait_for_function(
        f"() => {IDLE} && ({CELLS})().every(c => c.ran || !c.code)"
    )
    code = [x for x in learner.tab.evaluate(CELLS) if x["code"]]
    failed = [x for x in code if x["failed"]]
    assert [x for x in failed if "raises-exception" not in x["tags"]] == []
    assert sum(x["said"].startswith("· ") for x in code) == 6


def an_exercise_is_answered(learner, stub, check):
    learner.types(stub, WRONG)
    first = learner.runs(check)
    assert first.startswith("✗ mask-causal") and "q_offset" in first
    assert "Not saved" not in first
    assert learner.runs(check) == first
    learner.types(stub, RIGHT + "(")
    assert "SyntaxError (line 2)" in learner.runs(check)
    learner.types(stub, 'reset("mask-causal")')
    learner.tab.wait_for_function(
        f"name => ({CELLS})().find(c => c.id === name)"
        ".source.includes('# YOUR CODE HERE')",
        arg=stub,
    )
    assert "not started" in learner.runs(check)
    learner.types(stub, RIGHT)
    assert learner.runs(check).startswith("✓ mask-causal  1/1 points")
    learner.sees(check, "✓ right")
    learner.follows(f"{ACTIVE} a")
    learner.tab.evaluate(GO_TO, stub)
    learner.does("notebook:delete-cell")
    assert "is gone" in learner.runs(check)  # at the first press
    learner.does("notebook:undo-cell-action")


def progress_leads_to_the_next(learner, check):
    """The first link goes to the cell of the exercise."""
    learner.tab.evaluate(GO_TO, check)
    learner.does("notebook:insert-cell-below")
    learner.tab.locator(f"{ACTIVE} .cm-content").click()
    learner.tab.keyboard.insert_text("progress()")
    learner.tab.keyboard.press("Shift+Enter")
    learner.tab.locator(".jp-Notebook summary").nth(14).wait_for()
    learner.follows(".jp-Notebook b a")
