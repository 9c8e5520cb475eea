"""The figure of chapter 6 weighs keys as ALiBi does."""

import pytest
import torch

import attn
from book.figures.alibi_reach import HEADS, LENGTH
from tests.book.controls import numbers_of, opened_figure

pytestmark = pytest.mark.browser


reach = opened_figure("alibi_reach")


def turn(figure, heads, query, keys="before"):
    figure.put(heads=heads, query_at=query, keys=keys)


def shown(figure):
    """The weights of the heads that are seen, (H, S)."""
    return torch.tensor(
        figure.evaluate("""place => [...place.querySelectorAll(
            ".head:not([visibility=hidden])")].map(row =>
            [...row.querySelectorAll("rect")].map(e =>
                Number(e.dataset.weight)))"""),
        dtype=torch.float32,
    )


def halves(weights):
    """How many of the largest weights make a half, in each head."""
    sums = weights.double().sort(-1, descending=True).values.cumsum(-1)
    return (1 + (sums < 0.5 - 1e-9).sum(-1)).tolist()


@pytest.mark.parametrize("keys", ["before", "both"])
@pytest.mark.parametrize(
    ("heads", "query"), [(1, 0), (6, 40), (8, 63), (HEADS, 17)]
)
def test_alibi_weights_equal_the_shown_expression(reach, heads, query, keys):
    turn(reach, heads, query, keys)
    expected = eval(reach.locator("code").text_content(), {"attn": attn})
    weights = shown(reach)
    assert weights.shape == (heads, LENGTH)
    torch.testing.assert_close(
        weights[:, : expected.shape[1]], expected, atol=1e-5, rtol=1e-4
    )
    assert not weights[:, expected.shape[1] :].any()
    texts = reach.locator(".head:not([visibility=hidden]) text:last-child")
    written = [int(x) for x in texts.all_text_contents()]
    assert written == halves(expected)


def test_the_announcement_names_the_steepest_and_the_flattest_head(reach):
    turn(reach, 6, 63)
    slopes = attn.alibi_slopes(6)
    want = eval(reach.locator("code").text_content(), {"attn": attn})
    near = halves(want)
    steep, flat = int(slopes.argmax()), int(slopes.argmin())
    numbers = numbers_of(reach.heard().partition("nearest keys have. ")[0])
    assert numbers == [6, 63, steep, near[steep], flat, near[flat]]
    assert "head 4 starts again" in reach.heard()
    reach.press_to("heads", 8)
    assert "A power of two" in reach.heard()


def test_later_keys_have_weight_only_in_an_encoder(reach):
    turn(reach, 4, 10)
    assert not shown(reach)[:, 11:].any()
    turn(reach, 4, 10, "both")
    weights = shown(reach)
    torch.testing.assert_close(weights[:, 11:21], weights[:, :10].flip(-1))


def test_the_query_is_dragged_across_the_keys(reach):
    turn(reach, 8, 63)
    at = (84 + 264 * 10.5 / LENGTH) / 376
    reach.drag(reach.locator(".touch-board"), (0.9, 0.5), (at, 0.5))
    assert numbers_of(reach.heard())[:2] == [8, 10]
