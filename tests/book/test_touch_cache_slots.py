"""The figure of chapter 10 keeps the keys that attn's caches keep."""

import re

import pytest
import torch

import attn
from book.figures.cache_slots import MOST, numbers
from tests.book.controls import PUT, numbers_of, opened_figure, press_to

pytestmark = pytest.mark.browser


slots = opened_figure("cache_slots")


# Choose a cache, then read token by token; look at each step.
STEPS = f"""(place, [state, most]) => {{
    {PUT}
    for (const [name, value] of Object.entries(state)) put(name, value);
    const cells = (row) => [...place.querySelectorAll(`.${{row}} > g`)].filter(
        e => e.getAttribute("visibility") !== "hidden");
    const on = (row) => cells(row).filter(e => e.querySelector(".on")).length;
    return Array.from({{length: most}}, (_, n) => {{
        put("tokens read", n + 1);
        return {{
            code: place.querySelector("code").textContent,
            text: cells("text").map(e => e.querySelector(".on") ? 1 : 0),
            held: cells("cache").map(e => e.textContent),
            mask: cells("mask").map(e => Number(e.textContent)),
            rows: [on("computed"), on("without-it")],
            heard: place.querySelector("[aria-live]").innerText,
        }};
    }});
}}"""
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


@pytest.mark.parametrize("state", STATES, ids=str)
def test_the_slots_hold_the_keys_that_the_cache_returns(slots, state):
    """After each token: keys, mask, memory; the expression makes the cache."""
    steps = slots.evaluate(STEPS, [state, MOST])
    cache = eval(steps[0]["code"], {"attn": attn})
    per_token = 2 * 3 * 64 * 4
    for n, step in enumerate(steps):
        view = cache.update(*token(n))
        held = view.key[0, 0, :, 0].int().tolist()
        assert view.q_offset == len(held) - 1
        assert [int(x) for x in step["held"] if x] == held
        assert step["text"] == [int(t in held) for t in range(MOST)]
        seen = attn.causal().dense(
            1, len(step["held"]), q_offset=len(held) - 1
        )
        assert step["mask"] == seen[0, 0, 0].int().tolist()
        if state["cache"] == "sliding":
            assert all(
                cache.mask.dense(1, MOST, q_offset=n)[0, 0, 0, held].tolist()
            )
        assert step["rows"] == [1, n + 1]
        kept = cache.nbytes // per_token
        memory = kept * numbers()["bytes"] / 1000
        announced = numbers_of(step["heard"].partition("next step: ")[2])
        assert announced[0] == kept
        assert announced[1] == pytest.approx(memory, abs=0.5)
        computed = re.search(r"so far (\d+) and (\d+)", step["heard"])
        assert [int(x) for x in computed.groups()] == [
            n + 1,
            sum(range(n + 2)),
        ]


def test_the_announcement_names_the_gap_and_the_empty_slots(slots):
    announcement = slots.evaluate(STEPS, [STATES[2], MOST])[8]["heard"]
    assert "attends to 6 keys: 0, 1 and 5 to 8" in announcement
    assert "Forgotten: 2 to 4" in announcement
    assert (
        "Slot 2 has token 5: StreamingLLM rotates it to position 2"
        in announcement
    )
    announcement = slots.evaluate(STEPS, [STATES[1], MOST])[8]["heard"]
    assert "The mask hides 7 empty slots" in announcement


def test_arrow_keys_read_tokens_and_a_window_enables_its_controls(slots):
    slots.evaluate(STEPS, [{"cache": "dynamic"}, 1])
    press_to(slots, "tokens read", 3)
    assert "Token 2" in slots.locator("[aria-live]").inner_text()
    slots.get_by_role("button", name="Next").click()
    assert "Token 3" in slots.locator("[aria-live]").inner_text()
    assert slots.get_by_label("window", exact=True).is_disabled()
    slots.get_by_role("combobox").select_option("sliding")
    assert slots.get_by_label("window", exact=True).is_enabled()
