"""Figures that one can touch show what attn computes."""

import importlib
import json
import random
import re

import pytest
import torch

import attn
from attn.data import minilm, smollm
from book.figures import bake, mask_workbench, sentence
from tests.book.conftest import Visit
from tests.book.controls import PUT
from tests.book.pages import FIGURES, ROOT, chapters, exhaustive_but
from tests.book.test_browser import AXE, FOUND

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
    tags = set()
    for page in chapters():
        notebook = json.loads((ROOT / f"{page}.ipynb").read_text("utf-8"))
        for cell in notebook["cells"]:
            cell_tags = cell["metadata"].get("tags", [])
            tags |= {x.partition("-")[2] for x in cell_tags if "touch-" in x}
    scripts = {path.name[:-8] for path in bake.FOLDER.glob("*.data.js")}
    assert tags == scripts == set(FIGURES)


def lines(paths):
    return sum(len(x.read_text("utf-8").splitlines()) for x in paths)


def test_the_code_of_the_pages_stays_within_its_limits():
    static = ROOT / "book" / "_static"
    own = [bake.FOLDER / f"{name}.js" for name in FIGURES]
    shared = {x for kind in ("js", "css") for x in static.rglob(f"*.{kind}")}
    made = {x for x in shared if x.parent.name == "katex"}
    made |= set(bake.FOLDER.glob("*.data.js")) | {sentence.TARGET}
    model = sentence.TARGET.with_name("sentence.js")
    assert lines(shared - made - {*own, model}) <= 1600
    assert lines([model]) <= 250
    assert max(lines([x]) for x in own) <= 150
    assert lines((ROOT / "book" / "ext").rglob("*.py")) <= 700


# The size on the screen of the smallest text of the drawings, in pixels.
SMALLEST = """place => Math.min(
    ...[...place.querySelectorAll("svg text, small")].map(e => {
        const {a, b} = e.getScreenCTM?.() ?? {a: 1, b: 0};
        return parseFloat(getComputedStyle(e).fontSize) * Math.hypot(a, b);
    }))"""


#: `make test` looks at one figure; the others are made of the same parts.
@pytest.fixture(
    scope="module", params=exhaustive_but(["mask_workbench"], FIGURES)
)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def opened(name, browser, address):
    """A figure on a phone, opened once: a test puts it where it needs it."""
    with Visit(browser, address, FIGURES[name], "dark", 360) as seen:
        yield seen, seen.tab.locator(f"[data-touch={name}]")


the_workbench = pytest.mark.parametrize(
    "name", ["mask_workbench"], indirect=True, scope="module"
)


@pytest.mark.browser
def test_a_figure_fits_a_phone_and_makes_no_outside_request(opened, name):
    seen, figure = opened
    figure.scroll_into_view_if_needed()
    assert figure.evaluate(SMALLEST) >= 9
    for part in (figure, *figure.locator("code, dd").all()):
        assert part.evaluate("e => e.scrollWidth <= e.clientWidth + 1")
    seen.tab.evaluate(AXE)
    for theme in ("light", "dark"):
        seen.tab.evaluate(
            "theme => { document.documentElement.dataset.theme = theme }",
            theme,
        )
        own = FOUND.replace("document,", f"'[data-touch={name}]',")
        assert seen.tab.evaluate(own) == []
    assert seen.outside == []
    assert seen.complaints == []


#: Their stored figure opens the chapter; they are where the text explains it.
APART = ("block_tiles", "hf_forward")


@pytest.mark.browser
def test_the_stored_figure_is_visible_without_javascript(
    name, without_javascript
):
    page = without_javascript(FIGURES[name])
    place = page.locator(f"[data-touch={name}]")
    above = f".cell:has(+ [data-touch={name}])"
    if name in APART:
        above = ".bd-article"
    stored = page.locator(f"{above} figure :is(img, .drawn)")
    assert place.inner_text() == ""
    assert stored.first.bounding_box()["height"] > 100


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
@the_workbench
def test_the_workbench_shows_the_weights_of_its_expression(opened):
    """In any state: its expression, run by attn, gives its weights."""
    _, figure = opened
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
    for code, weights in figure.evaluate(STATES, states):
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
@the_workbench
def test_the_workbench_announces_changes_by_keyboard(opened):
    seen, figure = opened
    heard = figure.locator("[aria-live]")
    figure.locator(".touch-board").focus()
    seen.tab.keyboard.press("ArrowUp")  # not in the last row
    before = heard.inner_text()
    seen.tab.keyboard.press("ArrowDown")
    assert heard.inner_text() != before
    figure.get_by_label("padding").check()
    figure.get_by_label("q_offset").fill("6")
    figure.get_by_label("window", exact=True).fill("1")
    for name in ("sinks", "prefix"):
        figure.get_by_label(name).fill("0")
    assert "Dead rows" in heard.inner_text()
