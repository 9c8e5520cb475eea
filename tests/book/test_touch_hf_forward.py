"""The figure of chapter 15 shows what runs in transformers."""

import pytest
import torch

import attn
from book.figures.hf_forward import (
    CHOICES,
    LAYERS,
    PADDING,
    TOKENS,
    drift,
    record,
)
from tests.book.controls import PUT, numbers_of, opened_figure

pytest.importorskip("transformers")
pytestmark = pytest.mark.browser


forward = opened_figure("hf_forward", motion="reduce")


def turn(figure, *chosen):
    """Choose a forward pass; all its calls have run."""
    labels = ("attention", "model", "padding", "pass")
    figure.put(**dict(zip(labels, chosen, strict=True)))


#: What each call shows: its mask, the weights, and its shapes and arguments.
CALLS = f"""place => {{
    {PUT}
    const inside = (x, selector) => [...x.querySelectorAll(selector)];
    const all = selector => inside(place, selector);
    const most = Number(place.querySelector("input[type=range]").max);
    return Array.from({{length: most}}, (_, i) => {{
        put("call", i + 1);
        return {{
            maps: all(".map").map(map => inside(map, ".reader").map(
                row => inside(row, "[data-weight]").map(
                    e => Number(e.dataset.weight)))),
            state: all("dd").map(e => e.textContent).filter(Boolean),
            ran: [all(".maker.ran").length, all(".band.ran").length],
            heard: place.querySelector("[aria-live]").textContent,
        }};
    }});
}}"""


def edges(figure, kind=".edge"):
    return figure.locator(f".band.ran {kind}").count()


def real_queries(weights, padding):
    """Return the rows of real tokens, of ``(L, S)``."""
    rows = range(TOKENS - len(weights), TOKENS)
    least = PADDING if padding == "left" else 0
    return weights[[i >= least for i in rows]]


@pytest.mark.parametrize("name", CHOICES["name"])
@pytest.mark.parametrize(
    "rest",
    [
        ("llama", "left", "prompt"),
        ("gemma3_text", "left", "token"),
        ("sets", "none", "prompt"),
    ],
    ids="-".join,
)
def test_every_call_shows_what_a_running_model_passes(forward, name, rest):
    turn(forward, name, *rest)
    run = record(name, *rest)
    right = record("eager", *rest)
    calls = forward.evaluate(CALLS)
    made, layers = run["masks"], run["layers"]
    asked = max(len(made), 1)
    assert len(calls) == asked + LAYERS

    for mask, call in zip(made, calls, strict=False):
        assert call["maps"][0] == mask["allowed"]
        assert mask["kind"] in call["state"]
        assert mask["called"] in call["state"]
    pairs = wrong = 0
    for i, (layer, call) in enumerate(zip(layers, calls[asked:], strict=True)):
        mask = made[layer["mask"]]["allowed"] if made else []
        shown_mask, weights = call["maps"]
        assert shown_mask == mask
        expected = 1000 * layer["weights"]
        shown = torch.tensor(weights).abs().float()
        torch.testing.assert_close(shown, expected, atol=1, rtol=0)
        for words in ("query", "key", "kwargs", "returns"):
            assert layer[words] in call["state"]
        reads = real_queries(layer["weights"], rest[1]) > 1e-6
        may = real_queries(right["layers"][i]["weights"], rest[1]) > 1e-6
        pairs += int(reads.sum())
        wrong += int((reads & ~may).sum())
        assert call["ran"] == [asked, i + 1]
        assert numbers_of(call["heard"])[:2] == [i + 1, len(made)]
    assert edges(forward) == pairs
    assert edges(forward, ".leak") == wrong
    if wrong:
        off = drift(run["states"], right["states"])[-1][-1]
        assert numbers_of(forward.heard())[2:] == [wrong, off] and off > 0


def test_the_map_of_real_tokens_equals_attns_mask(forward):
    real = torch.arange(TOKENS)[None] >= PADDING
    mask = attn.causal() & attn.padding(real)
    expected = mask.dense(TOKENS)[0, 0, PADDING:]
    turn(forward, "own", "llama", "left", "prompt")
    shown_mask, weights = forward.evaluate(CALLS)[-1]["maps"]
    for shown in (shown_mask, weights):
        assert torch.equal(torch.tensor(shown)[PADDING:] > 0, expected)
    assert not edges(forward, ".leak")


def test_without_a_mask_the_future_and_the_padding_are_red(forward):
    turn(forward, "half", "llama", "left", "prompt")
    real = TOKENS - PADDING
    future, padding = real * (real - 1) // 2, real * PADDING
    assert edges(forward, ".leak") == LAYERS * (future + padding)
    assert forward.locator(".maker.absent").count() == 1
    assert forward.locator(".none.absent").count() == 1


def test_a_leak_spreads_from_token_to_token_and_through_the_cache(forward):
    """The last token may read all: it is wrong once what it reads is."""
    turn(forward, "half", "llama", "none", "prompt")
    shown = forward.locator(".band .state text").all_text_contents()
    off = [int(numbers_of(words)[0]) for words in shown]
    assert len(off) == LAYERS - 1 and min(off) > 10  # none after layer 0
    turn(forward, "half", "llama", "none", "token")
    assert not edges(forward, ".leak")
    assert "cache" in forward.heard() and numbers_of(forward.heard())[2] > 10
    turn(forward, "own", "llama", "none", "token")
    assert "no more" in forward.heard()


def test_calls_are_stepped_through_by_keyboard_and_by_hand(forward):
    turn(forward, "own", "gemma3_text", "none", "prompt")
    forward.press_to("call", 1)
    assert forward.heard().startswith("0 attention calls, 1 mask made")
    assert not edges(forward)
    forward.locator(".band .name").nth(2).click()
    assert forward.heard().startswith("3 attention calls, 2 masks made")
    forward.press_to("call", 5)
    forward.get_by_role("button", name="Play").click()
    forward.get_by_role("button", name="Play").wait_for()
    assert forward.heard().startswith("4 attention calls")
