"""A chapter begins with its question and a picture, not with code."""

import re

import pytest

from tests.book.pages import chapters, soup
from tests.book.test_drawings import LOOK
from tests.marks import exhaustive_but

BOX = "admonition-before-you-start"


@pytest.fixture(params=chapters())
def opening(request, book):
    """What a chapter has before its first section."""
    page = soup(book / f"{request.param}.html").select_one("article section")
    return [x for x in page.find_all(recursive=False) if x.name != "section"]


def test_a_question_comes_first_then_a_figure_and_no_open_code(opening):
    title, hook, picture, *rest = [x for x in opening if x.name != "span"]
    assert title.name == "h1" and hook.name == "p"
    question = " ".join(hook.get_text().split())
    assert question.endswith("?") and len(question) < 250
    assert picture.select_one("figure figcaption")
    code = [x for part in (picture, *rest) for x in part.select(".cell_input")]
    labels = [x.find_parent("details").select_one("p").text for x in code]
    assert labels[:2] == ["Code of this figure", "Imports"]
    assert BOX in rest[-1]["class"]


def test_what_one_needs_and_gains_is_two_sentences(opening):
    title, *lines = [x.get_text() for x in opening[-1].find_all("p")]
    needs, goals, shapes = lines
    assert title == "Before you start" and shapes.startswith("Shapes ")
    assert needs.startswith("You need ")
    sentence = r"(?s)You will be able to .+, in about \d+ minutes\."
    assert re.fullmatch(sentence, goals)


# The lines of the box, and how far down a picture and its code begin.
SHOWN = """() => {
    const find = place => document.querySelector(place);
    const top = e => e.getBoundingClientRect().top;
    const box = find(".admonition-before-you-start");
    const height = p => parseFloat(getComputedStyle(p).lineHeight);
    const lines = [...box.querySelectorAll("p")].slice(1).map(
        p => Math.round(p.offsetHeight / height(p)));
    const code = [...document.querySelectorAll(".cell_input pre")].filter(
        e => e.checkVisibility() && top(e) < top(box)).length;
    return {lines, code, figure: top(find("h1 ~ .cell figure"))}}"""


@pytest.mark.browser
@pytest.mark.parametrize(
    "page", exhaustive_but(["notebooks/12_fused_forward"], chapters())
)
def test_the_first_screen_has_the_question_and_the_figure(visit, page):
    with visit(page) as seen:
        shown = seen.tab.evaluate(SHOWN)
        assert shown["code"] == 0
        assert shown["figure"] < 400
        needs, goals, shapes = shown["lines"]
        assert needs == 1 and goals <= 2 and shapes == 1
        seen.tab.set_viewport_size({"width": 390, "height": 844})
        assert seen.tab.evaluate(SHOWN)["figure"] < 480


@pytest.mark.browser
def test_the_part_of_the_model_is_marked_and_in_sight(visit):
    with visit("notebooks/10_kv_cache") as seen:
        part = seen.tab.locator(".machine [aria-current] a")
        assert part.inner_text() == "cache"
        for width in (390, 820, 1000, 1280):
            seen.tab.set_viewport_size({"width": width, "height": 800})
            box = part.bounding_box()
            x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
            hit = f"document.elementFromPoint({x}, {y}).textContent"
            assert seen.tab.evaluate(hit) == "cache"
        seen.tab.locator(".machine a", has_text="kernel").click()
        assert "11_online_softmax" in seen.tab.url


@pytest.mark.browser
def test_folded_code_of_the_opening_is_one_line_below_the_figure(visit):
    with visit("notebooks/01_why_attention") as seen:
        figure = seen.tab.locator("h1 ~ .cell figure").bounding_box()
        code, imports = seen.tab.locator("h1 ~ .cell summary").all()
        places = [x.bounding_box() for x in (code, imports)]
        assert abs(places[0]["y"] - places[1]["y"]) < 3
        assert places[0]["x"] + places[0]["width"] < places[1]["x"]
        assert all(x["height"] >= 24 for x in places)
        assert places[0]["y"] >= figure["y"] + figure["height"] - 1
        code.click()
        below = seen.tab.locator("h1 ~ .cell pre").first.bounding_box()
        assert imports.bounding_box()["y"] >= below["y"] + below["height"]


@pytest.mark.browser
def test_the_block_of_llama_is_large_and_leaves_room_for_the_box(visit):
    with visit("notebooks/09_transformer") as seen:
        for width, height in ((1280, 800), (390, 844)):
            seen.tab.set_viewport_size({"width": width, "height": height})
            texts = seen.tab.evaluate(LOOK)
            block = [x for x in texts if x["figure"] == "fig-tfm-block"]
            assert len(block) > 25
            assert min(x["size"] for x in block) >= 13
        seen.tab.set_viewport_size({"width": 1280, "height": 800})
        box = seen.tab.locator(f".{BOX}").bounding_box()
        assert box["y"] + 60 < 800
