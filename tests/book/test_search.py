"""The search, asked as a newcomer asks: in words of his own, and misspelt."""

import pytest

from tests.book.conftest import Visit

pytestmark = pytest.mark.browser

#: What is asked, and where the answers are: beginnings of addresses.
ASKED = {
    "causal mask": ["notebooks/03_masks"],
    "paged attention": ["notebooks/16_serving"],
    "flash attention": ["notebooks/12_fused_forward"],
    "softmax": ["notebooks/02_scaled_dot_product"],
    "why do we divide by sqrt": [
        "notebooks/02_scaled_dot_product.html#why-divide-by-sqrt-d"
    ],
    "softmx": ["notebooks/02_scaled_dot_product"],
    "kv cache": ["notebooks/10_kv_cache"],
    "rope": ["notebooks/07_rope"],
    "what is a query": [
        "book/glossary.html#term-query",
        "notebooks/02_scaled_dot_product.html#query-key-value-why-three",
    ],
    "multi head attention": ["notebooks/04_multi_head"],
    "grouped query attention": ["notebooks/05_gqa"],
    "sliding window": ["notebooks/03_masks.html#only-the-last-few"],
    "positional encoding": ["notebooks/06_positions"],
    "transformer from scratch": ["notebooks/09_transformer"],
    "layer norm": ["notebooks/09_transformer"],
    "attenion sink": ["book/glossary.html#term-attention-sink"],
    "cross attention": ["notebooks/04_multi_head.html#cross-attention"],
    "speculative decoding": ["notebooks/10_kv_cache"],
    "linear attention": ["notebooks/19_linear"],
    "quantization": ["notebooks/10_kv_cache"],
}
FOUND = """query => Search._performSearch(query).reverse().slice(0, 3)
    .map(([page, , anchor]) => `${page}.html${anchor}`)"""


@pytest.fixture(scope="module")
def search(browser, address):
    with Visit(browser, address, "search", asked="?q=softmx") as seen:
        seen.tab.wait_for_selector("ul.search li a")
        yield seen.tab


def test_of_twenty_questions_eighteen_are_answered_by_the_first_three(search):
    lost = {}
    for query, places in ASKED.items():
        found = search.evaluate(FOUND, query)
        if not any(x.startswith(tuple(places)) for x in found):
            lost[query] = found
    assert len(ASKED) == 20
    assert len(lost) <= 2, lost


def test_a_letter_that_is_wrong_is_forgiven_and_said(search):
    text = search.locator("#search-results").inner_text()
    assert "No page has “softmx”. These have “softmax”." in text
    right = search.evaluate(FOUND, "attention")
    for wrong in ("atention", "attentoin", "attenntion", "attentiom"):
        assert search.evaluate(FOUND, wrong) == right


def test_a_result_leads_to_a_section_that_exists(search):
    link = search.locator("ul.search li a", has_text="Exercise: softmax")
    link.first.click()
    search.wait_for_url("**#exercise-softmax")
    assert search.locator(":target").is_visible()
    search.go_back()
