"""The figure of chapter 17 turns the ring as attn.distributed does."""

import pytest
import torch

import attn
from attn import distributed
from book.figures.ring_turn import LAYOUTS, RANKS, SIZES, owners, sent
from tests.book.controls import PUT, numbers_of, opened_figure

ring = opened_figure("ring_turn")

STATE = f"""(place, [ranks, causal, zigzag]) => {{
    {PUT}
    put("ranks", ranks);
    put("causal", causal);
    put("zigzag", zigzag);
    const read = (what) => [
        ...place.querySelectorAll(`[data-${{what}}]`)].map(
        e => Number(e.dataset[what]));
    return Array.from({{length: ranks}}, (_, n) => {{
        put("step", n + 1);
        const alive = [...place.querySelectorAll(".alive")].map(
            e => [Number(e.dataset.rank), Number(e.dataset.key)]);
        return {{ block: read("block"), work: read("work"), alive,
            heard: place.querySelector("[aria-live]").innerText }};
    }});
}}"""


def test_pieces_have_their_owners():
    assert owners(3, "zigzag") == [0, 1, 2, 2, 1, 0]
    assert owners(3, "contiguous") == [0, 0, 1, 1, 2, 2]
    assert set(owners(5, "zigzag")) == set(range(5))


def shares(ranks, layout, causal):
    """Return the share of pairs that may attend, by rank and step."""
    pieces = [
        distributed.shard_positions(2 * ranks, rank, ranks, layout=layout)
        for rank in range(ranks)
    ]
    # Each piece is made long, so that half of its own pairs may attend.
    tokens = [
        (100 * x[:, None] + torch.arange(100)).flatten().double()
        for x in pieces
    ]
    found = []
    for rank, rows in enumerate(tokens):
        row = [tokens[(rank - step) % ranks] for step in range(ranks)]
        seen = [(rows[:, None] >= x) | (not causal) for x in row]
        found.append([x.double().mean().item() for x in seen])
    return found


@pytest.mark.browser
@pytest.mark.parametrize(
    ("ranks", "causal", "zigzag"),
    [(2, True, True), (3, True, False), (5, True, True), (4, False, True)],
)
def test_blocks_work_and_bytes_are_those_of_a_ring(
    ring, ranks, causal, zigzag
):
    layout = LAYOUTS[zigzag]
    expected = shares(ranks, layout, causal)
    slowest = [max(row[at] for row in expected) for at in range(ranks)]
    busy = sum(map(sum, expected)) / (ranks * sum(slowest))
    states = ring.evaluate(STATE, [ranks, causal, zigzag])
    for step, state in enumerate(states):
        assert state["block"] == [(r - step) % ranks for r in range(ranks)]
        assert {(r - k) % ranks for r, k in state["alive"]} <= {step}
        work = torch.tensor(state["work"]).float().view(ranks, ranks)
        close = torch.tensor(expected)
        torch.testing.assert_close(work, close, rtol=0, atol=0.006)
        *_, mib, share = numbers_of(state["heard"])
        assert mib == round(sent(ranks) / 2**20)
        assert abs(share - 100 * busy) < 1.5
    assert "nothing is sent" in states[-1]["heard"]


@pytest.mark.browser
def test_arrow_keys_turn_the_ring(ring):
    ring.evaluate(STATE, [4, True, True])
    ring.press_to("step", 1)
    ring.press_to("step", 3)
    assert "rank 0 has the keys of rank 2" in ring.heard()
    code = ring.locator("code").text_content()
    assert eval(code, {"attn": attn}).tolist() == [0, 7]


@pytest.mark.browser
def test_a_press_on_a_rank_tells_of_it(ring):
    ring.evaluate(STATE, [4, True, True])
    ring.put(step=2)
    ring.locator(".rank").nth(2).click(force=True)
    assert "rank 2 has the keys of rank 1 and sends them to rank 3" in (
        ring.heard()
    )
    ring.locator("[data-work]").nth(3).click(force=True)  # rank 0, step 4
    assert ring.heard().startswith("Step 4 of 4: rank 0 has")


def test_the_bytes_are_those_of_a_layer_of_llama():
    assert sent(4) == distributed.traffic("ring", 4, **SIZES)
    assert list(RANKS) == [2, 3, 4, 5, 6]
