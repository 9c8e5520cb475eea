"""The figures of chapter 11 do what attn does, step by step."""

import itertools
import random

import pytest

import attn
from attn.functional import tiled
from book.figures.online_softmax import ORDERS, SCORES, VALUES
from book.figures.tile_walk import tensors
from tests.book.conftest import Visit
from tests.book.controls import PUT, Figure, numbers_of
from tests.book.pages import FIGURES, ROOT

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def chapter(browser, address):
    """The chapter, opened once: every test puts its figure where it needs."""
    page = FIGURES["online_softmax"]
    with Visit(browser, address, page, "dark", 390) as seen:
        yield seen.tab


def figure_of(chapter, name, motion):
    chapter.emulate_media(reduced_motion=motion)
    return Figure(chapter.locator(f"[data-touch={name}]"))


def test_the_figure_has_the_scores_of_the_chapter():
    text = (ROOT / f"{FIGURES['online_softmax']}.ipynb").read_text("utf-8")
    assert f"scores = torch.tensor({SCORES.tolist()})" in text


def test_the_chapter_opens_at_a_score_that_lifts_the_maximum(visit):
    """The first screen shows the idea: the sum shrinks, halfway through."""
    with visit(FIGURES["online_softmax"]) as seen:
        figure = Figure(seen.tab.locator("[data-touch=online_softmax]"))
        key = int(figure.get_by_label("key", exact=True).input_value())
        said = figure.heard()
    assert len(SCORES) / 2 <= key < len(SCORES)
    assert f"Score {SCORES[key - 1]} lifts" in said and "shrinks" in said


DRAWN = """place => [...place.querySelectorAll(".now .term")].reduce(
    (sum, e) => sum + (Number(e.getAttribute("height")) && 1
        + Number(e.getAttribute("height"))), 0)"""
# Choose an order, move to each key in turn, and look.
STEPS = f"""(place, [order, keys]) => {{
    {PUT}
    put("order", order);
    return Array.from({{length: keys}}, (_, n) => {{
        put("key", n + 1);
        return [place.querySelector("code").textContent,
            [...place.querySelectorAll("dd.result")].map(e => e.innerText),
            place.querySelector(".mean").getAttribute("transform"),
            ({DRAWN})(place)];
    }});
}}"""


def test_the_running_state_equals_attns_online_softmax(chapter):
    """After each key, in each order: m, l, out; the last is the softmax's."""
    figure = figure_of(chapter, "online_softmax", "reduce")
    heights = []
    for order, keys in ORDERS.items():
        names = {
            "attn": attn,
            "s": SCORES[keys][None, None],  # (H, L, S)
            "v": VALUES[keys][None],  # (Hkv, S, Dv)
        }
        steps = figure.evaluate(STEPS, [order, len(keys)])
        for n, (code, results, place, drawn) in enumerate(steps, start=1):
            out, lse = eval(code, names)
            m = SCORES[keys[:n]].max()
            total = (lse[0, 0] - m).exp()
            expected = [m, total, *(total * out[0, 0]), *out[0, 0]]
            shown = [x for text in results for x in numbers_of(text)]
            assert shown == pytest.approx(
                [float(x) for x in expected], abs=0.0051
            )
            x, y = numbers_of(place)
            place = [x / 62, -y / 62]
            assert place == pytest.approx(out[0, 0].tolist(), abs=0.001)
            heights.append(drawn / total.item())
        whole = SCORES.double().softmax(0) @ VALUES.double()
        said = numbers_of(figure.heard())[-2:]
        assert said == pytest.approx(whole.tolist(), abs=0.0051)
    assert max(heights) == pytest.approx(min(heights), rel=0.05)


STEP = f"""place => {{
    [...place.querySelectorAll("button")].at(1).click();
    return ({DRAWN})(place); }}"""


def test_the_rescaled_sum_is_animated_unless_motion_is_reduced(chapter):
    """At once, or in its own time; either way it comes to the same."""
    drawn = {}
    for motion in ("reduce", "no-preference"):
        figure = figure_of(chapter, "online_softmax", motion)
        figure.get_by_label("order").select_option(next(iter(ORDERS)))
        figure.press_to("key", 2)
        drawn[motion] = figure.evaluate(STEP)
        assert "shrinks" in figure.heard()
    assert drawn["no-preference"] > drawn["reduce"] + 1
    for _ in range(100):  # it takes a second
        if figure.evaluate(DRAWN) == drawn["reduce"]:
            break
        chapter.wait_for_timeout(100)
    else:
        pytest.fail("the sum never came down")


def test_the_keys_read_so_far_are_dragged(chapter):
    figure = figure_of(chapter, "online_softmax", "reduce")
    figure.press_to("key", 2)
    columns = figure.locator(".online").first
    figure.drag(columns, (0.2, 0.5), ((16 + 4.5 * 41) / 348, 0.5))
    assert figure.get_by_label("key", exact=True).input_value() == "5"


# Put the controls where a state has them, then the tile at each step; look.
WALK = f"""(place, [state, steps]) => {{
    {PUT}
    for (const [name, value] of Object.entries(state)) put(name, value);
    return [place.querySelector("code").textContent, steps.map(step => {{
        put("tile", step);
        return [place.querySelector("[aria-live]").innerText,
            [...place.querySelectorAll("svg")].map(
                e => e.querySelectorAll("rect.alive").length)];
    }})];
}}"""


def test_the_walk_visits_the_tiles_that_attn_visits(chapter, monkeypatch):
    """For its expression: the same tiles, in order, of the same size."""
    names = dict(zip("qkv", tensors(), strict=True)) | {"attn": attn}
    visited, tile_of = [], tiled._tile

    def spy(inputs, rows, columns):
        result = tile_of(inputs, rows, columns)
        if result is not None:
            ends = rows.start, rows.stop - 1, columns.start, columns.stop - 1
            visited.append((ends, result[0].numel()))
        return result

    monkeypatch.setattr(tiled, "_tile", spy)
    figure = figure_of(chapter, "tile_walk", "reduce")
    choose = random.Random(1)
    for causal, tokens, size in itertools.product((0, 1), (1, 3), (2, 3)):
        state = {"causal": bool(causal), "tokens": tokens, "tile size": size}
        code, _ = figure.evaluate(WALK, [state, []])
        visited.clear()
        eval(code, names)
        steps = [1, choose.randint(1, len(visited)), len(visited)]
        _, result = figure.evaluate(WALK, [state, steps])
        for step, (said, alive) in zip(steps, result, strict=True):
            ends, held = visited[step - 1]
            at, of, *numbers = numbers_of(said)
            assert (at, of) == (step, len(visited))
            assert tuple(numbers[:4]) == ends
            plain, tiles = alive[:2]
            assert [plain, tiles] == numbers[4:6]
            assert tiles == held
        assert plain == (8 * tokens) ** 2  # the last: it keeps all
