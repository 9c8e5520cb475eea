"""The figure of chapter 13 counts programs, waves, bytes and time."""

import math

import pytest

import attn
from book.figures.split_kv import (
    BANDWIDTH,
    HEAD_DIM,
    HEADS,
    PROCESSORS,
    SPLITS,
    cache_bytes,
    microseconds,
)
from tests.book.controls import PUT, numbers_of, opened_figure

split = opened_figure("split_kv", motion="reduce")


def turn(figure, splits, heads=3, held=0, keys=2):
    figure.put(splits=splits, key_heads=heads)
    figure.put(programs_a_processor=held, keys=keys)


# The picture at a moment: parts of the keys that are read, if not to the end,
# and places whose program still runs; then those of the merger; and the clock.
AT = f"""(place, share) => {{
    {PUT}
    put("time", Math.round(200 * share));
    const boxes = (name) => [...place.querySelectorAll(`path.${{name}}`)].map(
        e => (e.getAttribute("d") ?? "").split("M").length - 1);
    return [boxes("work"), boxes("merge"),
        place.querySelector("svg text:last-of-type").textContent];
}}"""


@pytest.mark.browser
@pytest.mark.parametrize(
    ("splits", "heads", "held", "keys"),
    [(1, 3, 0, 2), (16, 3, 0, 2), (17, 3, 0, 2), (17, 3, 1, 0), (64, 5, 2, 3)],
)
def test_programs_waves_bytes_and_time_equal_their_formulas(
    split, splits, heads, held, keys
):
    turn(split, splits, heads, held, keys)
    programs, room = splits * 2**heads, PROCESSORS * 2**held
    waves = math.ceil(programs / room)
    last = programs - (waves - 1) * room
    cache = eval(split.locator("code").text_content(), {"attn": attn})
    parts = 2 * splits * HEADS * (HEAD_DIM + 1) * 4
    busy, more = 100 * programs / (waves * room), 100 * parts / cache
    announced = numbers_of(split.heard())
    assert announced[:5] == [splits, 2**heads, programs, waves, last]
    assert abs(announced[5] - busy) <= 0.5
    assert abs(announced[6] - more) <= 0.051
    work, merger = microseconds(splits, 2**heads, 4 ** (5 + keys))
    assert announced[7] == pytest.approx(work + merger, abs=0.51)
    assert announced[8] == pytest.approx(merger, abs=0.051)
    every = [
        sum(microseconds(n, 2**heads, 4 ** (5 + keys)))
        for n in range(1, SPLITS + 1)
    ]
    assert announced[9] == pytest.approx(
        (work + merger) / min(every), abs=0.0051
    )
    squares = split.locator("rect[data-programs]").evaluate_all(
        "all => all.map(e => Number(e.dataset.programs))"
    )
    assert len(squares) == PROCESSORS
    assert sum(squares) == last
    assert max(squares) - min(squares) <= 1
    dot = split.locator("circle")
    shown = float(dot.get_attribute("data-busy"))
    assert math.isclose(100 * shown, busy, rel_tol=1e-6)
    shown = float(dot.get_attribute("data-total"))
    assert math.isclose(shown, work + merger, rel_tol=1e-6)


def test_a_gpu_that_is_busy_takes_the_time_of_its_bytes():
    """33 splits of 8 heads fill 132 processors twice; one leaves 124 idle."""
    least = cache_bytes(65536, 8) / BANDWIDTH * 1e6
    assert sum(microseconds(33, 8, 65536)) == pytest.approx(least, rel=0.02)
    alone = sum(microseconds(1, 8, 65536))
    assert alone == pytest.approx(least * PROCESSORS / 8, rel=0.001)


@pytest.mark.browser
def test_one_split_too_many_leaves_half_of_the_processors_idle(split):
    turn(split, 16)
    before = numbers_of(split.heard())
    split.press_to("splits", 17)
    after = numbers_of(split.heard())
    assert before[5] > 95
    assert after[5] < before[5] * 0.6
    assert after[7] > before[7] * 1.8


@pytest.mark.browser
def test_waves_drain_one_after_the_other_and_then_the_parts_are_merged(split):
    """17 splits of 8 heads: 132 programs, then 4, then a merger of 32."""
    turn(split, 17)
    (read, at_work, _), _, clock = split.evaluate(AT, 0.25)
    assert (read, at_work) == (132, 132)
    assert clock.endswith("wave 1 of 2, 132 programs at work")
    (read, at_work, _), _, clock = split.evaluate(AT, 0.75)
    assert (read, at_work) == (136, 4)
    assert clock.endswith("wave 2 of 2, 4 programs at work")
    _, (merging, _), clock = split.evaluate(AT, 0.995)
    assert merging == HEADS
    assert clock.endswith("the parts are merged")
    assert split.evaluate(AT, 1)[2].endswith("done")


@pytest.mark.browser
def test_a_step_runs_until_paused_and_not_where_motion_is_unwelcome(split):
    split.press_to("splits", 3)
    assert split.get_by_role("button", name="Play").is_visible()
    split.page.emulate_media(reduced_motion="no-preference")
    split.press_to("splits", 2)
    pause = split.get_by_role("button", name="Pause")
    time = split.get_by_label("time", exact=True)
    assert int(time.input_value()) < 100
    split.page.wait_for_timeout(200)
    pause.click()
    reached = time.input_value()
    assert 0 < int(reached) < 200
    split.page.wait_for_timeout(100)
    assert time.input_value() == reached
    split.page.emulate_media(reduced_motion="reduce")


@pytest.mark.browser
def test_a_press_on_the_curve_chooses_the_splits(split):
    turn(split, 2)
    board = split.locator(".touch-board").last
    board.scroll_into_view_if_needed()
    curve = split.locator(".curve").bounding_box()
    at = curve["x"] + 15 / 63 * curve["width"], curve["y"] + 20
    split.page.mouse.click(*at)
    assert numbers_of(split.heard())[0] == 16
