"""The dial of chapter 7 rotates as attn does."""

import math
import random

import pytest
import torch

import attn
from book.figures.rope_dial import FACTOR, LAWS, TRAINED, D, vectors
from tests.book.controls import PUT, numbers_of, opened_figure

pytestmark = pytest.mark.browser


dial = opened_figure("rope_dial", motion="reduce")


def turn(figure, m, n):
    figure.put(key_at_n=0)
    figure.put(query_at_m=m, key_at_n=n)


def terms(figure):
    shown = figure.locator(".clock text:last-child").all_text_contents()
    assert len(shown) == D // 2
    return [x for text in shown for x in numbers_of(text)]


def hands(figure):
    return figure.evaluate("""place => [...place.querySelectorAll(
        ".clock .q, .clock .k")].map(e => e.getAttribute("d"))""")


# Choose a law, then contents and positions; for each, look.
TURNS = f"""(place, [law, turns]) => {{
    {PUT}
    put("law", law);
    return turns.map(([content, m, n]) => {{
        put("query and key", content);
        put("key at n", 0);
        put("query at m", m);
        put("key at n", n);
        return [place.querySelector("code").textContent,
            place.querySelector("[aria-live]").textContent,
            [...place.querySelectorAll(".clock text:last-child")].map(
                e => e.textContent)];
    }});
}}"""


@pytest.mark.parametrize("law", LAWS)
def test_the_score_equals_the_shown_expression(dial, law):
    choose, turns = random.Random(law), []
    for content in vectors():
        for _ in range(4):
            m = choose.randint(0, int(TRAINED * FACTOR) - 1)
            turns.append((content, m, choose.randint(0, m)))
    states = dial.evaluate(TURNS, [law, turns])
    for (content, m, n), (code, announcement, shown) in zip(
        turns, states, strict=True
    ):
        query, key = vectors()[content]
        names = {"attn": attn, "torch": torch, "q": query, "k": key}
        first, last = code.split("\n")
        exec(first, names)
        expected = eval(last, names).item()
        at_m, at_n, distance, score, *_ = numbers_of(announcement)
        assert (at_m, at_n, distance) == (m, n, m - n)
        assert score == pytest.approx(expected, abs=0.0015)
        parts = [x for text in shown for x in numbers_of(text)]
        assert len(parts) == D // 2
        assert sum(parts) == pytest.approx(expected, abs=0.006)


PRESSED = """(place, times) => Array.from({length: times}, () => {
    [...place.querySelectorAll("button")].find(
        e => e.textContent === "Move both").click();
    return [...place.querySelectorAll(".clock text:last-child")].map(
        e => e.textContent);
})"""


def test_moving_both_rotates_the_hands_and_changes_no_term(dial):
    dial.put(query_and_key="two at random")
    turn(dial, 40, 7)
    before, shown = hands(dial), terms(dial)
    *_, score = numbers_of(dial.heard().partition(", the sum")[0])
    dial.get_by_role("button", name="Move both").press("Enter")
    assert "Both moved by 16, to 56 and 23" in dial.heard()
    said = f"The score is {score:.3f}, as before".replace("-", "−")
    assert said in dial.heard()
    assert terms(dial) == shown
    now = hands(dial)
    # The slowest pairs turn by less than is drawn.
    assert all(x != y for x, y in zip(before[:8], now[:8], strict=True))
    # Beyond the end it begins again.
    for again in dial.evaluate(PRESSED, 30):
        assert [x for text in again for x in numbers_of(text)] == shown


def test_the_key_is_never_after_the_query(dial):
    turn(dial, 20, 18)
    dial.press_to("key at n", 22)
    assert numbers_of(dial.heard())[:3] == [22, 22, 0]
    dial.press_to("query at m", 19)
    assert numbers_of(dial.heard())[:3] == [19, 19, 0]


def new_pairs(law, distance):
    """Return the pairs whose angle is not among those of 0 to 63."""
    trained = attn.Rope(D).frequencies(torch.zeros(1)).inv_freq.double()
    theta = attn.Rope(D, **LAWS[law]).frequencies(torch.zeros(1)).inv_freq
    angle = (distance * theta.double()) % (2 * math.pi)
    return (angle > (TRAINED - 1) * trained + 1e-6).nonzero()[:, 0].tolist()


@pytest.mark.parametrize("distance", [63, 64, 300])
def test_untrained_angles_are_marked_for_each_scaling_law(dial, distance):
    turn(dial, distance + 5, 5)
    for law in LAWS:
        dial.get_by_role("combobox", name="law").select_option(law)
        untrained = new_pairs(law, distance)
        shown = dial.locator(".clock").evaluate_all(
            "all => all.flatMap((e, i) => e.matches('.new') ? [i] : [])"
        )
        assert shown == untrained
        announced = dial.heard().partition("in pairs")[2]
        assert numbers_of(announced.rstrip(".")) == untrained
    count = 0 if distance == 63 else 5
    assert len(new_pairs("as trained", distance)) == count


def test_a_hand_that_is_turned_moves_its_position(dial):
    """By as many radians as there are positions, on the clock of pair 0."""
    dial.put(law="as trained", query_and_key="the same")
    turn(dial, 20, 12)
    hand = dial.locator(".clock .q").first.get_attribute("d")
    x, y = map(float, hand.partition("L")[2].split())
    start, radius = math.atan2(-y, x), 0.4
    turns = [start + 0.25 * step for step in range(13)]  # three radians
    path = [
        (0.5 + radius * math.cos(a), 0.5 - radius * math.sin(a)) for a in turns
    ]
    dial.drag(dial.locator(".clock circle").first, *path)
    assert numbers_of(dial.heard())[:2] == [23, 12]


def test_the_distance_is_dragged_along_the_curve(dial):
    turn(dial, 20, 12)
    dial.drag(dial.locator(".dial").nth(1), (0.1, 0.5), (14 / 348, 0.5))
    assert numbers_of(dial.heard())[:3] == [12, 12, 0]
    dial.drag(dial.locator(".dial").nth(1), (0.1, 0.5), (1, 0.5))
    assert numbers_of(dial.heard())[2] == int(TRAINED * FACTOR) - 1


def thumb(slider):
    """Return where the middle of a slider's thumb is, and its track's left."""
    slider.scroll_into_view_if_needed()
    at = slider.bounding_box()
    part = slider.evaluate("e => (e.value - e.min) / (e.max - e.min)")
    return at["x"] + 12 + part * (at["width"] - 24), at["y"] + 14


@pytest.mark.parametrize(("away", "holds"), [(11, True), (14, False)])
def test_a_thumb_is_24_pixels_wide(dial, away, holds):
    """A press on it moves nothing; beside it, the thumb comes."""
    slider = dial.get_by_label("query at m")
    slider.fill("200")
    x, y = thumb(slider)
    mouse = dial.page.mouse
    mouse.move(x + away, y)
    mouse.down()
    mouse.up()
    assert (slider.input_value() == "200") == holds


def test_a_thumb_is_24_pixels_high(dial):
    slider = dial.get_by_label("query at m")
    slider.fill("200")
    x, y = thumb(slider)
    mouse = dial.page.mouse
    for away in (-11, 11):
        mouse.move(x, y + away)
        mouse.down()
        mouse.move(x + 40, y + away)
        mouse.up()
        assert slider.input_value() != "200"
        slider.fill("200")
