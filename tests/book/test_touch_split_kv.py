"""The figure of chapter 13 counts programs, waves and bytes."""

import math

import pytest

import attn
from book.figures.split_kv import HEAD_DIM, HEADS, PROCESSORS
from tests.book.controls import PUT, numbers_of, opened_figure, press_to

pytestmark = pytest.mark.browser


split = opened_figure("split_kv")


TURN = f"""(place, [splits, heads, held, keys]) => {{
    {PUT}
    put("splits", splits);
    put("key heads", heads);
    put("programs a processor", held);
    put("keys", keys);
}}"""


def heard(figure):
    return numbers_of(figure.locator("[aria-live]").inner_text())


@pytest.mark.parametrize(
    ("splits", "heads", "held", "keys"),
    [(1, 3, 0, 2), (16, 3, 0, 2), (17, 3, 0, 2), (17, 3, 1, 0), (64, 5, 2, 3)],
)
def test_programs_waves_and_bytes_equal_their_formulas(
    split, splits, heads, held, keys
):
    split.evaluate(TURN, [splits, heads, held, keys])
    programs, room = splits * 2**heads, PROCESSORS * 2**held
    waves = math.ceil(programs / room)
    last = programs - (waves - 1) * room
    cache = eval(split.locator("code").inner_text(), {"attn": attn})
    parts = 2 * splits * HEADS * (HEAD_DIM + 1) * 4
    busy, more = 100 * programs / (waves * room), 100 * parts / cache
    announced = heard(split)
    assert announced[:5] == [splits, 2**heads, programs, waves, last]
    assert abs(announced[5] - busy) <= 0.5
    assert abs(announced[6] - more) <= 0.051
    squares = split.locator("rect").evaluate_all(
        "all => all.map(e => Number(e.dataset.programs))"
    )
    assert len(squares) == PROCESSORS
    assert sum(squares) == last
    assert max(squares) - min(squares) <= 1
    shown = float(split.locator("circle").get_attribute("data-busy"))
    assert math.isclose(100 * shown, busy, rel_tol=1e-6)


def test_one_split_too_many_leaves_half_of_the_processors_idle(split):
    split.evaluate(TURN, [16, 3, 0, 2])
    before = heard(split)[5]
    press_to(split, "splits", 17)
    assert before > 95
    assert heard(split)[5] < before * 0.6
