"""The lens of chapter 9 shows what is baked: test_touch.py asks the model."""

import json
import random

import pytest

from attn.exercises import sources
from attn.publishing import notebooks
from book.figures.bake import FOLDER
from book.figures.logit_lens import QUESTION
from tests.book.controls import PUT, numbers_of, opened_figure, press_to

STATES = f"""(place, states) => states.map(([word, block]) => {{
    {PUT}
    put("word", word);
    put("blocks so far", block);
    const all = selector => [...place.querySelectorAll(selector)];
    return [place.querySelector("code").textContent,
        place.querySelector("[aria-live]").textContent,
        Number(place.querySelector(".dot").dataset.place),
        all(".bar").map(e => [e.nextSibling.textContent,
            Number(e.dataset.share)])];
}})"""


def baked():
    text = (FOLDER / "logit_lens.data.js").read_text("utf-8")
    return json.loads(text.partition(" = ")[2].rstrip(";\n"))


def test_the_lens_has_the_question_of_the_chapter():
    cells = notebooks.read(sources.notebook_path("tfm")).cells
    assert any(f'QUESTION = "{QUESTION}"' in cell.source for cell in cells)


def test_the_last_block_writes_the_answer():
    numbers = baked()
    assert "".join(numbers["words"][:3]) == "Thecapitalof"
    assert set(numbers["places"][-1]) == {1}
    last = [best[0][0] for best in numbers["guesses"][-1]]
    assert last == numbers["words"]
    for block in numbers["guesses"]:
        for best in block:
            shares = [p for _, p in best]
            assert shares == sorted(shares, reverse=True)


lens = opened_figure("logit_lens", "light", 1280)


@pytest.mark.browser
def test_every_state_shows_the_numbers_of_its_expression(lens):
    numbers, choose = baked(), random.Random(0)
    words, last = numbers["words"], len(numbers["places"]) - 1
    states = [
        (choose.choice(words), choose.randint(0, last)) for _ in "123456"
    ]
    states += [("Paris", 0), ("Paris", last)]
    shown = lens.evaluate(STATES, states)
    for (word, block), (code, announcement, place, bars) in zip(
        states, shown, strict=True
    ):
        i = words.index(word)
        assert code == f"lens[{block}, {i}].softmax(-1).topk(4)"
        assert place == numbers["places"][block][i]
        assert bars == numbers["guesses"][block][i]
        heard = announcement.replace(",", "")
        assert f"“{word}” is in place {place}" in heard
        assert bars[0][1] in numbers_of(heard)


@pytest.mark.browser
def test_arrow_keys_move_the_lens_from_block_to_block(lens):
    heard = lens.locator("[aria-live]")
    press_to(lens, "blocks so far", 1)
    assert heard.inner_text().startswith("After block 1 of 30")
    press_to(lens, "blocks so far", 0)
    assert heard.inner_text().startswith("Before the first block")
