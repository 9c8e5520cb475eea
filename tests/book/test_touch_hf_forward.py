"""The figure of chapter 15 shows what runs in transformers."""

import pytest
import torch

import attn
from book.figures.hf_forward import CHOICES, PADDING, TOKENS, record
from tests.book.controls import PUT, numbers_of, opened_figure

pytest.importorskip("transformers")
pytestmark = pytest.mark.browser


forward = opened_figure("hf_forward")


TURN = f"""(place, chosen) => {{
    {PUT}
    ["attention", "model", "padding", "pass"].forEach(
        (label, i) => put(label, chosen[i]));
}}"""


def turn(figure, *chosen):
    figure.evaluate(TURN, list(chosen))


def shown(figure):
    """Who sees whom, a map for each kind of layer."""
    return figure.evaluate("""place => [...place.querySelectorAll(".map")]
        .map(map => [...map.querySelectorAll("rect")]
            .map(e => e.dataset.sees).join(""))""")


def leaks(figure):
    return figure.locator(".leak").count()


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
def test_calls_and_maps_equal_those_of_a_running_model(forward, name, rest):
    turn(forward, name, *rest)
    run = record(name, *rest)
    right = record("eager", *rest)
    pairs = zip(run["layers"], right["layers"], strict=True)
    kinds = dict.fromkeys((ran["sees"], eager["sees"]) for ran, eager in pairs)
    assert shown(forward) == [seen.replace("/", "") for seen, _ in kinds]
    assert forward.locator(".ran").count() == len(run["layers"])
    made = forward.locator(".made text").all_text_contents()
    assert len(made) == len(run["masks"])
    for words, mask in zip(made, run["masks"], strict=True):
        assert words.endswith(mask)
    announced = numbers_of(forward.locator("[aria-live]").inner_text())
    assert announced[:2] == [len(run["layers"]), len(run["masks"])]


def test_the_map_of_real_tokens_equals_attns_mask(forward):
    real = torch.arange(TOKENS)[None] >= PADDING
    mask = attn.causal() & attn.padding(real)
    expected = mask.dense(TOKENS)[0, 0, PADDING:].int()
    turn(forward, "own", "llama", "left", "prompt")
    [seen] = shown(forward)
    shown_mask = torch.tensor(list(map(int, seen))).view(TOKENS, TOKENS)
    assert torch.equal(shown_mask[PADDING:], expected.to(shown_mask.dtype))
    assert not leaks(forward)


def test_without_a_mask_the_future_and_the_padding_are_red(forward):
    turn(forward, "half", "llama", "left", "prompt")
    real = TOKENS - PADDING
    future, padding = real * (real - 1) // 2, real * PADDING
    assert leaks(forward) == future + padding
    assert forward.locator(".absent").count() == 1
    heard = forward.locator("[aria-live]").inner_text()
    assert numbers_of(heard)[2] == 4 * (future + padding)
    turn(forward, "half", "llama", "none", "token")
    assert not leaks(forward)
