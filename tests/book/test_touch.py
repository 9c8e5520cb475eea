"""Figures that one can touch show what attn computes."""

import importlib
import random
import re

import pytest
import torch

import attn
from attn.data import minilm, smollm
from attn.publishing import touch
from book.figures import bake, mask_workbench, sentence
from tests.book.controls import PUT, opened_figure
from tests.book.pages import FIGURES, ROOT

NEEDS = {
    "attention_heads": pytest.mark.skipif(
        not minilm.available(), reason=minilm.HOW_TO_INSTALL
    ),
    **dict.fromkeys(
        ("cache_slots", "logit_lens"),
        pytest.mark.skipif(
            not smollm.available(), reason=smollm.HOW_TO_INSTALL
        ),
    ),
}

#: Transformers' own functions compute in float32: on another processor the
#: last digit can be another one.
ROUNDED = {"hf_forward"}
WHOLE = re.compile(r"-?\d+")


#: Models read there, or are trained: seconds each.
SLOW = {"cache_slots", "key_choice", "logit_lens"}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name,
            marks=[
                *([pytest.mark.exhaustive] if name in SLOW else []),
                *([NEEDS[name]] if name in NEEDS else []),
            ],
        )
        for name in FIGURES
    ],
)
def test_the_stored_numbers_equal_those_that_attn_computes(name):
    numbers = importlib.import_module(f"book.figures.{name}").numbers()
    stored = (bake.FOLDER / f"{name}.data.js").read_text("utf-8")
    text = bake.text(name, numbers)
    if name in ROUNDED:
        assert WHOLE.sub("", stored) == WHOLE.sub("", text)
        pairs = zip(WHOLE.findall(stored), WHOLE.findall(text), strict=True)
        assert all(abs(int(a) - int(b)) <= 1 for a, b in pairs)
    else:
        assert stored == text, "run make refresh"


def test_every_figure_is_on_a_page_and_tested():
    scripts = {path.name[:-8] for path in bake.FOLDER.glob("*.data.js")}
    assert scripts == set(FIGURES)


def test_no_two_figures_have_the_same_title():
    assert len({touch(name).title for name in FIGURES}) == len(FIGURES)


def lines(paths):
    return sum(len(x.read_text("utf-8").splitlines()) for x in paths)


def test_the_code_of_the_pages_stays_within_its_limits():
    static = ROOT / "book" / "_static"
    own = [bake.FOLDER / f"{name}.js" for name in FIGURES]
    shared = {x for kind in ("js", "css") for x in static.rglob(f"*.{kind}")}
    made = {x for x in shared if x.parent.name == "katex"}
    made |= set(bake.FOLDER.glob("*.data.js")) | {sentence.TARGET}
    model = sentence.TARGET.with_name("sentence.js")
    loader = static / "exercises.js"  # of book/page
    assert lines(shared - made - {*own, model, loader}) <= 1990
    assert lines([model]) <= 250
    assert lines([loader, *(ROOT / "book" / "page").glob("*.*s")]) <= 1050
    assert max(lines([x]) for x in own) <= 150
    assert lines((ROOT / "book" / "ext").rglob("*.py")) <= 1210


workbench = opened_figure("mask_workbench")


SLIDERS = {"window": 8, "sinks": 3, "prefix": 6, "q_offset": 6}
SWITCHES = ("causal", "documents", "padding")
STATES = f"""(place, states) => states.map(state => {{
    {PUT}
    for (const [name, value] of Object.entries(state)) put(name, value);
    return [place.querySelector("code").textContent,
        [...place.querySelectorAll("g.query")].map(row =>
            [...row.querySelectorAll("rect")].map(
                e => Number(e.dataset.weight)))];
}})"""


@pytest.mark.browser
def test_the_workbench_shows_the_weights_of_its_expression(workbench):
    """In any state: its expression, run by attn, gives its weights."""
    names = vars(attn.masks) | {
        "ids": mask_workbench.IDS,
        "valid": mask_workbench.VALID,
    }
    scores = torch.tensor(mask_workbench.numbers()["scores"])
    choose, written = random.Random(0), set()
    states = [
        {x: choose.choice((0, choose.randint(0, SLIDERS[x]))) for x in SLIDERS}
        | {x: choose.random() < 0.5 for x in SWITCHES}
        for _ in range(15)
    ]
    for code, weights in workbench.evaluate(STATES, states):
        written.add(code)
        allowed = eval(code, names)[0, 0]
        expected = torch.softmax(
            scores.masked_fill(~allowed, -torch.inf), -1
        ).nan_to_num()
        shown = torch.tensor(weights, dtype=torch.float32)
        torch.testing.assert_close(shown, expected, atol=1e-4, rtol=0)
    for word in ("sliding_window", "prefix", *SWITCHES):
        assert any(word in code for code in written)
    assert len(written) > 10


@pytest.mark.browser
def test_the_workbench_announces_changes_by_keyboard(workbench):
    workbench.press_to("q_offset", 0)
    workbench.press_to("query", 4)
    assert workbench.heard().startswith("Query on 3 ")
    workbench.locator("g.query").nth(7).locator("rect").first.hover()
    assert workbench.heard().startswith("Query the 7 ")
    workbench.get_by_label("padding").check()
    workbench.get_by_label("q_offset").fill("6")
    workbench.get_by_label("window", exact=True).fill("1")
    for name in ("sinks", "prefix"):
        workbench.get_by_label(name).fill("0")
    assert "Dead rows" in workbench.heard()
