"""The search, asked as a newcomer asks: in words of his own, and misspelt."""

import json
import os
import sys

import pytest

from tests.book.conftest import Visit
from tests.book.pages import ROOT
from tests.processes import run

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
# Written down before their results were looked at.
ASKED_LATER = {
    "dropout": ["notebooks/04_multi_head", "book/glossary.html#term-dropout"],
    "why is my output nan": [
        "notebooks/03_masks",
        "book/glossary.html#term-dead-row",
    ],
    "padding": ["notebooks/03_masks", "book/glossary.html#term-padding"],
    "transformer block": ["notebooks/09_transformer"],
    "feed forward": ["notebooks/09_transformer"],
    "softmax overflow": [
        "notebooks/02_scaled_dot_product",
        "notebooks/11_online_softmax",
    ],
    "mqa": ["notebooks/05_gqa", "book/glossary.html#term-MQA"],
    "load llama weights": [
        "notebooks/09_transformer",
        "notebooks/15_attention_interface",
    ],
    "how much memory does the kv cache need": [
        "notebooks/10_kv_cache",
        "notebooks/05_gqa",
    ],
    "residual connection": [
        "notebooks/09_transformer",
        "book/glossary.html#term-residual-stream",
    ],
    "generate text": ["notebooks/09_transformer", "notebooks/10_kv_cache"],
    "temperature": [
        "notebooks/09_transformer",
        "book/glossary.html#term-temperature",
    ],
    "triton tutorial": ["notebooks/12_fused_forward"],
    "gpu memory": [
        "notebooks/12_fused_forward",
        "book/glossary.html#term-shared-memory",
    ],
    "long context": [
        "notebooks/07_rope",
        "notebooks/06_positions",
        "notebooks/17_many_machines",
    ],
    "mamba": ["notebooks/19_linear"],
    "deepseek": ["notebooks/18_latent_sparse"],
    "vllm": ["notebooks/16_serving"],
    "roatry embeding": ["notebooks/07_rope"],
    "backpropagation": ["notebooks/13_fused_backward_decode"],
}
FOUND = """query => Search._performSearch(query).reverse().slice(0, 3)
    .map(([page, , anchor]) => `${page}.html${anchor}`)"""


@pytest.mark.parametrize("changed", [[], ["b"], ["a", "b"]], ids=len)
def test_a_second_build_finds_what_is_on_the_other_pages(tmp_path, changed):
    def index():
        command = [sys.executable, "-m", "sphinx", "-q", "-W", "-C"]
        command += ["-D", "extensions=attn_book.search", "-d", "trees"]
        places = {**os.environ, "PYTHONPATH": str(ROOT / "book" / "ext")}
        done = run(*command, ".", "html", cwd=tmp_path, env=places)
        assert done.returncode == 0, done.stderr
        text = (tmp_path / "html" / "searchindex.js").read_text("utf-8")
        return json.loads(text.partition("(")[2].rpartition(")")[0])

    tree = "index\n=====\n\n.. toctree::\n\n   a\n   b\n"
    (tmp_path / "index.rst").write_text(tree)
    for name, word in (("a", "zebra"), ("b", "yak")):
        text = f"{name}\n=\n\nA {word}.\n\nMore\n----\n\nEven a {word}.\n"
        (tmp_path / f"{name}.rst").write_text(text)
    before = index()
    assert len(before["places"]) == 5
    assert len(before["terms"]["zebra"]) == len(before["terms"]["yak"]) == 4
    for name in changed:
        file = tmp_path / f"{name}.rst"
        file.write_text(file.read_text().replace("Even", "Once more"))
    after = index()
    assert after["places"][:1] == before["places"][:1]
    assert len(after["places"]) == 5
    for word in ("zebra", "yak"):
        assert after["terms"][word] == before["terms"][word]
    assert ("onc" in after["terms"]) == bool(changed)


@pytest.fixture(scope="module")
def search(browser, address):
    with Visit(browser, address, "search", asked="?q=softmx") as seen:
        seen.tab.wait_for_selector("ul.search li a")
        yield seen.tab


@pytest.mark.browser
@pytest.mark.parametrize("asked", [ASKED, ASKED_LATER], ids=["first", "later"])
def test_of_twenty_questions_eighteen_are_answered_by_the_first_three(
    search, asked
):
    lost = {}
    for query, places in asked.items():
        found = search.evaluate(FOUND, query)
        if not any(x.startswith(tuple(places)) for x in found):
            lost[query] = found
    assert len(asked) == 20
    assert len(lost) <= 2, lost


@pytest.mark.browser
def test_a_letter_that_is_wrong_is_forgiven_and_said(search):
    text = search.locator("#search-results").inner_text()
    assert "No page has “softmx”. These have “softmax”." in text
    right = search.evaluate(FOUND, "attention")
    for wrong in ("atention", "attentoin", "attenntion", "attentiom"):
        assert search.evaluate(FOUND, wrong) == right


@pytest.mark.browser
def test_a_result_leads_to_a_section_that_exists(search):
    link = search.locator("ul.search li a", has_text="Exercise: softmax")
    link.first.click()
    search.wait_for_url("**#exercise-softmax")
    assert search.locator(":target").is_visible()
    search.go_back()
