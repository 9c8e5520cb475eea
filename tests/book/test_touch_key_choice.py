"""The figure of chapter 18 reads the keys that the chapter's functions do."""

import math

import pytest
import torch

from attn import masks
from book.figures.key_choice import BLOCK, PAIRS
from tests.book.controls import PUT, baked, numbers_of, opened_figure

pytestmark = pytest.mark.browser

choice = opened_figure("key_choice")

WAYS = "own keys", "indexer"
STATE = f"""(place, [way, question, budget]) => {{
    {PUT}
    place.querySelectorAll("button.touch-button")[way].click();
    put("question", question);
    put("keys read", budget);
    const cells = [...place.querySelectorAll(".choice rect:not(.frame)")];
    return [cells.map(e => e.classList.contains("read")),
        cells.map(e => Number(e.dataset.share)),
        place.querySelector("code").textContent];
}}"""


def scores_of_answers():
    """Where the answers are, and the scores of keys, own and learned."""
    found, scores = baked("key_choice"), []
    for name in ("own", "learned"):
        rows = torch.full((PAIRS, 2 * PAIRS), -math.inf)
        for i, row in enumerate(found[name]):
            rows[i, : len(row)] = torch.tensor(row).float()
        scores.append(rows)
    return found["place"], scores


def read_by(way, budget):
    """Choose with attn, for all questions: ``(48, 96)``."""
    scores = scores_of_answers()[1][way % 2]
    options = {"q_offset": PAIRS}
    if way < 2:
        chosen = masks.top_k(scores, budget, masks.causal(), **options)
        return chosen.dense(PAIRS, 2 * PAIRS, **options)[0, 0]
    blocks = scores.unflatten(-1, (-1, BLOCK))
    pooled = blocks.amax(-1) if way == 3 else blocks.mean(-1)
    own = torch.arange(PAIRS, 2 * PAIRS) // BLOCK
    pooled[torch.arange(PAIRS), own] = 1e9  # read in any case
    allowed = torch.arange(2 * PAIRS // BLOCK) <= own[:, None]
    chosen = masks.top_k(pooled, budget // BLOCK, allowed)
    keep = chosen.dense(*pooled.shape)[0, 0].repeat_interleave(BLOCK, -1)
    return keep & scores.isfinite()


@pytest.mark.parametrize("way", range(4))
def test_the_keys_that_are_read_equal_those_that_attn_chooses(choice, way):
    place, (own, _) = scores_of_answers()
    weights = (own / 100).softmax(-1)
    for question, budget in ((1, 1), (20, 2), (33, 3), (48, 5), (48, 12)):
        read, shares, code = choice.evaluate(STATE, [way, question, budget])
        keep = read_by(way, BLOCK * budget)
        assert read == keep[question - 1].tolist()
        assert shares == pytest.approx(
            weights[question - 1].tolist(), abs=1e-5
        )
        number = BLOCK * budget if way != 2 else budget
        assert str(number) in code
        said = numbers_of(choice.heard())
        kept = 100 * (weights * keep)[question - 1].sum().item()
        right = sum(keep[i, at].item() for i, at in enumerate(place))
        assert said[:3] == [question, PAIRS + question, sum(read)]
        assert said[3] == pytest.approx(kept, abs=0.51)
        assert said[4:] == [place[question - 1], PAIRS, right]


def test_an_indexer_reads_more_answers_than_a_mean_with_16_keys(choice):
    choice.evaluate(STATE, [2, 1, 2])
    shown = choice.locator(".choices small").all_inner_texts()
    tokens, learned, means, blocks = (numbers_of(x)[0] for x in shown)
    assert tokens == PAIRS
    assert learned > PAIRS - 3
    assert means < blocks


def test_a_key_that_is_pressed_is_asked_for(choice):
    place, _ = scores_of_answers()
    for key in (5, 30, 60):
        choice.locator(".choice > rect:not(.frame)").nth(key).click()
        asked = int(numbers_of(choice.heard())[0]) - 1
        assert key in (place[asked], PAIRS + asked)


def test_the_budget_moves_by_arrow_keys(choice):
    choice.evaluate(STATE, [2, 20, 2])
    before = choice.heard()
    choice.press_to("keys read", 3)
    assert choice.heard() != before
