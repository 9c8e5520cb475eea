"""The figure of chapter 10 keeps the keys that attn's caches keep."""

import re

import pytest
import torch

import attn
from attn.cost import PUBLISHED
from attn.data import smollm
from book.figures.cache_slots import TEXT
from tests.book.controls import PUT, numbers_of, opened_figure

SMOLLM2 = PUBLISHED["SmolLM2-135M"]

slots = opened_figure("cache_slots")


# Choose a cache, then read token by token; look at each step.
STEPS = f"""(place, [state, most]) => {{
    {PUT}
    for (const [name, value] of Object.entries(state)) put(name, value);
    const every = (what) => [...place.querySelectorAll(what)];
    const said = (what) => place.querySelector(what).textContent;
    return Array.from({{length: most}}, (_, n) => {{
        put("tokens read", n + 1);
        const boxes = every("[data-slot]").map((e, token) =>
            [Number(e.dataset.slot), token]).filter(([slot]) => slot >= 0);
        const frames = every("[data-mask]").filter(
            e => e.getAttribute("visibility") !== "hidden");
        const row = every(".done").at(-1);
        return {{
            code: said("code"),
            text: every(".text > g").map(e => e.querySelector(".on") ? 1 : 0),
            held: boxes.sort((a, b) => a[0] - b[0]).map(([, token]) => token),
            mask: frames.map(e => Number(e.dataset.mask)),
            weights: frames.map(e => e.lastChild.textContent),
            lines: every(".links path").length,
            rows: [row.querySelectorAll(".new").length,
                row.querySelectorAll("rect").length],
            counted: [".plain", ".cached", ".memory"].map(said),
            heard: place.querySelector("[aria-live]").innerText,
        }};
    }});
}}"""
MOST = 14
STATES = [
    {"cache": "dynamic"},
    {"cache": "static"},
    {"cache": "sliding", "window": 4, "sinks": 2},
    {"cache": "sliding", "window": 1, "sinks": 0},
    {"cache": "sliding", "window": 8, "sinks": 4},
    {"cache": "sliding", "window": 1, "sinks": 3},
]


def token(n):
    """Return the key and value of token ``n``, all elements ``n``."""
    return torch.full((2, 1, 3, 1, 64), n, dtype=torch.float32).unbind()


def counted(flops):
    return f"{flops / 1e9:.1f} GFLOP"


@pytest.mark.browser
@pytest.mark.parametrize("state", STATES, ids=str)
def test_the_slots_hold_the_keys_that_the_cache_returns(slots, state):
    """After each token: keys, mask, memory; the expression makes the cache."""
    steps = slots.evaluate(STEPS, [state, MOST])
    cache = eval(steps[0]["code"], {"attn": attn})
    per_token = 2 * 3 * 64 * 4
    spent = again = 0
    for n, step in enumerate(steps):
        view = cache.update(*token(n))
        held = view.key[0, 0, :, 0].int().tolist()
        assert view.q_offset == len(held) - 1
        assert step["held"] == held
        assert step["lines"] == len(held)
        assert step["text"] == [int(t in held) for t in range(MOST)]
        seen = attn.causal().dense(
            1, len(step["mask"]), q_offset=len(held) - 1
        )
        assert step["mask"] == seen[0, 0, 0].int().tolist()
        if state["cache"] == "sliding":
            assert all(
                cache.mask.dense(1, MOST, q_offset=n)[0, 0, 0, held].tolist()
            )
        assert step["rows"] == [1, n + 1]
        spent += SMOLLM2.flops(1, 1, len(held))
        again += SMOLLM2.flops(1, n + 1, logits_to_keep=1)
        assert counted(again) in step["counted"][0]
        assert counted(spent) in step["counted"][1]
        kept = cache.nbytes // per_token
        memory = SMOLLM2.cache_bytes(1, kept) / 1000
        announced = numbers_of(step["heard"].partition("next step: ")[2])
        assert announced[0] == kept
        assert announced[1] == pytest.approx(memory, abs=0.5)
        assert f"{announced[1]:.0f} kB" in step["counted"][2]
        computed = re.search(
            r"so far: (\d+) rows?, without a cache (\d+)", step["heard"]
        )
        assert [int(x) for x in computed.groups()] == [
            n + 1,
            sum(range(n + 2)),
        ]


@torch.no_grad()
def read_with_caches(window, sinks):
    """Read the text by token with real caches: weights, and best guesses.

    The figure's numbers come from a mask over the whole text.
    """
    lm = smollm.smollm2()
    caches = [attn.cache.SlidingCache(window, sinks) for _ in lm.model.blocks]
    for ids in lm.encode(TEXT)[0]:
        logits, maps = lm.model(
            ids[None, None],
            None if window >= MOST else caches[0].mask,
            caches=caches,
            need_weights=True,
        )
        weights = 100 * torch.stack(maps).mean((0, 1, 2))[0]
        p, best = (100 * logits[0, -1].softmax(-1)).max(-1)
        word = lm.tokenizer.decode([best.item()]).strip()
        yield weights[weights > 0].tolist(), word, p.item()


@pytest.mark.browser
@pytest.mark.skipif(not smollm.available(), reason=smollm.HOW_TO_INSTALL)
@pytest.mark.parametrize(
    ("window", "sinks"),
    [
        (4, 1),
        pytest.param(4, 0, marks=pytest.mark.exhaustive),
        pytest.param(99, 0, id="all", marks=pytest.mark.exhaustive),
    ],
)
def test_weights_and_words_are_those_of_smollm2_with_caches(
    slots, window, sinks
):
    state = {"cache": "sliding", "window": window, "sinks": sinks}
    if window == 99:
        state = STATES[0]
    steps = slots.evaluate(STEPS, [state, MOST])
    read = read_with_caches(window, sinks)
    for step, (weights, word, p) in zip(steps, read, strict=True):
        shown = [numbers_of(x)[0] for x in step["weights"]]
        assert shown == pytest.approx(weights, abs=0.51)
        expected = re.search(r"expects “([^”]+)”, (\d+) %", step["heard"])
        assert expected[1] == (word or "⏎")
        assert int(expected[2]) == pytest.approx(p, abs=0.51)


@pytest.mark.browser
def test_without_the_sink_smollm2_no_longer_expects_paris_and_tokyo(slots):
    state = {"cache": "sliding", "window": 4}
    for sinks, right in ((0, False), (1, True)):
        steps = slots.evaluate(STEPS, [state | {"sinks": sinks}, MOST])
        assert ("expects “Paris”" in steps[4]["heard"]) is right
        assert ("expects “Tokyo”" in steps[11]["heard"]) is right


@pytest.mark.browser
def test_the_announcement_names_the_gap_and_the_empty_slots(slots):
    announcement = slots.evaluate(STEPS, [STATES[2], MOST])[8]["heard"]
    assert "attends to 6 keys: 0, 1 and 5 to 8" in announcement
    assert "forgotten: 2 to 4" in announcement
    assert (
        "Slot 2 has token 5: StreamingLLM rotates it to position 2"
        in announcement
    )
    announcement = slots.evaluate(STEPS, [STATES[1], MOST])[8]["heard"]
    assert "The mask hides 5 empty slots" in announcement


@pytest.mark.browser
def test_arrow_keys_read_tokens_and_a_window_enables_its_controls(slots):
    slots.evaluate(STEPS, [{"cache": "dynamic"}, 1])
    slots.press_to("tokens read", 3)
    assert "Token 2" in slots.heard()
    slots.get_by_role("button", name="Next").click()
    assert "Token 3" in slots.heard()
    assert slots.get_by_label("window", exact=True).is_disabled()
    slots.get_by_role("combobox").select_option("sliding")
    assert slots.get_by_label("window", exact=True).is_enabled()


@pytest.mark.browser
def test_play_reads_on_and_the_words_wait_until_it_is_paused(slots):
    slots.press_to("tokens read", 2)
    read = slots.get_by_label("tokens read", exact=True)
    before = slots.heard()
    slots.get_by_role("button", name="Play", exact=True).click()
    assert (read.input_value(), slots.heard()) == ("3", before)
    pause = slots.get_by_role("button", name="Pause")
    slots.page.wait_for_timeout(1800)
    pause.click()
    assert int(read.input_value()) == 4
    assert "Token 3" in slots.heard()
    slots.press_to("tokens read", 14)  # at its end, Play begins again
    slots.get_by_role("button", name="Play", exact=True).click()
    pause.click()
    assert "Token 0" in slots.heard()


@pytest.mark.browser
def test_a_token_that_is_pressed_is_read(slots):
    slots.press_to("tokens read", 3)
    slots.locator(".slots .text text").nth(11).click(force=True)
    assert "Token 5" in slots.heard()


# The longest time that anything takes to come to its place.
LONGEST = """place => Math.max(...[...place.querySelectorAll("g, rect, path")]
    .flatMap(e => e.getAnimations()).map(e => e.effect.getTiming().duration))
"""
ARRIVE = "place => place.getAnimations({subtree: true}).map(e => e.finish())"


@pytest.mark.browser
def test_keys_slide_into_slots_unless_motion_is_unwelcome(slots):
    for motion, moves in (("reduce", False), ("no-preference", True)):
        slots.page.emulate_media(reduced_motion=motion)
        slots.evaluate(ARRIVE)  # what an earlier test has moved
        slots.evaluate(STEPS, [{"cache": "sliding", "window": 2}, 1])
        slots.evaluate(STEPS, [{}, 6])
        assert (slots.evaluate(LONGEST) > 300) is moves
