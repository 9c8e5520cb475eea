"""The figure of chapter 14 counts blocks as PyTorch's BlockMask does."""

import pytest
import torch

import attn
from book.figures.block_tiles import IDS, LENGTH, MASKS
from tests.book.controls import PUT, numbers_of, opened_figure

pytestmark = pytest.mark.browser

NAMES = vars(attn.masks) | {"ids": IDS}


tiles = opened_figure("block_tiles")


STATES = f"""(place, states) => states.map(([mask, size]) => {{
    {PUT}
    put("mask", mask);
    put("block size", size);
    return [place.querySelector("code").textContent,
        place.querySelector("[aria-live]").textContent,
        [...place.querySelectorAll(".block")].map(e =>
            ["empty", "partial", "full"].findIndex(
                kind => e.classList.contains(kind)))];
}})"""


def kinds_of(blocks):
    """Return 0 for an empty block, 1 for a partial one, 2 for a full one."""
    rows, columns = blocks.kv_indices.shape[-2:]
    kinds = torch.zeros(rows, columns, dtype=torch.long)
    for kind, counts, order in (
        (1, blocks.kv_num_blocks, blocks.kv_indices),
        (2, blocks.full_kv_num_blocks, blocks.full_kv_indices),
    ):
        for i in range(rows):
            kinds[i, order[0, 0, i, : counts[0, 0, i]].long()] = kind
    return kinds


def test_block_kinds_equal_those_of_the_shown_block_mask(tiles):
    states = [[name, size] for name in MASKS for size in (1, 4, 5, 12)]
    for (code, announcement, kinds), (name, _) in zip(
        tiles.evaluate(STATES, states), states, strict=True
    ):
        assert name in code
        expected = kinds_of(eval(code, NAMES))
        assert kinds == expected.flatten().tolist(), code
        full, partial = int((expected == 2).sum()), int((expected == 1).sum())
        visited, every = full + partial, expected.numel()
        pairs = MASKS[name].dense(LENGTH).float().mean()
        parts = [100 * visited / every, 100 * float(pairs)]
        numbers = numbers_of(announcement)
        assert numbers[:5] == [full, partial, every - visited, visited, every]
        assert numbers[5:] == pytest.approx(parts, abs=0.51)


def test_one_painted_pair_makes_an_empty_block_partial(tiles):
    tiles.evaluate(STATES, [["causal()", 4]])
    tiles.press_to("block size", 6)
    before = numbers_of(tiles.heard())
    board = tiles.locator(".touch-board")
    board.focus()
    for _ in range(LENGTH):
        board.press("ArrowRight")
        board.press("ArrowUp")
    board.press(" ")
    after = numbers_of(tiles.heard())
    assert after[1] == before[1] + 1
    assert after[2] == before[2] - 1
    assert tiles.locator("code").text_content() == "painted by hand"
    board.press(" ")
    assert numbers_of(tiles.heard()) == before


# Where pairs are on the board: the middle of the cell of a query and a key.
def pair(query, key):
    return (key + 0.5) / LENGTH, (query + 0.5) / LENGTH


def count_of_pairs(figure):
    return figure.locator("rect.on").count()


def test_a_dragged_mouse_paints_every_pair_on_its_way(tiles):
    tiles.evaluate(STATES, [["causal()", 4]])
    before = count_of_pairs(tiles)
    board = tiles.locator(".touch-board")
    tiles.drag(board, pair(0, 12), pair(0, 20))
    assert count_of_pairs(tiles) == before + 9
    tiles.drag(board, pair(0, 14), pair(0, 18))  # a stroke that takes away
    assert count_of_pairs(tiles) == before + 4


def test_a_finger_paints_on_the_board_and_scrolls_beside_it(tiles):
    tiles.evaluate(STATES, [["causal()", 4]])
    before = count_of_pairs(tiles)
    board, tab = tiles.locator(".touch-board"), tiles.page
    scrolled = "scrollY"
    devtools = tab.context.new_cdp_session(tab)

    def swipe(x, y, by):
        for step, kind in enumerate(("Start", "Move", "Move", "End")):
            points = [] if kind == "End" else [{"x": x, "y": y - step * by}]
            devtools.send(
                "Input.dispatchTouchEvent",
                {"type": f"touch{kind}", "touchPoints": points},
            )
        tab.wait_for_timeout(100)

    board.scroll_into_view_if_needed()
    at, start = board.bounding_box(), tab.evaluate(scrolled)
    cell = at["width"] / LENGTH
    swipe(at["x"] + 22.5 * cell, at["y"] + 8.5 * cell, 3 * cell)
    assert count_of_pairs(tiles) == before + 7
    assert tab.evaluate(scrolled) == start
    title = tiles.locator(".touch-title").bounding_box()
    swipe(title["x"] + 20, title["y"] + 5, -60)
    assert tab.evaluate(scrolled) < start
