"""The states of chapter 19's figure are those that attn computes."""

import pytest
import torch

import attn
from book.figures import linear_state as baked
from tests.book.controls import PUT, numbers_of, opened_figure

state = opened_figure("linear_state")

# Choose a text and a rule, then go to each token; look.
STEPS = f"""(place, [text, rule, tokens]) => {{
    {PUT}
    put("text", text);
    put("rule", rule);
    put("beside it", rule);
    const texts = (what) => [...place.querySelectorAll(what)].map(
        e => e.textContent);
    return Array.from({{length: tokens}}, (_, n) => {{
        put("token", n + 1);
        const look = board => [
            [...board.querySelectorAll(".cell + text")].map(
                e => e.textContent),
            [...board.querySelectorAll("g")].filter(
                e => e.getAttribute("visibility") === "visible").map(e => [
                    e.querySelector("text").textContent,
                    [...e.querySelectorAll(":not(.hold) + text")].slice(
                        -4).map(x => x.textContent)])];
        return {{
            code: place.querySelector("code").textContent,
            both: [...place.querySelectorAll(".state")].map(look),
            heard: place.querySelector("[aria-live]").innerText,
        }};
    }});
}}"""


def close(shown, expected):
    got = torch.tensor([numbers_of(x)[0] for x in shown])
    torch.testing.assert_close(got, expected, atol=0.0061, rtol=0)


@pytest.mark.browser
def test_the_state_and_what_is_read_equal_the_shown_expression(state):
    for text in baked.TEXTS:
        keys, values = baked.tensors(text)
        L = keys.shape[1]
        for rule, (log, beta) in baked.RULES.items():
            names = {"attn": attn, "k": keys, "v": values}
            names["g"] = torch.full((1, L), log)
            names["beta"] = torch.full((1, L), beta or 0.0)
            steps = state.evaluate(STEPS, [text, rule, L])
            for n, seen in enumerate(steps, 1):
                _, expected = eval(seen["code"], names)
                (cells, reads), beside = seen["both"]
                assert beside == [cells, reads]
                close(cells, expected[0].flatten())
                said = list(
                    dict.fromkeys(k for k, _ in baked.tokens(text)[:n])
                )
                assert [word for word, _ in reads] == said
                for word, shown in reads:
                    read = torch.tensor(baked.KEYS[word]) @ expected[0]
                    close(shown, read)


@pytest.mark.browser
def test_the_words_name_the_keys_that_read_something_else(state):
    """With unit keys at right angles, replacing is right; adding is not."""
    text = "a key that comes again"
    *_, replaced = state.evaluate(STEPS, [text, "replace, beta 1", 6])
    assert "all keys as stored." in replaced["heard"]
    *_, added = state.evaluate(STEPS, [text, "add", 6])
    assert "not as stored: sky and grass" in added["heard"]
    *_, full = state.evaluate(
        STEPS, ["more keys than rows", "replace, beta 1", 5]
    )
    assert "not as stored" in full["heard"]
    assert len(baked.COLOURS) == 4


@pytest.mark.browser
def test_two_rules_are_side_by_side_and_a_key_leads_to_its_tokens(state):
    state.put(text="a key that comes again", token=1, rule="add")
    state.put(beside_it="replace, beta 1")
    key = state.locator(".state").first.locator("g:visible").first
    for token in (4, 6, 1):  # sky is written thrice
        key.click()
        assert f"Token {token} writes" in state.heard()
    state.put(token=4)
    said = state.heard()
    assert "“add” found" in said and "not as stored: sky." in said
    assert "“replace, beta 1” found" in said
    assert said.endswith("all keys as stored.")
