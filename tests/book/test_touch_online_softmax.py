"""The figures of chapter 11 do what attn does, step by step."""

import itertools
import random

import pytest
import torch

import attn
from attn.functional import tiled
from book.figures.online_softmax import ORDERS, SCORES, VALUES
from book.figures.tile_walk import tensors
from tests.book.controls import numbers_of, press_to, put
from tests.book.pages import FIGURES, ROOT

pytestmark = pytest.mark.browser


def test_the_scores_are_those_of_the_chapter():
    text = (ROOT / f"{FIGURES['online_softmax']}.ipynb").read_text("utf-8")
    assert f"scores = torch.tensor({SCORES.tolist()})" in text


DRAWN = """place => [...place.querySelectorAll(".now .term")].reduce(
    (sum, e) => sum + (Number(e.getAttribute("height")) && 1
        + Number(e.getAttribute("height"))), 0)"""


def test_the_online_softmax_keeps_what_attn_keeps(touched):
    """After each key, in each order: m, l, out; the last is the softmax's."""
    seen, figure = touched("online_softmax")
    seen.tab.emulate_media(reduced_motion="reduce")
    with seen:
        heights = []
        for order, keys in ORDERS.items():
            figure.get_by_label("order").select_option(order)
            names = {
                "attn": attn,
                "s": SCORES[keys][None, None],  # (H, L, S)
                "v": VALUES[keys][None],  # (Hkv, S, Dv)
            }
            for n in range(1, len(keys) + 1):
                press_to(figure, "key", n)
                out, lse = eval(figure.locator("code").inner_text(), names)
                m = SCORES[keys[:n]].max()
                total = (lse[0, 0] - m).exp()
                want = [m, total, *(total * out[0, 0]), *out[0, 0]]
                said = figure.locator("dd.result").all_inner_texts()
                shown = [x for text in said for x in numbers_of(text)]
                torch.testing.assert_close(
                    torch.tensor(shown),
                    torch.tensor(want),
                    atol=0.0051,
                    rtol=0,
                )
                place = figure.locator(".mean").get_attribute("transform")
                x, y = numbers_of(place)
                assert (x / 62, -y / 62) == pytest.approx(
                    tuple(out[0, 0].tolist()), abs=0.001
                )
                heights.append(figure.evaluate(DRAWN) / total.item())
            whole = SCORES.double().softmax(0) @ VALUES.double()
            heard = figure.locator("[aria-live]").inner_text()
            assert numbers_of(heard)[-2:] == pytest.approx(
                whole.tolist(), abs=0.0051
            )
    assert max(heights) == pytest.approx(min(heights), rel=0.05)


STEP = f"""place => {{
    [...place.querySelectorAll("button")].at(1).click();
    return ({DRAWN})(place); }}"""


def test_the_sum_is_seen_to_shrink_unless_motion_is_unwelcome(touched):
    """At once, or in its own time; either way it comes to the same."""
    seen, figure = touched("online_softmax", theme="dark", width=390)
    with seen:
        drawn = {}
        for motion in ("reduce", "no-preference"):
            seen.tab.emulate_media(reduced_motion=motion)
            press_to(figure, "key", 2)
            drawn[motion] = figure.evaluate(STEP)
            assert "shrinks" in figure.locator("[aria-live]").inner_text()
        assert drawn["no-preference"] > drawn["reduce"] + 1
        for _ in range(100):  # it takes a second
            if figure.evaluate(DRAWN) == drawn["reduce"]:
                break
            seen.tab.wait_for_timeout(100)
        else:
            pytest.fail("the sum never came down")


ALIVE = """place => [...place.querySelectorAll("svg")].map(
    e => e.querySelectorAll("rect.alive").length)"""


def test_the_walk_visits_the_tiles_that_attn_visits(touched, monkeypatch):
    """For its expression: the same tiles, in order, of the same size."""
    names = dict(zip("qkv", tensors(), strict=True)) | {"attn": attn}
    visited, tile_of = [], tiled._tile

    def spy(inputs, rows, columns):
        found = tile_of(inputs, rows, columns)
        if found is not None:
            ends = rows.start, rows.stop - 1, columns.start, columns.stop - 1
            visited.append((ends, found[0].numel()))
        return found

    monkeypatch.setattr(tiled, "_tile", spy)
    seen, figure = touched("tile_walk")
    choose = random.Random(1)
    with seen:
        heard = figure.locator("[aria-live]")
        for causal, tokens, size in itertools.product((0, 1), (1, 3), (2, 3)):
            figure.get_by_label("causal").set_checked(bool(causal))
            press_to(figure, "tokens", tokens)
            press_to(figure, "tile size", size)
            visited.clear()
            eval(figure.locator("code").inner_text(), names)
            middle = choose.randint(1, len(visited))
            for step in (1, middle, len(visited)):
                put(figure.get_by_label("tile", exact=True), step)
                ends, held = visited[step - 1]
                at, of, *said = numbers_of(heard.inner_text())
                assert (at, of) == (step, len(visited))
                assert tuple(said[:4]) == ends
                plain, tiles = figure.evaluate(ALIVE)[:2]
                assert [plain, tiles] == said[4:6]
                assert tiles == held
            assert plain == (8 * tokens) ** 2  # the last: it keeps all
