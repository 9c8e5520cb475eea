"""Figures that one can touch show what attn computes."""

import importlib
import json
import random

import pytest
import torch

import attn
from book.figures import bake, mask_workbench
from tests.book.pages import ROOT, chapters

FIGURES = ("mask_workbench",)
PAGE = {"mask_workbench": "notebooks/03_masks"}


@pytest.mark.parametrize("name", FIGURES)
def test_the_stored_numbers_are_those_of_attn(name):
    numbers = importlib.import_module(f"book.figures.{name}").numbers()
    stored = (bake.FOLDER / f"{name}.data.js").read_text("utf-8")
    assert stored == bake.text(name, numbers), "run make refresh"


def test_every_figure_is_on_a_page_and_tested():
    tags = set()
    for page in chapters():
        notebook = json.loads((ROOT / f"{page}.ipynb").read_text("utf-8"))
        for cell in notebook["cells"]:
            found = cell["metadata"].get("tags", [])
            tags |= {x.partition("-")[2] for x in found if "touch-" in x}
    scripts = {path.name[:-8] for path in bake.FOLDER.glob("*.data.js")}
    assert tags == scripts == set(FIGURES)


@pytest.fixture
def touched(visit):
    """A figure on its page: its controls by name, its code, its words."""

    def open_page(name, **how):
        seen = visit(PAGE[name], **how)
        return seen, seen.tab.locator(f"[data-touch={name}]")

    return open_page


WEIGHTS = """place => [...place.querySelectorAll("g.query")].map(row =>
    [...row.querySelectorAll("rect")].map(e => Number(e.dataset.weight)))"""
SLIDERS = {"window": 8, "sinks": 3, "prefix": 6, "q_offset": 6}
SWITCHES = ("causal", "documents", "padding")


@pytest.mark.browser
def test_the_workbench_shows_the_mask_that_it_writes(touched):
    """In any state: its expression, run by attn, gives its weights."""
    seen, figure = touched("mask_workbench")
    names = vars(attn.masks) | {
        "ids": mask_workbench.IDS,
        "valid": mask_workbench.VALID,
    }
    scores = torch.tensor(mask_workbench.numbers()["scores"])
    choose, written = random.Random(0), set()
    with seen:
        for _ in range(15):
            for name, most in SLIDERS.items():
                slider = figure.get_by_label(name, exact=True)
                if slider.is_enabled():
                    slider.fill(
                        str(choose.choice((0, choose.randint(0, most))))
                    )
            for name in SWITCHES:
                figure.get_by_label(name).set_checked(choose.random() < 0.5)
            code = figure.locator("code").inner_text()
            written.add(code)
            allowed = eval(code, names)[0, 0]
            weights = torch.softmax(
                scores.masked_fill(~allowed, -torch.inf), -1
            ).nan_to_num()
            shown = torch.tensor(figure.evaluate(WEIGHTS), dtype=torch.float32)
            torch.testing.assert_close(shown, weights, atol=1e-4, rtol=0)
    assert len(written) > 10


@pytest.mark.browser
def test_the_workbench_answers_the_keyboard_and_is_heard(touched):
    seen, figure = touched("mask_workbench", theme="dark", width=390)
    with seen:
        heard = figure.locator("[aria-live]")
        before = heard.inner_text()
        figure.locator(".touch-board").focus()
        seen.tab.keyboard.press("ArrowDown")
        assert heard.inner_text() != before
        figure.get_by_label("padding").check()
        figure.get_by_label("q_offset").fill("6")
        figure.get_by_label("window", exact=True).fill("1")
        assert "Dead rows" in heard.inner_text()
