"""Attention in one page: MiniLM's numbers, a picture that stays, no mouse."""

import re

import pytest
import torch

from attn.data import minilm
from book.figures import attention_heads, one_page
from book.speed import MEASURED
from tests.book.answering import ANSWER, CHAPTER, EXERCISE, RIGHT
from tests.book.pages import ROOT, soup
from tests.book.test_browser import (
    ONE_OF_EACH_KIND,
    serious_violations,
    sideways_overflow,
)
from tests.book.test_touch import NEEDS
from tests.marks import exhaustive_but

PAGE = "book/five-minutes"
TEXT = (ROOT / f"{PAGE}.md").read_text("utf-8")
HERE = f"{EXERCISE}-here"  # its label on this page


@pytest.fixture(scope="module")
def asked():
    return one_page.question()


def prose(heading):
    """The text of a section without its number, code and pictures."""
    text = TEXT.partition(f"## {heading}")[2].partition("\n## ")[0]
    return re.sub(r"(?s)```.*?```|:::.*?:::", "", text)


def percents(*shares):
    return [f"{100 * x:.0f}" for x in shares]


@NEEDS["attention_heads"]
def test_the_stored_drawings_are_those_of_the_model():
    stored = {x.name: x.read_text("utf-8") for x in one_page.FOLDER.iterdir()}
    assert stored == one_page.drawings(), "run make refresh"
    for name, drawing in stored.items():
        assert f"file: figures/five-minutes/{name}" in TEXT
        assert drawing.count('class="token') == 16


@NEEDS["attention_heads"]
def test_every_number_in_the_text_is_that_of_the_model(asked):
    q, model = asked, minilm.load()
    at = q.tokens.index
    animal, start, it = at("animal"), at("start"), at("it")
    size = str(model.head_dim)
    assert it == q.at and len(q.query) == model.head_dim
    scores = [q.scores[at(x)] for x in ("animal", "street", "t")]
    shares = percents(q.shares[animal], q.shares[start], q.shares[it])
    heads = str(model.num_heads * model.num_layers)
    wide = model.run(attention_heads.SENTENCES[1])[1]
    wide = wide[one_page.LAYER, one_page.HEAD, it, animal]
    expected = {
        "1. ": percents(*[q.shares[animal]] * 2),
        "2. ": [size] * 2,
        "3. ": [size] * 2 + [f"{x:.1f}".replace("-", "−") for x in scores],
        "4. ": ["2.718", "100", *shares],
        "5. ": [size, *percents(q.shares[animal])],
        "6. ": ["0", "100", *percents(q.masked[animal])],
        "7. ": [*percents(q.weights[5, it, start]), heads],
        "8. ": [],
        "Your own sentence": percents(q.shares[animal], wide),
    }
    for heading, numbers in expected.items():
        text = prose(heading)
        assert re.findall(r"−?\d+(?:\.\d+)?", text) == numbers, heading


@NEEDS["attention_heads"]
def test_what_the_text_says_in_words_is_true(asked):
    q, model = asked, minilm.load()
    animal = q.tokens.index("animal")
    assert (model.num_heads, model.num_layers) == (12, 6)
    assert one_page.HEAD == 1, "ours is the second"
    rests = q.weights[:, q.at, 0]
    assert rests.argmax() == 5, "the sixth has 83 % on the start"
    torch.testing.assert_close(q.shares, q.scores.softmax(0))
    assert q.masked[q.at + 1 :].sum() == 0
    alike = torch.cosine_similarity(q.mix, q.value[animal], dim=0)
    assert alike > 0.99, "almost the shape of that token's value"


def test_each_of_the_nine_lines_is_quoted_by_the_step_that_it_does(book):
    page = soup(book / f"{PAGE}.html").find("article")
    code = [x.get_text() for x in page.select(".nine-lines .code")]
    lines = {re.sub(" +#.*", "", x).strip() for x in code}
    steps = [x.find_parent("section") for x in page.select("svg.still")]
    does = [x.select_one(".does") for x in steps]
    texts = [x.get_text().strip() for x in does if x is not None]
    quoted = {line.strip() for x in texts for line in x.splitlines()}
    assert len(lines) == 9 and quoted == lines
    assert [n for n, x in enumerate(does, start=1) if not x] == [1, 7]


def test_the_exercise_has_its_task_its_hints_and_its_solution(book):
    """As the same exercise has them in its chapter."""
    here, there = (soup(book / f"{x}.html") for x in (PAGE, CHAPTER))
    for kind in (".exercise-card", ".exercise-hint", ".exercise-solution"):
        own = [x.get_text() for x in here.select(kind)]
        assert own == [x.get_text() for x in there.select(kind)][: len(own)]
        assert own and all(len(x.split()) > 5 for x in own), kind


STATE = """() => {
    const picture = document.querySelector(".one-picture");
    const {top, bottom} = picture.getBoundingClientRect();
    const drawing = picture.querySelector("svg");
    const words = svg => [...svg.querySelectorAll("text")].map(
        x => x.textContent);
    return {
        step: picture.querySelector("[role=status]").textContent,
        inside: top >= 0 && bottom <= innerHeight,
        lit: picture.querySelectorAll(".lit").length,
        label: drawing.getAttribute("aria-label"),
        same: words(drawing).join() === words(document.querySelectorAll(
            "section > svg.still")[picture.dataset.step - 1]).join(),
    }}"""
LIT = [0, 1, 3, 2, 1, 2, 0, 2]


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1280])
def test_the_picture_stays_and_turns_step_by_step_by_keyboard(visit, width):
    with visit(PAGE, width=width, theme="dark") as seen:
        tab = seen.tab
        tab.emulate_media(color_scheme="dark", reduced_motion="reduce")
        assert seen.complaints == [] and seen.outside == []
        assert 200_000 < tab.evaluate(MEASURED)["page"] <= 1_450_000
        assert sideways_overflow(seen) <= 0
        onward = tab.get_by_role("button", name="Next", exact=True)
        assert onward.bounding_box()["height"] >= 32
        labels = set()
        for step, lit in enumerate(LIT, start=1):
            state = tab.evaluate(STATE)
            assert state["step"] == f"step {step} of 8"
            assert state["lit"] == lit and state["same"]
            assert state["inside"] or step == 1  # below the title, at first
            labels.add(state["label"])
            if step < 8:
                onward.focus()
                tab.keyboard.press("Enter")
                tab.wait_for_timeout(50)
        assert len(labels) == 8 and onward.is_disabled()
        heading = tab.locator("section:has(> svg.still) h2").last
        box, picture = heading.bounding_box(), ".one-picture"
        edge = tab.locator(picture).bounding_box()
        assert 0 < box["y"] < tab.viewport_size["height"] - box["height"]
        assert width > 1000 or box["y"] >= edge["y"] + edge["height"] - 1
        tab.get_by_role("button", name="Back", exact=True).press("Enter")
        tab.wait_for_timeout(50)
        assert tab.evaluate(STATE)["step"] == "step 7 of 8"
        assert serious_violations(seen, "dark", ONE_OF_EACH_KIND) == []


@pytest.mark.browser
def test_the_picture_moves_unless_motion_is_unwelcome(visit):
    with visit(PAGE) as seen:
        bar = seen.tab.locator(".one-picture .bar").first
        takes = "e => getComputedStyle(e).transitionDuration"
        assert "0.6s" in bar.evaluate(takes)
        seen.tab.emulate_media(reduced_motion="reduce")
        assert bar.evaluate(takes) == "0s"


@pytest.mark.browser
def test_without_javascript_steps_have_drawings_and_lines(without_javascript):
    tab = without_javascript(PAGE, viewport={"width": 390, "height": 844})
    assert tab.locator("svg.still:visible").count() == 8
    assert tab.locator(".does pre:visible").count() == 6
    assert tab.locator(".one-picture").count() == 0
    assert tab.locator("#fig-own-sentence img").is_visible()
    assert tab.locator(".nine-lines .code:visible").count() == 9


@pytest.mark.browser
@pytest.mark.parametrize("is_real", exhaustive_but([False], [False, True]))
def test_the_pages_exercise_is_written_checked_and_ticked(answering, is_real):
    with answering(page=PAGE, exercise=HERE, is_real=is_real) as seen:
        seen.write(ANSWER)
        seen.verdict = RIGHT
        seen.check()
        assert seen.card.evaluate("e => e.matches('.right')")
        onward = seen.card.get_by_role("link")
        assert onward.get_attribute("href").endswith("how-to-work.html")
        assert "of this chapter" not in seen.card.inner_text()
        assert seen.tab.locator(".answer-notebook").count() == 0
        assert seen.tab.get_by_label(f"done: {EXERCISE}").is_checked()
        seen.page = CHAPTER
        seen.open(EXERCISE)  # where the same exercise has the same text
        assert seen.text() == ANSWER
        assert seen.complaints == []
