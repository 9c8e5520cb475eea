"""The look-up of chapter 1 guesses as attn does, from the chapter's data."""

import math
import random

import pytest
import torch

import attn
from attn.exercises import sources
from attn.publishing import notebooks
from book.figures.soft_lookup import BANDWIDTHS, STEP, clock, readings
from tests.book.controls import numbers_of, opened_figure

WEIGHTS = """place => [...place.querySelectorAll(".lookup")].map(board =>
    [...board.querySelectorAll(".reading")].map(
        e => Number(e.dataset.weight)))"""


def test_the_figure_has_the_readings_of_the_chapter():
    cells = notebooks.read(sources.notebook_path("why")).cells
    (code,) = (x.source for x in cells if x.source.startswith("def clock("))
    names = {"torch": torch, "math": math, "Tensor": object}
    exec(code.partition("noon =")[0], names)
    for theirs, ours in zip(("hours", "degrees"), readings(), strict=True):
        torch.testing.assert_close(names[theirs], ours)


lookup = opened_figure("soft_lookup", "light", 1280)


@pytest.mark.browser
def test_the_guess_and_the_weights_equal_the_shown_expression(lookup):
    choose = random.Random(0)
    hours, degrees = readings()
    degrees = degrees.double()
    each = torch.eye(len(hours), dtype=torch.float64)
    for _ in range(12):
        bandwidth, query = choose.randrange(21), choose.randint(0, 96)
        lookup.put(bandwidth=bandwidth, query_at=query)
        names = {"attn": attn, "torch": torch, "clock": clock}
        first, last = lookup.locator("code").text_content().split("\n")
        exec(first, names | {"hours": hours}, names)
        names |= {x: names[x].double() for x in "qk"}
        guess = eval(last, names | {"degrees": degrees}).item()
        weights = eval(
            last.replace("[:, None]", ""), names | {"degrees": each}
        )
        announced = numbers_of(lookup.heard().partition("temperature")[2])[1]
        assert announced == pytest.approx(guess, abs=0.006)
        for shown in lookup.evaluate(WEIGHTS):
            got = torch.tensor(shown, dtype=torch.float64)
            torch.testing.assert_close(got, weights[0], atol=1e-4, rtol=0)


@pytest.mark.browser
def test_arrow_keys_move_the_query_and_bandwidth_sets_how_many_count(lookup):
    lookup.press_to("query at", int(12 / STEP) + 2)
    assert lookup.heard().startswith("At 12:30, with bandwidth")
    _, degrees = readings()
    lookup.put(bandwidth=len(BANDWIDTHS) - 1)
    many = numbers_of(lookup.heard())[-1]
    assert many == pytest.approx(len(degrees), abs=0.1)
    lookup.put(bandwidth=0)
    assert numbers_of(lookup.heard())[-1] < 2


@pytest.mark.browser
def test_the_query_is_dragged_along_the_curve_and_round_the_clock(lookup):
    curve, face = lookup.locator(".lookup").all()
    lookup.drag(curve, (0.5, 0.5), ((22 + 314 / 4) / 348, 0.5))
    assert lookup.heard().startswith("At 6:00")
    lookup.drag(face, (0.5, 0.9), (0.2, 114 / 232))
    assert lookup.heard().startswith("At 18:00")
