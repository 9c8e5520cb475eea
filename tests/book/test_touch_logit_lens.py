"""The lens of chapter 9 shows what is baked: test_touch.py asks the model."""

import random

import pytest

from attn.exercises import sources
from attn.publishing import notebooks
from book.figures.logit_lens import GUESSES, QUESTIONS, WORDS
from tests.book.controls import PUT, baked, numbers_of, opened_figure

#: Everything that the figure shows, in each of some states.
STATES = f"""(place, states) => states.map(([question, word, block]) => {{
    {PUT}
    const all = selector => [...place.querySelectorAll(selector)];
    put("question", question);
    all("[role=radio]")[word].click();
    put("blocks so far", block);
    const rows = all(".race li").map(e => [Number(e.dataset.place),
        e.querySelector("b").textContent, Number(e.dataset.share)]);
    return {{
        code: place.querySelector(".touch-code code").textContent,
        heard: place.querySelector("[aria-live]").textContent,
        place: Number(place.querySelector(".dot").dataset.place),
        level: all(".slab").findIndex(e => e.classList.contains("now")),
        risen: all(".slab:not(.ahead)").length,
        writes: all(".slab + text").map(e => e.textContent),
        sentence: all("[role=radio] span").map(e => e.textContent),
        answer: all("[role=radio] small").map(e => e.textContent),
        settled: all("[role=radio].right").length,
        leads: place.querySelector(".leads").textContent,
        rows: rows.sort((a, b) => a[0] - b[0]),
    }};
}})"""


NUMBERS = baked("logit_lens")


def named(tokens):
    return [NUMBERS["names"][token] for token in tokens]


def first_words(lens, block):
    return named(guess[0] for guess in lens["guesses"][block])


def test_the_lens_begins_with_the_question_of_the_chapter():
    question = next(iter(QUESTIONS))
    cells = notebooks.read(sources.notebook_path("tfm")).cells
    assert any(f'QUESTION = "{question}"' in cell.source for cell in cells)


def test_the_last_block_writes_the_answer():
    lenses = NUMBERS["lenses"]
    assert [x["question"] for x in lenses] == list(QUESTIONS)
    words = [named(x["words"]) for x in lenses]
    assert " ".join(words[0]) == "The capital of France is Paris . (end)"
    chosen = [
        own[at] for own, at in zip(words, QUESTIONS.values(), strict=True)
    ]
    assert chosen == ["Paris", "cold", "Portuguese", "Venus"]
    for lens, own in zip(lenses, words, strict=True):
        assert len(own) == WORDS
        assert set(lens["places"][-1]) == {1}
        assert first_words(lens, -1) == own
        for block in lens["likely"]:
            for shares in block:
                assert shares == sorted(shares, reverse=True)
                assert len(shares) == GUESSES and sum(shares) < 1.003


lens = opened_figure("logit_lens", "light", 1280, "reduce")


@pytest.mark.browser
def test_every_state_shows_the_numbers_of_its_expression(lens):
    lenses, choose = NUMBERS["lenses"], random.Random(0)
    last = len(lenses[0]["places"]) - 1
    states = [
        (choose.randrange(4), choose.randrange(WORDS), choose.randint(0, last))
        for _ in "12345678"
    ]
    states += [(0, 5, 0), (0, 5, last), (3, 7, last)]
    shown = lens.evaluate(STATES, states)
    for (asked, word, block), seen in zip(states, shown, strict=True):
        own = lenses[asked]
        name, place = named(own["words"])[word], own["places"][block][word]
        code, _, question = seen["code"].partition("  # ")
        assert code == f"lens[{block}, {word}].softmax(-1).topk({GUESSES})"
        assert bool(question) == (asked > 0)
        assert own["question"] in question or not asked

        rows = zip(
            range(1, GUESSES + 1),
            named(own["guesses"][block][word]),
            own["likely"][block][word],
            strict=True,
        )
        expected = [list(row) for row in rows]
        if place > GUESSES:  # the awaited word, wherever it is
            expected.append([place, name, own["shares"][block][word]])
        assert seen["rows"] == expected

        assert seen["place"] == place
        assert seen["level"] == block and seen["risen"] == block + 1
        assert seen["writes"] == [
            first_words(own, at)[word] for at in range(last + 1)
        ]
        assert seen["sentence"] == first_words(own, block)
        assert seen["answer"] == named(own["words"])
        assert seen["settled"] == own["places"][block].count(1)
        column = [row[word] for row in own["places"]]
        [leads] = numbers_of(seen["leads"])
        assert set(column[int(leads) :]) == {1} and column[int(leads) - 1] > 1
        assert f"“{name}” is in place {place:,}" in seen["heard"]
        assert expected[0][2] in numbers_of(seen["heard"])


@pytest.mark.browser
def test_arrow_keys_move_the_lens_from_block_to_block(lens):
    for block, words in ((1, "After block 1 of 30"), (0, "Before the first")):
        lens.press_to("blocks so far", block)
        assert lens.heard().startswith(words)


@pytest.mark.browser
def test_the_level_follows_a_pointer_over_the_tower(lens):
    slider = lens.get_by_label("blocks so far", exact=True)
    slabs = lens.locator(".slab")
    edge = {"x": 2, "y": 4}  # beside the word
    slabs.nth(10).hover(position=edge)
    mouse = lens.page.mouse
    mouse.down()
    assert slider.input_value() == "10"
    slabs.nth(24).hover(position=edge)
    mouse.up()
    assert slider.input_value() == "24"
    slabs.nth(3).hover(position=edge)
    assert slider.input_value() == "24"


@pytest.mark.browser
def test_play_raises_the_level_to_the_last_block_and_stops(lens):
    slider = lens.get_by_label("blocks so far", exact=True)
    slider.fill("28")
    lens.get_by_role("button", name="Play").click()
    assert lens.get_by_role("button", name="Pause").is_visible()
    lens.get_by_role("button", name="Play").wait_for()
    assert slider.input_value() == "30"


@pytest.mark.browser
def test_a_word_keeps_its_row_while_it_climbs(lens):
    """Otherwise nothing would be seen to move: a new row just appears."""
    same = lens.evaluate(f"""place => {{
        {PUT}
        put("question", 0);
        const paris = () => place.querySelector(".race li.right");
        put("blocks so far", 26);
        const [row, before] = [paris(), paris().style.cssText];
        put("blocks so far", 30);
        return paris() === row && before !== row.style.cssText;
    }}""")
    assert same
